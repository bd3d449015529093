"""Panels in which rows are compared."""

from dataclasses import replace

import pytest

from repro.record import Measurement
from repro.report.plots.rows import LEGIBLE, mean_curve, measured, metrics_of, panel_of
from tests.report.grids import swept


@pytest.fixture
def seeds(house):
    """Makes records of one experiment, one for each change."""
    house.recipe("big")
    return lambda *changes: [
        house.record("toy/big", n, 30.0, **change) for n, change in enumerate(changes, 1)
    ]


def curve(*points):
    return {"curves": {"val/x": [list(point) for point in points]}}


def sweep(*values):
    return {"metrics": swept("rounds", "test/accuracy", dict(zip((1, 2, 4, "exact"), values, strict=False)))}


def points(panel, thin=False):
    return [(line.look, line.points) for line in panel.lines if line.thin == thin]


def test_means_at_the_steps_that_all_seeds_have():
    assert mean_curve([[[0, 1.0], [5, 3.0], [9, 1.0]], [[5, 5.0], [0, 2.0]]]) == [(0, 1.5), (5, 4.0)]
    assert mean_curve([[[0, 1.0], [5, None]], [[0, 2.0], [5, 1.0]]]) == [(0, 1.5), (5, None)]
    assert mean_curve([[[0, 1.0]], [[1, 1.0]]]) == []
    assert mean_curve([]) == []


def test_rows_are_named_above_the_panel(seeds):
    one, other = seeds(curve((0, 1.0)), curve((0, 2.0)))
    panel = panel_of({"a": [one], "b": [other]}, "val/x")
    assert panel.notes == [(0, "a"), (1, "b")]
    assert points(panel) == [(0, [(0, 1.0)]), (1, [(0, 2.0)])]
    assert (panel.x_label, panel.y_label, panel.settings) == ("optimiser steps", "val/x", False)


def test_seeds_are_thin_lines_about_their_mean(seeds):
    records = seeds(*(curve((0, float(n)), (10, 3.0)) for n in (1, 2, 3)))
    panel = panel_of({"a": records}, "val/x")
    assert points(panel) == [(0, [(0, 2.0), (10, 3.0)])]
    assert [line[0][1] for _, line in points(panel, thin=True)] == [1.0, 2.0, 3.0]


def test_seeds_of_many_runs_are_not_drawn(seeds):
    records = seeds(*(curve((0, 1.0)) for _ in range(LEGIBLE + 1)))
    panel = panel_of({"a": records}, "val/x")
    assert [line.thin for line in panel.lines] == [False]


def test_seeds_without_a_common_step_are_drawn_themselves(seeds):
    records = seeds(*(curve((n, 1.0)) for n in range(LEGIBLE + 1)))
    panel = panel_of({"a": records}, "val/x")
    assert [line.thin for line in panel.lines] == [True] * (LEGIBLE + 1)


def test_a_diverged_curve_breaks_and_a_row_without_the_curve_has_no_line(seeds):
    records = seeds(curve((0, 1.0), (1, None), (2, 3.0)), curve((0, None)), {"curves": {}})
    panel = panel_of({"a": records[1:], "b": records[:1]}, "val/x")
    assert points(panel) == [(1, [(0, 1.0), (1, None), (2, 3.0)])]
    assert panel_of({"a": records[1:]}, "val/x") is None


def test_training_loss_and_validation_scores_with_one_way_to_count_bleu(seeds):
    names = ("val/bleu", "val/bleu_intl", "val/bleu_tokenised", "train/lr", "test/x", "train/loss", "val/odd")
    (record,) = seeds({"curves": {name: [[0, 1.0]] for name in names} | {"val/none": []}})
    assert metrics_of([record]) == ["train/loss", "val/bleu", "val/odd"]
    assert metrics_of([replace(record, steps=1)]) == []
    (record,) = seeds({"curves": {"val/bleu_intl": [[0, 1.0]]}, "finished": "2026-05-01T00:00:00Z"})
    assert metrics_of([record]) == ["val/bleu_intl"]


def test_settings_are_in_their_order_with_words_last(seeds):
    values = sweep(20.0, 40.0, 60.0, 80.0)
    one, other = seeds({"metrics": values["metrics"][::-1]}, sweep(100.0))
    panel = panel_of({"a": [one], "b": [other]}, sweep="test/accuracy")
    assert panel.settings
    assert panel.from_zero, "of 100 and 0.8 percent the logarithm shows no difference between 85 and 89"
    assert (panel.x_label, panel.y_label) == ("rounds", "test/accuracy (percent)")
    assert points(panel) == [(0, [(1, 20.0), (2, 40.0), (4, 60.0), ("exact", 80.0)]), (1, [(1, 100.0)])]


def test_seeds_of_a_sweep_are_thin_lines_about_their_mean(seeds):
    records = seeds(*(sweep(20.0 + shift, 40.0 + shift) for shift in (-6.0, 0.0, 9.0)))
    panel = panel_of({"a": records}, sweep="test/accuracy")
    assert points(panel) == [(0, [(1, 21.0), (2, 41.0)])]
    assert [line[0] for _, line in points(panel, thin=True)] == [(1, 14.0), (1, 20.0), (1, 29.0)]


def test_no_panel_of_a_sweep_that_was_not_measured(seeds):
    records = seeds(sweep(1.0))
    assert panel_of({"a": records}, sweep="test/bleu") is None
    assert panel_of({"a": records}) is None


@pytest.mark.parametrize(
    "protocol",
    [
        {},
        {"sweep": "rounds"},
        {"sweep": "rounds", "of": "x"},
        {"sweep": "rounds", "rounds": 1},
        {"sweep": "rounds", "of": "x", "rounds": None},
        {"sweep": "rounds", "of": "x", "rounds": [1]},
        {"sweep": 1, "of": "x"},
        {"sweep": ["rounds"], "of": "x"},
    ],
)
def test_half_a_point_is_none(seeds, protocol):
    records = seeds({"metrics": [Measurement("m", 1.0, "u", "test", protocol)]})
    assert measured({"a": records}) == []


def test_truths_are_words(seeds):
    records = seeds({"metrics": swept("causal", "x", {True: 1.0, False: 2.0})})
    assert points(panel_of({"a": records}, sweep="x")) == [(0, [("false", 2.0), ("true", 1.0)])]
