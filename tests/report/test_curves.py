import pytest

from repro.evidence.compare import compare
from repro.report.plots.curves import by_seed, curves


def drawn():
    return {plot.name: plot.content for plot in curves(compare())}


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
    (chart,) = figures.values()
    assert (chart.title, chart.names) == ("toy/big, scale paper", ["seed 1", "seed 2"])
    assert [panel.y_label for panel in chart.panels] == ["train/loss (nats per token)", "val/bleu (BLEU)"]
    assert {panel.x_label for panel in chart.panels} == {"optimiser steps"}


def test_a_line_per_seed_in_every_panel(figures):
    (chart,) = figures.values()
    found = [[(line.look, len(line.points)) for line in panel.lines] for panel in chart.panels]
    assert found == [[(0, 3), (1, 3)], [(0, 2), (1, 2)]]


def test_a_curve_is_drawn_as_it_was_recorded():
    chart = by_seed("t", {"val/loss": {0: [[0, 3.0], [50, 2.0], [100, None]]}}, {})
    assert chart.panels[0].lines[0].points == [(0, 3.0), (50, 2.0), (100, None)]
    assert chart.panels[0].y_label == "val/loss"


def test_one_panel_for_all_ways_to_count_bleu(house):
    curves = {key: [[0, 1.0]] for key in ("val/bleu", "val/bleu_intl", "val/bleu_tokenised")}
    house.record(house.recipe("big"), 1, 30.0, curves=curves)
    (chart,) = drawn().values()
    assert [panel.y_label for panel in chart.panels] == ["val/bleu (BLEU)"]


def test_charts_depend_on_the_records_that_count_alone(house, figures):
    assert drawn() == figures
    house.record("toy/big", 1, 25.0, finished="2026-05-01T00:00:00Z")  # the first record of a seed counts
    house.record("toy/big", 100, 25.0, finished="2026-05-01T00:00:00Z")
    assert drawn() == figures
    house.record("toy/big", 3, 25.0)
    assert drawn() != figures


def test_a_diverged_curve_breaks_and_other_curves_are_left_out(house):
    curve = [[0, 1.0], [1, 2.0], [2, float("nan")], [3, 3.0]]
    curves = {"val/odd": curve, "val/none": [], "test/x": [[0, 1.0]]}
    house.record(house.recipe("big"), 1, 30.0, curves=curves)
    (chart,) = drawn().values()
    (panel,) = chart.panels
    assert panel.y_label == "val/odd"
    assert [y for _, y in panel.lines[0].points] == [1.0, 2.0, None, 3.0]


def test_no_figure_without_curves(house):
    house.record(house.recipe("big"), 1, 30.0, curves={"val/x": [[0, float("inf")]]})
    assert drawn() == {}
