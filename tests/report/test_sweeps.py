import pytest

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.record import Measurement
from repro.report.plots.plot import SWEEPS
from repro.report.plots.sweeps import sweeps
from tests.report.grids import grid, record, swept


def drawn():
    return {plot.name: plot for plot in sweeps(compare())}


def rounds(*values):
    return swept("rounds", "test/accuracy", dict(zip((1, 2, 4, "exact"), values, strict=False)))


def test_a_figure_per_grid_scale_and_key(house):
    grid(house, "a", "b")
    lengths = swept("length", "cost/time", {128: 1.0, 65536: 2.0}, "us", "", sweep_unit="tokens")
    record(house, "toy/grid@a", metrics=[*rounds(20.0, 30.0), *lengths])
    record(house, "toy/grid@b", metrics=rounds(40.0, 50.0))
    record(house, "toy/grid@b", scale="paper", metrics=rounds(40.0, 50.0))
    found = drawn()
    assert set(found) == {
        "toy--grid--by-rounds--cpu.svg",
        "toy--grid--by-length--cpu.svg",
        "toy--grid--by-rounds--paper.svg",
    }
    assert {plot.kind for plot in found.values()} == {SWEEPS}
    by_length, by_rounds = found["toy--grid--by-length--cpu.svg"], found["toy--grid--by-rounds--cpu.svg"]
    assert by_length.caption == "toy · grid · cpu: cost/time by length (tokens), 1 seed"
    chart = by_rounds.content
    assert (chart.title, chart.names) == ("toy/grid, scale cpu, 1 seed", ["a", "b"])
    (panel,) = chart.panels
    assert (panel.title, panel.x_label, panel.y_label) == ("test/accuracy", "rounds", "percent")
    assert [line.look for line in panel.lines] == [0, 1]
    assert by_length.content.panels[0].x_label == "length (tokens)"


def test_a_recipe_without_points_and_an_odd_key(house):
    record(house, house.recipe("big"), scale="paper", metrics=swept("d/k v", "x", {1: 1.0, 2: 2.0}))
    (plot,) = drawn().values()
    assert plot.name == "toy--big--by-d-k-v--paper.svg"
    assert plot.content.names == ["big"]
    assert plot.content.panels[0].x_label == "d/k v"


def test_no_sweep_no_figure(house):
    record(house, house.recipe("big"), scale="paper")
    assert drawn() == {}


def test_values_are_where_they_belong(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", metrics=list(reversed(rounds(20.0, 40.0, 60.0, 80.0))))
    record(house, "toy/grid@b", metrics=rounds(100.0))
    (plot,) = drawn().values()
    (panel,) = plot.content.panels
    assert panel.lines[0].points == [(1, 20.0), (2, 40.0), (4, 60.0), ("exact", 80.0)]
    assert panel.lines[1].points == [(1, 100.0)]
    assert panel.settings


def test_means_with_a_dot_per_seed(house):
    grid(house, "a", "b")
    for seed, shift in enumerate((-6.0, 0.0, 9.0), 1):
        record(house, "toy/grid@a", seed, metrics=rounds(20.0 + shift, 40.0 + shift))
    record(house, "toy/grid@b", metrics=rounds(21.0, 41.0))
    (plot,) = drawn().values()
    (panel,) = plot.content.panels
    assert panel.lines[0].points == panel.lines[1].points == [(1, 21.0), (2, 41.0)]
    assert panel.lines[0].dots == [
        (x, y + shift) for x, y in ((1, 20.0), (2, 40.0)) for shift in (-6.0, 0.0, 9.0)
    ]
    assert panel.lines[1].dots == []  # a single seed is no dot
    assert plot.caption.endswith("means of 1 to 3 seeds")


def test_a_panel_for_each_name_unit_and_split(house):
    house.recipe("big")
    metrics = [
        *swept("k", "loss", {1: 1.0, 2: 2.0}, split="test"),
        *swept("k", "loss", {1: 1.0, 2: 2.0}, split="val"),
        *swept("k", "bpd", {1: 1.0, 2: 2.0}, unit="bits"),
    ]
    record(house, "toy/big", scale="paper", metrics=metrics)
    (plot,) = drawn().values()
    assert [panel.title for panel in plot.content.panels] == ["loss, test", "loss, val", "bpd"]
    assert plot.content.panels[2].y_label == "bits"


@pytest.mark.parametrize(
    ("values", "log"), [({1: 1.0, 8: 30.0}, (False, False)), ({1: 1.0, 9: 30.1, "none": 5.0}, (True, True))]
)
def test_wide_ranges_are_logarithmic(house, values, log):
    record(house, house.recipe("big"), scale="paper", metrics=swept("length", "time", values))
    (plot,) = drawn().values()
    (panel,) = plot.content.panels
    assert (panel.log_x, panel.log_y) == log


@pytest.mark.parametrize(
    "protocol",
    [
        {"sweep": "rounds"},
        {"sweep": "rounds", "of": "x"},
        {"sweep": "rounds", "rounds": 1},
        {"sweep": "rounds", "of": "x", "rounds": None},
        {"sweep": "rounds", "of": "x", "rounds": [1]},
        {"sweep": 1, "of": "x"},
    ],
)
def test_half_a_point_is_refused(house, protocol):
    record(house, house.recipe("big"), scale="paper", metrics=[Measurement("m", 1.0, "u", "test", protocol)])
    with pytest.raises(UserError, match=r"toy/big/paper/s1-.*must name"):
        drawn()


def test_two_values_at_one_place_are_refused(house):
    record(house, house.recipe("big"), scale="paper", metrics=[*rounds(1.0), *rounds(2.0)])
    with pytest.raises(UserError, match=r"test/accuracy \(test\).*1"):
        drawn()


def test_truths_are_words(house):
    record(house, house.recipe("big"), scale="paper", metrics=swept("causal", "x", {True: 1.0, False: 2.0}))
    (plot,) = drawn().values()
    assert {x for x, _ in plot.content.panels[0].lines[0].points} == {"true", "false"}


def fitted(of, by, value, name="test/exponent"):
    return Measurement(name, value, "exponent", "none", {"exponent_of": of, "by": by})


def test_fitted_exponents_stand_in_their_panel_beside_those_of_the_paper(house):
    grid(house, "a", "b")
    for seed, value in enumerate((2.02, 1.98, 1.97), 1):
        costs = swept("length", "cost", {1: 1.0, 100: 10.0}) + swept("length", "other", {1: 1.0, 100: 10.0})
        # the grid's `reproduces` measures test/bleu for a cell of 30
        record(house, "toy/grid@a", seed, metrics=[*costs, fitted("cost", "length", value, "test/bleu")])
        record(house, "toy/grid@b", seed, metrics=[*costs, fitted("cost", "length", 1.0)])
    (plot,) = drawn().values()
    cost, other = plot.content.panels
    published = compare().entries["toy", "table1", "big", "bleu"].published
    assert cost.notes == [(0, f"exponent 1.99, paper {published:g}"), (1, "exponent 1.00")]
    assert other.notes == []


def test_where_lines_cross_a_rule_stands(house):
    grid(house, "a")
    crossing = [
        Measurement("test/x", value, "length", "none", {"crossing_of": "cost", "by": "length"})
        for value in (9.0, 11.0)
    ]
    costs = swept("length", "cost", {1: 1.0, 10: 3.0, 100: 10.0})
    record(house, "toy/grid@a", metrics=[*costs, crossing[0]])
    record(house, "toy/grid@a", 2, metrics=[*costs, crossing[1]])
    (plot,) = drawn().values()
    assert plot.content.panels[0].rules == [(10.0, "cross at 10")]


def test_an_exponent_of_nothing_that_is_drawn_is_no_figure(house):
    grid(house, "a")
    odd = Measurement("test/x", 1.0, "exponent", "none", {"exponent_of": ["cost"], "by": "length"})
    far = Measurement("test/y", 1e9, "length", "none", {"crossing_of": "cost", "by": "length"})
    both = Measurement(
        "test/z", 1.0, "exponent", "none", {"exponent_of": "cost", "crossing_of": [], "by": "length"}
    )
    record(house, "toy/grid@a", metrics=[fitted("cost", "length", 1.0), odd, far, both])
    assert drawn() == {}
    record(house, "toy/grid@a", 2, metrics=[*swept("length", "cost", {1: 1.0, 100: 10.0}), far])
    (plot,) = drawn().values()
    assert plot.content.panels[0].rules == []
