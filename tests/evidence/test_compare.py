import dataclasses
import json

import pytest
from repro.report.formats.listing import list_rows

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


def test_every_published_cell_is_listed_also_rows_without_values(house):
    rows = list_rows(compare("toy"))
    found = [(r["table"], r["row"], r["metric"]) for r in rows]
    assert found == [
        ("table1", "big", "bleu"),
        ("table1", "big", "ppl"),
        ("table1", "base", "bleu"),
        ("table1", "base", "ppl"),
        ("table1", "base", "speed"),
        ("table1", "small", "bleu"),
        ("table1", "drawn", None),
        ("table1", "rival", "bleu"),
        ("external-rerun", "rerun", "bleu"),
    ]
    assert {r["verdict"] for r in rows} == {"no recipe"}
    json.dumps(rows, allow_nan=False)


def test_the_whole_checkout_is_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path))
    papers = {paper.key: paper for paper in compare().papers}
    listed = {(r["paper"], r["table"], r["row"], r["metric"]) for r in list_rows(compare())}
    wanted = {
        (paper.key, table.id, row.id, metric)
        for paper in papers.values()
        for table in paper.tables.values()
        for row in table.rows.values()
        for metric in (row.values or [None])
    }
    assert len(papers) == 8
    assert listed == wanted


def test_every_number_of_the_checkout_has_a_recipe_a_derivation_or_a_reason():
    rows = [r for r in list_rows(compare()) if r["reason"] == UNEXPLAINED]
    assert [(r["paper"], r["table"], r["row"], r["metric"]) for r in rows] == []


def test_no_recipe_says_why(house):
    reasons = {(r["table"], r["row"]): r["reason"] for r in list_rows(compare())}
    assert reasons["table1", "big"] == UNEXPLAINED
    assert reasons["table1", "rival"] == "not the paper's own model"
    assert reasons["external-rerun", "rerun"] == "third-party reproduction"


def test_what_no_run_measures_says_why(house):
    declare(house, "no_recipe: a ratio of rows", "ppl")
    reasons = {(r["row"], r["metric"]): r["reason"] for r in list_rows(compare()) if r["table"] == "table1"}
    assert reasons["big", "ppl"] == "a ratio of rows"
    assert reasons["big", "bleu"] == UNEXPLAINED


def test_not_run(house):
    house.recipe("big")
    house.recipe("big", scale="cpu")
    row = next(r for r in list_rows(compare()) if r["row"] == "big" and r["metric"] == "bleu")
    assert (row["verdict"], row["experiment"], row["scales"]) == ("not run", "toy/big", ["paper", "cpu"])
    assert (row["measured"], row["n"], row["reduced"], row["reason"]) == (None, 0, [], None)


# Published: 30.0 BLEU, higher is better, margin 0.5. The rule itself is tested in test_judge.py.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([30.0, 30.0, 30.0], "reproduced"),
        ([29.9, 30.0, 30.1], "reproduced"),
        ([29.5, 29.5, 29.5], "undecided"),  # on the border of the margin
        ([29.1, 29.35, 29.6], "undecided"),  # a wide interval
        ([33.0, 33.1, 33.2], "better"),
        ([28.5, 28.5, 28.5], "worse"),
        ([30.0, 30.0], "undecided"),  # two seeds only
        ([20.0], "undecided"),
    ],
)
def test_verdicts_where_higher_is_better(house, values, verdict):
    house.run(house.recipe("big"), values)
    assert cell("big").verdict == verdict
    assert cell("big").difference == pytest.approx(sum(values) / len(values) - 30.0)


# Published: 4.0 perplexity, lower is better, margin 1 % = 0.04.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [([4.03] * 3, "reproduced"), ([3.0] * 3, "better"), ([4.05] * 3, "worse")],
)
def test_verdicts_where_lower_is_better(house, values, verdict):
    house.run(house.recipe("big", GOAL % ("big", "ppl", "")), values)
    assert cell("big", "ppl").verdict == verdict


def declare(house, text, metric="bleu", row=""):
    """Publishes the toy paper with further keys of one metric."""
    before = f"      {metric}: {{unit: "
    head, _, rest = PUBLISHED.partition(before)
    house.publish(f"{head}      {metric}: {{{text}, unit: {rest}")


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


def test_an_extended_result_is_held_to_the_stricter_level(house):
    name = house.recipe("big")
    values = [29.75, 29.87, 29.95]  # 90 % inside the margin, 95 % not
    house.run(name, values)
    assert cell("big").verdict == "reproduced"
    text = (house.configs / "toy" / "big.yaml").read_text()
    house.write("big", f"{text}seeds: 1-2\nextended_to: 1-5\n")
    assert cell("big").verdict == "undecided"


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
        ("{}, values: {bleu: 27.8}", "{unconfirmed: true}, values: {bleu: 27.8}", ("small", "bleu")),
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
def test_what_cannot_be_reproduced_is_undecided_and_marked(house, changes, note):
    made = house.run(house.recipe("big"), [30.0, 30.0, 30.0], **changes)
    assert compare().state(made[0]) == "current"
    assert cell("big").verdict == "undecided"
    assert note in cell("big").notes


def test_missing_seeds_are_marked(house):
    house.run(house.recipe("big"), [30.0, 30.0])
    assert cell("big").why == "2 of 3 seeds"


def test_mixed_commits_are_marked(house):
    name = house.recipe("big")
    for seed, commit in enumerate(["aaaaaaaa11", "bbbbbbbb22", "aaaaaaaa11"], 1):
        house.record(name, seed, 30.0, commit=commit)
    assert cell("big").notes == ("mixed commits (aaaaaaaa, bbbbbbbb)",)


def test_superseded_records_do_not_count_and_leave_no_note(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0, 30.0])
    house.recipe("big", width=16)
    assert (cell("big").verdict, cell("big").notes) == ("not run", ())
    comparison = compare()
    assert [comparison.state(r) for r in comparison.records] == ["superseded"] * 3


def test_a_record_of_no_recipe_says_so(house):
    house.recipe("big")
    gone = dataclasses.replace(make_record("toy/big", 2, 30.0), experiment="toy/gone")
    write_record(gone, house.results / "runs")
    comparison = compare()
    assert [comparison.state(r) for r in comparison.records] == ["no recipe"]


def test_another_protocol_is_not_used_at_paper_scale(house):
    name = house.recipe("big", GOAL % ("big", "bleu", ", protocol: {beam: 5}"))
    house.run(name, [30.0, 30.0, 30.0])
    assert cell("big").verdict == "not run"
    assert cell("big").notes == ("seeds 1, 2, 3: protocol mismatch: beam is 4, not 5",)


def test_a_missing_protocol_key_is_a_mismatch_also_with_none(house):
    house.run(house.recipe("big", GOAL % ("big", "bleu", ", protocol: {alpha: null}")), [30.0])
    assert cell("big").estimate is None


def test_one_run_with_two_protocols_serves_two_cells(house):
    name = house.recipe(
        "big",
        GOAL % ("big", "bleu", ", protocol: {beam: 4}"),
        GOAL % ("base", "bleu", ", protocol: {beam: 1}"),
    )
    numbers = [Measurement("test/bleu", 30.0, "BLEU", "test", {"beam": 4})]
    numbers.append(Measurement("test/bleu", 28.0, "BLEU", "test", {"beam": 1}))
    house.run(name, [0.0, 0.0, 0.0], metrics=numbers)
    assert (cell("big").estimate.mean, cell("base").estimate.mean) == (30.0, 28.0)


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


def test_a_reduced_scale_is_never_the_row(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [30.0, 30.0, 30.0], "cpu")
    row = next(r for r in list_rows(compare()) if r["row"] == "big" and r["metric"] == "bleu")
    assert row["verdict"] == "reduced scale"
    assert row["measured"] is None
    assert row["reduced"] == [{"scale": "cpu", "mean": 30.0, "n": 3, "experiment": "toy/big"}]


def test_paper_scale_wins_over_reduced(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [1.0], "cpu")
    house.run(name, [30.0, 30.0, 30.0])
    assert entry("big").verdict == "reproduced"


def test_a_number_that_the_paper_only_draws_is_unpublished(house):
    house.run(house.recipe("drawn"), [12.0])
    assert entry("drawn").verdict == "unpublished"
    assert entry("drawn").ours[0].difference is None


def test_of_several_experiments_the_best_on_validation_stands_for_the_number(house):
    def run(name, test, val):
        numbers = [Measurement("test/bleu", test, "BLEU", "test", {}, 50, val)]
        house.run(house.recipe("big", name=name), [test] * 3, metrics=numbers)

    run("better-on-test", 30.0, 20.0)
    run("better-on-validation", 25.0, 21.0)
    row = next(r for r in list_rows(compare()) if r["row"] == "big" and r["metric"] == "bleu")
    assert (row["experiment"], row["measured"]) == ("toy/better-on-validation", 25.0)
    assert row["verdict"] == "worse"


@pytest.mark.parametrize(
    ("goal", "said"),
    [
        ("{table: table2, row: big, metric: bleu, measured: x}", "no table 'table2'; nearest: table1"),
        ("{table: table1, row: bigg, metric: bleu, measured: x}", "no row 'bigg'; nearest: big"),
        ("{table: table1, row: big, metric: blue, measured: x}", "no metric 'blue'; nearest: bleu"),
    ],
)
def test_a_goal_that_the_paper_does_not_have(house, goal, said):
    house.recipe("big", goal)
    with pytest.raises(UserError, match=said) as error:
        compare()
    assert "toy/big at scale paper" in str(error.value)
