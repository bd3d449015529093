from repro.evidence.compare import compare
from repro.report.plots.plot import CURVES, SWEEPS
from repro.report.plots.recorded import curves, sweeps
from tests.report.grids import grid, record, swept

FALLING = {"train/loss": [[0, 3.0], [50, 2.0], [100, 1.0]], "val/loss": [[50, 2.0], [100, 1.0]]}


def drawn(make=curves):
    return {plot.name: plot for plot in make(compare())}


def rounds(*values):
    return swept("rounds", "test/accuracy", dict(zip((1, 2, 4, "exact"), values, strict=False)))


def test_a_figure_per_recipe_and_scale_has_a_line_per_point(house):
    grid(house, "a", "b", "c")
    record(house, "toy/grid@a", curves=FALLING)
    record(house, "toy/grid@b", scale="paper", curves=FALLING)
    record(house, "toy/grid@b", curves=FALLING)
    record(house, house.recipe("big"), scale="paper")  # no grid
    plots = drawn()
    assert set(plots) == {
        "toy--grid--cpu.svg",
        "toy--grid--paper.svg",
        "toy--big--paper.svg",
    }
    plot = plots["toy--grid--cpu.svg"]
    assert (plot.kind, plot.caption) == (CURVES, "toy · grid · cpu: learning curves, 1 seed")
    assert (plot.content.title, plot.content.names) == ("toy/grid, scale cpu, 1 seed", ["a", "b"])
    assert [[line.look for line in panel.lines] for panel in plot.content.panels] == [[0, 1], [0, 1]]
    assert plots["toy--big--paper.svg"].content.names == ["big"]


def test_seeds_are_thin_lines_and_axes_have_names_and_units(house):
    house.run(house.recipe("big"), [30.0, 29.0])
    (plot,) = drawn().values()
    panels = plot.content.panels
    assert [panel.y_label for panel in panels] == ["train/loss (nats per token)", "val/bleu (BLEU)"]
    assert {panel.x_label for panel in panels} == {"optimiser steps"}
    assert [[line.thin for line in panel.lines] for panel in panels] == [[True, True, False]] * 2


def test_charts_depend_on_the_records_that_count_alone(house):
    house.run(house.recipe("big"), [30.0, 29.0])
    figures = drawn()
    house.record("toy/big", 1, 25.0, finished="2026-05-01T00:00:00Z")  # the first record of a seed counts
    house.record("toy/big", 100, 25.0, finished="2026-05-01T00:00:00Z")
    assert drawn() == figures
    house.record("toy/big", 3, 25.0)
    assert drawn() != figures


def test_no_figure_without_curves(house):
    house.record(house.recipe("big"), 1, 30.0, curves={"val/x": [[0, float("inf")]]})
    assert drawn() == {}


def test_a_panel_for_each_curve_in_one_look_per_point(house):
    grid(house, "a", "b", "c", "d")
    record(house, "toy/grid@a", curves={**FALLING, "train/lr": [[0, 1.0]]})
    record(house, "toy/grid@b", curves={"train/loss": FALLING["train/loss"], "train/lr": [[0, 1.0]]})
    record(house, "toy/grid@c", curves=FALLING)
    record(house, "toy/grid@d", curves=FALLING, config_hash="0" * 64)  # superseded
    (plot,) = drawn().values()
    assert plot.content.names == ["a", "b", "c"]
    train, val = plot.content.panels
    assert (train.y_label, val.y_label) == ("train/loss (nats per token)", "val/loss (nats per token)")
    assert [line.look for line in val.lines] == [0, 2]  # b has its look without a line here


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
