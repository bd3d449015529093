import pytest

from repro.report.compare import compare
from repro.report.curves import by_seed, curves
from tests.report.svg import lines, root_of, words


def drawn():
    return {plot.name: plot.data for plot in curves(compare())}


@pytest.fixture
def figures(house):
    house.run(house.recipe("big"), [30.0, 29.0])
    return drawn()


def test_one_figure_per_experiment_and_scale(house, figures):
    assert set(figures) == {"toy--big--paper.svg"}
    house.recipe("big", scale="cpu", width=2)
    house.run("toy/big", [10.0], "cpu")
    assert set(drawn()) == {"toy--big--paper.svg", "toy--big--cpu.svg"}


def test_figures_name_axes_units_and_seeds(figures):
    (svg,) = figures.values()
    wanted = {"train/loss (nats per token)", "val/bleu (BLEU)", "optimiser steps", "seed 1", "seed 2"}
    assert wanted | {"toy/big, scale paper"} <= set(words(svg))


def test_a_line_per_seed_in_every_panel(figures):
    (svg,) = figures.values()
    assert [len(points) for points in lines(root_of(svg))] == [3, 3, 2, 2]


def test_a_falling_curve_falls_within_its_panel():
    svg = by_seed("t", {"val/loss": {0: [[0, 3.0], [50, 2.0], [100, 1.0]]}}, {})
    xs, ys = zip(*lines(root_of(svg))[0], strict=True)
    assert xs == tuple(sorted(xs))
    assert ys == tuple(sorted(ys))  # in SVG, y grows downwards
    assert ys[1] == pytest.approx((ys[0] + ys[2]) / 2, abs=0.1)
    assert 62 <= xs[0] < xs[-1] <= 304
    assert 8 <= ys[0] < ys[-1] <= 184


def test_bytes_depend_on_the_records_that_count_alone(house, figures):
    assert drawn() == figures
    house.record("toy/big", 1, 25.0, finished="2026-05-01T00:00:00Z")  # the first record of a seed counts
    house.record("toy/big", 100, 25.0, finished="2026-05-01T00:00:00Z")
    assert drawn() == figures
    house.record("toy/big", 3, 25.0)
    assert drawn() != figures


def test_a_diverged_curve_breaks_and_an_odd_name_is_shown(house):
    odd = "val/<b> & \x1b[1m$x$"
    curve = [[0, 1.0], [1, 2.0], [2, float("nan")], [3, 3.0]]
    house.record(house.recipe("big"), 1, 30.0, curves={odd: curve, "val/none": [], "test/x": [[0, 1.0]]})
    (svg,) = drawn().values()
    assert [len(points) for points in lines(root_of(svg))] == [2, 1]
    assert "val/<b> & \N{REPLACEMENT CHARACTER}[1m$x$" in words(svg)
    assert not any("none" in w or "test/x" in w for w in words(svg))


def test_no_figure_without_curves(house):
    house.record(house.recipe("big"), 1, 30.0, curves={"val/x": [[0, float("inf")]]})
    assert drawn() == {}


@pytest.mark.parametrize("value", [0.0, 5.0, -3.0, 1e-9, 1e12])
def test_a_flat_curve_and_a_single_point_can_be_drawn(value):
    for curve in ([[0, value]], [[0, value], [10, value]]):
        (points,) = lines(root_of(by_seed("t", {"val/x": {0: curve}}, {})))
        assert len(points) == len(curve)
        assert all(62 <= x <= 304 and 8 <= y <= 184 for x, y in points)
