import pytest

from repro.report.compare import compare
from repro.report.figures import MEMORIES
from repro.report.memories import memories
from repro.report.page import render
from repro.report.panels import LEFT, RIGHT, WIDTH
from tests.report.grids import grid, record
from tests.report.svg import lines, panels, words

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
    assert {"density", "draws", "layer 1", "layer 2", "layer 10"} <= set(words(plot.data))
    assert "nothing" not in words(plot.data)
    density, draws = panels(plot.data)
    assert (len(lines(density)), len(lines(draws))) == (3, 1)


def test_points_lie_in_the_middle_of_their_parts(house):
    record(house, house.recipe("big"), scale="paper", profiles={"density/layer 1": [0.0, 1.0, 0.0, 0.0]})
    (plot,) = memories(compare())
    (panel,) = panels(plot.data)
    (places,) = lines(panel)
    shares = [(x - LEFT) / (WIDTH - RIGHT - LEFT) * 1.04 for x, _ in places]  # the axis is wider by 0.04
    assert shares == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.003)
    assert min(places, key=lambda place: place[1]) == places[1], "the peak"


def test_the_page_shows_it_with_its_run(house):
    record(house, house.recipe("big"), scale="paper", profiles=PROFILES)
    comparison = compare()
    plots = memories(comparison)
    said = render(comparison, [], plots)
    assert said.count(f'aria-label="{plots[0].caption}"') == 1
    assert f"<h4>{MEMORIES}</h4>" not in said, "figures of a single experiment stand with its runs"


def test_no_profile_no_figure(house):
    record(house, house.recipe("big"), scale="paper")
    assert memories(compare()) == []
