import itertools

import pytest

from repro.errors import UserError
from repro.record import Measurement
from repro.report.compare import compare
from repro.report.figures import SWEEPS
from repro.report.panels import COLOURS
from repro.report.sweeps import sweeps
from tests.report.grids import grid, record, swept
from tests.report.svg import dots, labels, lines, marks, panels, words


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
    assert {"toy/grid, scale cpu, 1 seed", "cost/time", "us", "length (tokens)", "a"} <= set(
        words(by_length.data)
    )
    assert {"test/accuracy", "percent", "rounds", "a", "b", "1", "2"} <= set(words(by_rounds.data))
    assert [label for label in words(by_length.data) if label in ("128", "1K", "64K", "65,536")] != []
    assert len(lines(panels(by_rounds.data)[0])) == 2


def test_a_recipe_without_points_and_an_odd_key(house):
    record(house, house.recipe("big"), scale="paper", metrics=swept("d/k v", "x", {1: 1.0, 2: 2.0}))
    (plot,) = drawn().values()
    assert plot.name == "toy--big--by-d-k-v--paper.svg"
    assert {"big", "d/k v"} <= set(words(plot.data))


def test_no_sweep_no_figure(house):
    record(house, house.recipe("big"), scale="paper")
    assert drawn() == {}


def test_values_are_where_they_belong(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", metrics=list(reversed(rounds(20.0, 40.0, 60.0, 80.0))))
    record(house, "toy/grid@b", metrics=rounds(100.0))
    (plot,) = drawn().values()
    (panel,) = panels(plot.data)
    below, left = labels(panel)
    mine = [(x, y) for colour, x, y in marks(panel) if colour == COLOURS[0]]
    assert [x for x, _ in mine[:3]] == [below["1"], below["2"], below["4"]]
    assert mine[3][0] > below["4"]
    assert [y for _, y in mine] == [left["20"], left["40"], left["60"], left["80"]]
    (joined, _) = lines(panel)  # in the order of the numbers, whatever that of the record; without the word
    assert joined == mine[:3]


def test_means_with_a_dot_per_seed(house):
    grid(house, "a", "b")
    for seed, shift in enumerate((-6.0, 0.0, 9.0), 1):
        record(house, "toy/grid@a", seed, metrics=rounds(20.0 + shift, 40.0 + shift))
    record(house, "toy/grid@b", metrics=rounds(21.0, 41.0))
    (plot,) = drawn().values()
    (panel,) = panels(plot.data)
    means = {(x, y) for colour, x, y in marks(panel) if colour == COLOURS[0]}
    assert means == {(x, y) for colour, x, y in marks(panel) if colour == COLOURS[1]}
    assert len(dots(panel)) == 6  # a single seed is no dot
    assert {x for x, _ in dots(panel)} == {x for x, _ in means}
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
    assert len(panels(plot.data)) == 3
    assert {"loss, test", "loss, val", "bpd", "bits"} <= set(words(plot.data))


def test_wide_ranges_are_logarithmic(house):
    grid(house, "a", "b")
    times = {2**n: 0.01 * 2**n for n in range(7, 17)}
    record(house, "toy/grid@a", metrics=swept("length", "time", times))
    (plot,) = drawn().values()
    (panel,) = panels(plot.data)
    places = [(x, y) for _, x, y in marks(panel)]
    across = [b[0] - a[0] for a, b in itertools.pairwise(places)]
    up = [a[1] - b[1] for a, b in itertools.pairwise(places)]
    assert across == pytest.approx([across[0]] * 9, abs=0.2)
    assert up == pytest.approx([up[0]] * 9, abs=0.2)
    below, left = labels(panel)
    assert list(below) == ["128", "512", "2K", "8K", "32K"]
    assert set(left) == {"1", "10", "100"}


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
    with pytest.raises(UserError, match=r"toy/big/paper/s1-.*: m is of a sweep by .*must name"):
        drawn()


def test_two_values_at_one_place_are_refused(house):
    record(house, house.recipe("big"), scale="paper", metrics=[*rounds(1.0), *rounds(2.0)])
    with pytest.raises(UserError, match=r"two measurements of test/accuracy \(test\) at rounds 1"):
        drawn()


def test_truths_are_words(house):
    record(house, house.recipe("big"), scale="paper", metrics=swept("causal", "x", {True: 1.0, False: 2.0}))
    (plot,) = drawn().values()
    assert {"true", "false"} <= set(words(plot.data))


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
    cost, other = panels(plot.data)
    said = [t.text for t in cost.iter() if t.text and t.text.startswith("exponent")]
    published = compare().entries["toy", "table1", "big", "bleu"].published
    assert said == [f"exponent 1.99, paper {published:g}", "exponent 1.00"]
    assert not [t.text for t in other.iter() if t.text and t.text.startswith("exponent")]
    colours = [colour for colour, _, _ in marks(cost)]
    assert colours[-2:] == list(COLOURS[:2])


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
    (panel,) = panels(plot.data)
    assert "cross at 10" in words(plot.data)
    (rule,) = [e for e in panel if e.get("stroke-dasharray") == "3 3"]
    assert float(rule.get("x1")) == marks(panel)[1][1]


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
    assert not [word for word in words(plot.data) if word.startswith("cross")]
