from repro.evidence.compare import compare
from repro.report.plots.plot import MEMORIES
from repro.report.plots.recorded import memories
from tests.report.grids import grid, record

PROFILES = {
    "density/layer 1": [0.5, 1.5],
    "density/layer 10": [1.0, 1.0, 4.0],
    "density/layer 2": [2.0, 0.0],
    "draws/layer 2": [0, 3],
    "nothing/layer 2": [],
}


def test_a_figure_of_the_first_seed_that_has_profiles(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", 1)
    record(house, "toy/grid@a", 2, profiles=PROFILES)
    record(house, "toy/grid@a", 3, profiles=PROFILES)
    record(house, "toy/grid@b", 1, profiles={"nothing/layer 1": []})
    (plot,) = memories(compare())
    assert (plot.name, plot.kind) == ("toy--grid@a--cpu--memory-s2.svg", MEMORIES)
    assert plot.caption.startswith("toy · grid@a · cpu: ")
    assert "seed 2" in plot.caption
    chart = plot.content
    assert list(chart.names) == ["layer 1", "layer 2", "layer 10"]
    assert [panel.y_label for panel in chart.panels] == ["density", "draws"]
    density, draws = chart.panels
    assert [line.look for line in density.lines] == [0, 2, 1]
    assert [line.look for line in draws.lines] == [1]


def test_points_lie_in_the_middle_of_their_parts(house):
    record(house, house.recipe("big"), scale="paper", profiles={"density/layer 1": [0.0, 1.0, 0.0, 0.0]})
    (plot,) = memories(compare())
    ((line,),) = [panel.lines for panel in plot.content.panels]
    assert line.points == [(0.125, 0.0), (0.375, 1.0), (0.625, 0.0), (0.875, 0.0)]


def test_no_profile_no_figure(house):
    record(house, house.recipe("big"), scale="paper")
    assert memories(compare()) == []
