import pytest

from repro.evidence.compare import compare
from repro.report.plots.curves import curves, grid_curves, sweeps
from repro.report.plots.plot import CURVES, SIDES, SWEEPS
from tests.report.grids import grid, record, swept

FALLING = {"train/loss": [[0, 3.0], [50, 2.0], [100, 1.0]], "val/loss": [[50, 2.0], [100, 1.0]]}


def drawn(make=curves):
    return {plot.name: plot for plot in make(compare())}


def rounds(*values):
    return swept("rounds", "test/accuracy", dict(zip((1, 2, 4, "exact"), values, strict=False)))


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
    (plot,) = figures.values()
    chart = plot.content
    assert (plot.kind, plot.caption) == (CURVES, "toy · big · paper: learning curves")
    assert (chart.title, chart.names) == ("toy/big, scale paper", ["seed 1", "seed 2"])
    assert [panel.y_label for panel in chart.panels] == ["train/loss (nats per token)", "val/bleu (BLEU)"]
    assert {panel.x_label for panel in chart.panels} == {"optimiser steps"}


def test_a_line_per_seed_in_every_panel(figures):
    (plot,) = figures.values()
    result = [[(line.look, len(line.points), line.thin) for line in p.lines] for p in plot.content.panels]
    assert result == [[(0, 3, False), (1, 3, False)], [(0, 2, False), (1, 2, False)]]


def test_charts_depend_on_the_records_that_count_alone(house, figures):
    assert drawn() == figures
    house.record("toy/big", 1, 25.0, finished="2026-05-01T00:00:00Z")  # the first record of a seed counts
    house.record("toy/big", 100, 25.0, finished="2026-05-01T00:00:00Z")
    assert drawn() == figures
    house.record("toy/big", 3, 25.0)
    assert drawn() != figures


def test_no_figure_without_curves(house):
    house.record(house.recipe("big"), 1, 30.0, curves={"val/x": [[0, float("inf")]]})
    assert drawn() == {}


def test_two_points_at_a_scale_make_a_figure(house):
    grid(house, "a", "b", "c")
    record(house, "toy/grid@a", curves=FALLING)
    record(house, "toy/grid@b", scale="paper", curves=FALLING)
    assert drawn(grid_curves) == {}
    record(house, "toy/grid@b", curves=FALLING)
    record(house, house.recipe("big"), scale="paper")  # no grid
    (plot,) = drawn(grid_curves).values()
    assert (plot.name, plot.kind) == ("toy--grid--points--cpu.svg", SIDES)
    assert plot.caption == "toy · grid · cpu: learning curves of 2 points, 1 seed"
    chart = plot.content
    assert (chart.title, chart.names) == ("toy/grid, scale cpu, 1 seed", ["a", "b"])
    assert [[line.look for line in panel.lines] for panel in chart.panels] == [[0, 1], [0, 1]]


def test_a_panel_for_what_two_points_share_in_one_look_per_point(house):
    grid(house, "a", "b", "c", "d")
    record(house, "toy/grid@a", curves={**FALLING, "val/only": [[0, 1.0]], "train/lr": [[0, 1.0]]})
    record(house, "toy/grid@b", curves={"train/loss": FALLING["train/loss"], "train/lr": [[0, 1.0]]})
    record(house, "toy/grid@c", curves=FALLING)
    record(house, "toy/grid@d", curves=FALLING, config_hash="0" * 64)  # superseded
    (plot,) = drawn(grid_curves).values()
    assert plot.content.names == ["a", "b", "c"]
    train, val = plot.content.panels
    assert (train.y_label, val.y_label) == ("train/loss (nats per token)", "val/loss (nats per token)")
    assert [line.look for line in val.lines] == [0, 2]  # b has its look without a line here


def test_points_that_share_no_curve_make_no_figure(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", curves={"val/x": [[0, 1.0]]})
    record(house, "toy/grid@b", curves={"val/y": [[0, 1.0]]})
    assert drawn(grid_curves) == {}


def test_a_sweep_per_grid_scale_and_key(house):
    grid(house, "a", "b")
    lengths = swept("length", "cost/time", {128: 1.0, 65536: 2.0}, "us", "", sweep_unit="tokens")
    record(house, "toy/grid@a", metrics=[*rounds(20.0, 30.0), *lengths])
    record(house, "toy/grid@b", metrics=rounds(40.0, 50.0))
    record(house, "toy/grid@b", scale="paper", metrics=rounds(40.0, 50.0))
    result = drawn(sweeps)
    assert set(result) == {
        "toy--grid--by-length--cpu.svg",
        "toy--grid--by-rounds--cpu.svg",
        "toy--grid--by-rounds--paper.svg",
    }
    assert {plot.kind for plot in result.values()} == {SWEEPS}
    by_length, by_rounds = result["toy--grid--by-length--cpu.svg"], result["toy--grid--by-rounds--cpu.svg"]
    assert by_length.caption == "toy · grid · cpu: cost/time by length (tokens), 1 seed"
    assert by_length.content.names == ["a"]
    chart = by_rounds.content
    assert (chart.title, chart.names) == ("toy/grid, scale cpu, 1 seed", ["a", "b"])
    (panel,) = chart.panels
    assert (panel.x_label, panel.y_label) == ("rounds", "test/accuracy (percent)")
    assert [line.look for line in panel.lines] == [0, 1]


def test_a_recipe_without_points_and_an_odd_key(house):
    record(house, house.recipe("big"), scale="paper", metrics=swept("d/k v", "x", {1: 1.0, 2: 2.0}))
    (plot,) = drawn(sweeps).values()
    assert plot.name == "toy--big--by-d-k-v--paper.svg"
    assert plot.content.names == ["big"]


def test_no_sweep_no_figure(house):
    record(house, house.recipe("big"), scale="paper")
    assert drawn(sweeps) == {}


def test_a_panel_for_each_name_unit_and_split(house):
    house.recipe("big")
    metrics = [
        *swept("k", "loss", {1: 1.0, 2: 2.0}, split="test"),
        *swept("k", "loss", {1: 3.0, 2: 4.0}, split="val"),
        *swept("k", "bpd", {1: 1.0, 2: 2.0}, unit="bits"),
    ]
    record(house, "toy/big", scale="paper", metrics=metrics)
    (plot,) = drawn(sweeps).values()
    assert [panel.y_label for panel in plot.content.panels] == [*["loss (percent)"] * 2, "bpd (bits)"]
    assert plot.caption == "toy · big · paper: loss, bpd by k, 1 seed"
