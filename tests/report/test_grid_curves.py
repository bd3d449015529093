import pytest

from repro.evidence.compare import compare
from repro.report.plots.grid_curves import grid_curves, mean_curve
from repro.report.plots.plot import SIDES
from tests.report.grids import grid, record

FALLING = {"train/loss": [[0, 3.0], [50, 2.0], [100, 1.0]], "val/loss": [[50, 2.0], [100, 1.0]]}


def drawn():
    return {plot.name: plot for plot in grid_curves(compare())}


def test_two_points_at_a_scale_make_a_figure(house):
    grid(house, "a", "b", "c")
    record(house, "toy/grid@a", curves=FALLING)
    record(house, "toy/grid@b", scale="paper", curves=FALLING)
    assert drawn() == {}
    record(house, "toy/grid@b", curves=FALLING)
    record(house, house.recipe("big"), scale="paper")  # no grid
    (plot,) = drawn().values()
    assert plot.name == "toy--grid--points--cpu.svg"
    assert plot.kind == SIDES
    assert plot.caption == "toy · grid · cpu: learning curves of 2 points side by side, 1 seed"
    chart = plot.content
    assert (chart.title, chart.names) == ("toy/grid, scale cpu, 1 seed", ["a", "b"])
    assert [panel.y_label for panel in chart.panels] == [
        "train/loss (nats per token)",
        "val/loss (nats per token)",
    ]
    assert [[line.look for line in panel.lines] for panel in chart.panels] == [[0, 1], [0, 1]]


def test_a_panel_for_what_two_points_share_in_one_look_per_point(house):
    grid(house, "a", "b", "c")
    only = {"val/only": [[0, 1.0]], "train/lr": [[0, 1.0]]}
    record(house, "toy/grid@a", curves={**FALLING, **only})
    record(house, "toy/grid@b", curves={"train/loss": FALLING["train/loss"], "train/lr": [[0, 1.0]]})
    record(house, "toy/grid@c", curves=FALLING)
    (plot,) = drawn().values()
    train, val = plot.content.panels
    assert (train.y_label, val.y_label) == ("train/loss (nats per token)", "val/loss (nats per token)")
    assert [line.look for line in val.lines] == [0, 2]  # b has its look without a line here


def test_points_that_share_no_curve_make_no_figure(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", curves={"val/x": [[0, 1.0]]})
    record(house, "toy/grid@b", curves={"val/y": [[0, 1.0]]})
    assert drawn() == {}


def test_means_at_the_steps_that_all_seeds_have():
    assert mean_curve([[[0, 1.0], [5, 3.0], [9, 1.0]], [[5, 5.0], [0, 2.0]]]) == [(0, 1.5), (5, 4.0)]
    assert mean_curve([[[0, 1.0], [5, None]], [[0, 2.0], [5, 1.0]]]) == [(0, 1.5), (5, None)]
    assert mean_curve([[[0, 1.0]], [[1, 1.0]]]) == []


def three_seeds(house, point, spread=1.0):
    for seed in (1, 2, 3):
        curve = [[x, spread * seed] for x in (0, 10)]
        record(house, f"toy/grid@{point}", seed, curves={"val/loss": curve})


def test_seeds_are_thin_lines_about_their_mean(house):
    grid(house, "a", "b")
    three_seeds(house, "a")
    record(house, "toy/grid@b", curves={"val/loss": [[0, 2.0], [10, 2.0]]})
    (plot,) = drawn().values()
    (panel,) = plot.content.panels
    assert [line.points[0][1] for line in panel.lines if line.thin] == [1.0, 2.0, 3.0]
    assert [(line.look, line.points[0][1]) for line in panel.lines if not line.thin] == [(0, 2.0), (1, 2.0)]
    assert "means of 1 to 3 seeds" in plot.caption


def test_seeds_of_many_points_are_not_drawn(house):
    points = [f"p{n}" for n in range(5)]
    grid(house, *points)
    for point in points:
        three_seeds(house, point)
    (plot,) = drawn().values()
    assert [line.thin for line in plot.content.panels[0].lines] == [False] * 5
    assert plot.content.title == "toy/grid, scale cpu, means of 3 seeds"


def test_seeds_without_a_common_step_are_drawn_themselves(house):
    points = [f"p{n}" for n in range(5)]
    grid(house, *points)
    for point in points:
        record(house, f"toy/grid@{point}", 1, curves={"val/loss": [[0, 1.0], [2, 1.0]]})
    record(house, "toy/grid@p0", 2, curves={"val/loss": [[1, 3.0], [3, 3.0]]})
    (plot,) = drawn().values()
    assert sorted(line.thin for line in plot.content.panels[0].lines) == [False] * 4 + [True] * 2


@pytest.mark.parametrize(("low", "log"), [(0.01, True), (0.5, False)])
def test_a_wide_range_is_logarithmic(house, low, log):
    grid(house, "a", "b")
    for point in "ab":
        record(house, f"toy/grid@{point}", curves={"val/loss": [[0, 2.0], [10, low]]})
    (plot,) = drawn().values()
    assert plot.content.panels[0].log_y is log


def test_superseded_records_are_left_out(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", curves=FALLING)
    record(house, "toy/grid@b", curves=FALLING, config_hash="0" * 64)
    assert drawn() == {}
