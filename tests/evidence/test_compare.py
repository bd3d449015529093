import dataclasses

import pytest

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.entries import UNEXPLAINED
from repro.record import Measurement, write_record
from tests.report.fakes import PUBLISHED, make_record

GOAL = "{table: table1, row: %s, metric: %s, measured: test/bleu%s}"


def entry(row, metric="bleu", table="table1"):
    return compare().entries["toy", table, row, metric]


def cell(row, metric="bleu"):
    (only,) = entry(row, metric).cells
    return only


def test_no_recipe_says_why(house):
    assert entry("big").reason == UNEXPLAINED
    assert entry("rival").reason == "not the paper's own model"
    assert entry("rerun", table="external-rerun").reason == "third-party reproduction"
    assert entry("drawn", None).reason == "the paper prints no number"


def test_what_no_run_measures_says_why(house):
    declare(house, "no_recipe: a ratio of rows", "ppl")
    assert entry("big", "ppl").reason == "a ratio of rows"
    assert entry("big").reason == UNEXPLAINED


def test_not_run(house):
    house.recipe("big")
    house.recipe("big", scale="cpu")
    assert [(c.goal.experiment, c.goal.scale, c.verdict) for c in entry("big").cells] == [
        ("toy/big", "paper", "not run"),
        ("toy/big", "cpu", "not run"),
    ]
    assert (entry("big").verdict, entry("big").reason) == ("not run", None)


# Published: 30.0 BLEU, higher is better, margin 0.5. The rule itself is tested in test_judge.py.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([30.0, 30.0, 30.0], "reproduced"),
        ([29.9, 30.0, 30.1], "reproduced"),
        ([29.5, 29.5, 29.5], "open"),  # on the border of the margin
        ([29.1, 29.35, 29.6], "open"),  # a wide interval
        ([33.0, 33.1, 33.2], "higher"),
        ([28.5, 28.5, 28.5], "lower"),
        ([30.0, 30.0], "open"),  # two seeds only
        ([20.0], "open"),
    ],
)
def test_verdicts_where_higher_is_better(house, values, verdict):
    house.run(house.recipe("big"), values)
    assert cell("big").verdict == verdict
    assert cell("big").difference == pytest.approx(sum(values) / len(values) - 30.0)


# Published: 4.0 perplexity, lower is better, margin 1 % = 0.04.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [([4.03] * 3, "reproduced"), ([3.0] * 3, "lower"), ([4.05] * 3, "higher")],
)
def test_verdicts_where_lower_is_better(house, values, verdict):
    house.run(house.recipe("big", GOAL % ("big", "ppl", "")), values)
    assert cell("big", "ppl").verdict == verdict


def declare(house, text, metric="bleu"):
    """Publishes the toy paper with further keys of one metric."""
    head, start, rest = PUBLISHED.partition(f"      {metric}: {{")
    line, end, tail = rest.partition("\n")
    own = line.replace("updates: 100", "counted: true") if "updates" in text else line
    house.publish(f"{head}{start}{text}, {own}{end}{tail}")


def test_fewer_updates_than_published_are_a_short_budget(house):
    declare(house, "updates: 101")
    house.run(house.recipe("big"), [30.0] * 3)  # of 100 updates
    assert (cell("big").verdict, cell("big").why) == ("short budget", "100 of 101 updates")
    declare(house, "updates: 101, ceiling: 30")
    assert cell("big").verdict == "reproduced"


def test_a_score_of_guessing_is_at_chance(house):
    declare(house, "chance: 29.5")
    house.run(house.recipe("big"), [30.0, 30.1, 29.9])
    assert cell("big").verdict == "at chance"


def test_timed_numbers_have_no_verdict(house):
    house.run(house.recipe("base", GOAL % ("base", "speed", "")), [900.0] * 3)
    assert cell("base", "speed").verdict == "timed"


def test_a_margin_that_is_younger_than_the_runs_is_refused(house):
    text = PUBLISHED.replace("size: 0.5, set: '2026-01-01'", "size: 2, reason: wish, set: '2026-02-01'", 1)
    house.publish(text)
    name = house.recipe("big")
    assert entry("big").verdict == "not run"
    house.run(name, [30.0] * 3)
    with pytest.raises(UserError, match="2026-02-01"):
        compare()
    house.publish(text.replace("2026-02-01", "2025-12-31"))
    assert cell("big").verdict == "reproduced"


def test_the_seeds_are_those_of_the_recipe(house):
    name = house.recipe("big")
    house.run(name, [30.0] * 3)
    assert cell("big").verdict == "reproduced"
    text = (house.configs / "toy" / "big.yaml").read_text()
    house.write("big", f"{text}seeds: 1-2,4\n")
    assert (cell("big").verdict, cell("big").why) == ("open", "no number of seed 4")


WIDE = [29.0, 31.0, 30.0]


OTHER_BEAM = [Measurement("test/bleu", 20.0, "BLEU", "test", {"beam": 9}, 50)]


@pytest.mark.parametrize(
    "fourth",
    [
        {},
        {"dirty": True},
        {"steps": 10},
        {"metrics": OTHER_BEAM},
    ],
    ids=["score", "dirty", "short", "protocol"],
)
def test_what_three_seeds_decide_no_later_one_changes(house, fourth):
    name = house.recipe("big")
    house.run(name, [30.0, 30.1, 29.9])
    before = cell("big")
    assert (before.verdict, before.estimate.n) == ("reproduced", 3)
    house.record(name, 4, 20.0, **fourth)
    after = cell("big")
    assert (after.verdict, after.why, after.estimate) == (before.verdict, before.why, before.estimate)
    assert after.notes == ("not counted: seed 4",)


def test_an_open_number_is_judged_once_more_by_five_seeds(house):
    name = house.recipe("big")
    house.run(name, WIDE)
    assert (cell("big").verdict, cell("big").estimate.n) == ("open", 3)
    house.record(name, 4, 30.0)
    assert (cell("big").estimate.n, cell("big").notes) == (3, ("not counted: seed 4",))
    house.record(name, 5, 40.0)
    assert (cell("big").verdict, cell("big").estimate.n) == ("open", 5)
    assert cell("big").why.startswith("5 seeds do not decide")
    text = (house.configs / "toy" / "big.yaml").read_text()
    house.write("big", f"{text}seeds: 1-6\n")
    house.record(name, 6, 30.0)
    assert (cell("big").estimate.n, cell("big").notes) == (5, ("not counted: seed 6",)), (
        "there is no third look"
    )


def test_what_is_counted_depends_on_the_published_file_alone(house):
    before = {key for key, e in compare().entries.items() if e.is_counted}
    assert before == {("toy", "table1", row, m) for row, m in [
        ("big", "bleu"), ("big", "ppl"), ("base", "bleu"), ("base", "ppl"), ("small", "bleu"),
    ]}  # fmt: skip
    house.run(house.recipe("rival"), [20.0] * 3)
    assert {key for key, e in compare().entries.items() if e.is_counted} == before


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("values: {bleu: 27.8}", "same_as: table1/base, values: {bleu: 27.8}", ("small", "bleu")),
        ("values: {bleu: 27.8}", "configuration: ours, values: {bleu: 27.8}", ("small", "bleu")),
        ("values: {bleu: 27.8}", "counted: false, values: {bleu: 27.8}", ("small", "bleu")),
        ("{}, values: {bleu: 27.8}", "{}, unconfirmed: true, values: {bleu: 27.8}", ("small", "bleu")),
        ("values: {bleu: 30.0, ppl", "cells: {ppl: {counted: false}}, values: {bleu: 30.0, ppl", ("big", "ppl")),
    ],
)  # fmt: skip
def test_what_is_not_counted(house, old, new, gone):
    before = {key[2:] for key, e in compare().entries.items() if e.is_counted}
    house.publish(PUBLISHED.replace(old, new))
    after = {key[2:] for key, e in compare().entries.items() if e.is_counted}
    assert before - after == {gone}


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"dirty": True}, "uncommitted changes (seeds 1, 2, 3)"),
        ({"commit": None, "dirty": None}, "commit unknown (seeds 1, 2, 3)"),
    ],
)
def test_what_cannot_be_reproduced_is_open_and_marked(house, changes, note):
    made = house.run(house.recipe("big"), [30.0, 30.0, 30.0], **changes)
    assert compare().state(made[0]) == "current"
    assert cell("big").verdict == "open"
    assert note in cell("big").notes


def test_missing_seeds_are_marked(house):
    house.run(house.recipe("big"), [30.0, 30.0])
    assert cell("big").why == "no number of seed 3"


def test_mixed_commits_are_marked(house):
    name = house.recipe("big")
    for seed, commit in enumerate(["aaaaaaaa11", "bbbbbbbb22", "aaaaaaaa11"], 1):
        house.record(name, seed, 30.0, commit=commit)
    assert cell("big").notes == ("mixed commits (aaaaaaaa, bbbbbbbb)",)


def test_superseded_records_do_not_count_and_their_number_is_noted(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0, 31.5])
    house.recipe("big", width=16)
    assert cell("big").verdict == "not run"
    (note,) = cell("big").notes
    assert note == f"an earlier configuration, {compare().records[0].config_hash[:8]}, has 30.50 (n = 3)"
    comparison = compare()
    assert [comparison.state(r) for r in comparison.records] == ["superseded"] * 3


def test_a_record_of_no_recipe_says_so(house):
    house.recipe("big")
    gone = dataclasses.replace(make_record("toy/big", 2, 30.0), experiment="toy/gone")
    write_record(gone, house.results / "runs")
    comparison = compare()
    assert [comparison.state(r) for r in comparison.records] == ["no recipe"]


def test_a_run_without_the_number_is_named(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0])
    house.record(name, 3, 30.0, metrics=[])
    assert cell("big").estimate.n == 2
    assert "seed 3: test/bleu was not measured" in cell("big").notes


def test_different_units_are_not_averaged(house):
    name = house.recipe("big")
    house.record(name, 1, 30.0)
    house.record(name, 2, 0.3, metrics=[Measurement("test/bleu", 0.3, "fraction", "test")])
    assert cell("big").estimate is None
    assert "units differ" in cell("big").notes[0]


def test_a_reduced_scale_is_never_compared_with_the_paper(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [30.0, 30.0, 30.0], "cpu")
    assert entry("big").verdict == "reduced scale"
    assert [(c.goal.scale, c.estimate.mean, c.difference) for c in entry("big").reduced] == [
        ("cpu", 30.0, None)
    ]


def test_paper_scale_wins_over_reduced(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [1.0], "cpu")
    house.run(name, [30.0, 30.0, 30.0])
    assert entry("big").verdict == "reproduced"


def test_a_number_that_the_paper_only_draws_is_unpublished(house):
    house.run(house.recipe("drawn"), [12.0])
    assert entry("drawn").verdict == "unpublished"
    assert entry("drawn").paper_cells[0].difference is None


def test_of_several_experiments_the_best_on_validation_stands_for_the_number(house):
    def run(name, test, val):
        numbers = [Measurement("test/bleu", test, "BLEU", "test", {}, 50, val)]
        house.run(house.recipe("big", name=name), [test] * 3, metrics=numbers)

    run("better-on-test", 30.0, 20.0)
    run("better-on-validation", 25.0, 21.0)
    first = entry("big").paper_cells[0]
    assert (first.goal.experiment, first.estimate.mean) == ("toy/better-on-validation", 25.0)
    assert entry("big").verdict == "lower"
