import dataclasses
import json

import pytest

from repro.errors import UserError
from repro.record import Measurement, write_record
from repro.report.compare import compare, list_rows
from tests.report.fakes import PUBLISHED, make_record

GOAL = "{table: table1, row: %s, metric: %s, measured: test/bleu%s}"


def entry(row, metric="bleu", table="table1"):
    return compare().entries["toy", table, row, metric]


def cell(row, metric="bleu"):
    (only,) = entry(row, metric).cells
    return only


def test_every_published_cell_is_listed_also_rows_without_values(house):
    rows = list_rows("toy")
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
    assert {r["verdict"] for r in rows} == {"no config"}
    json.dumps(rows, allow_nan=False)


def test_the_whole_checkout_is_listed(monkeypatch, tmp_path):
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path))
    papers = {paper.key: paper for paper in compare().papers}
    listed = {(r["paper"], r["table"], r["row"], r["metric"]) for r in list_rows()}
    wanted = {
        (paper.key, table.id, row.id, metric)
        for paper in papers.values()
        for table in paper.tables.values()
        for row in table.rows.values()
        for metric in (row.values or [None])
    }
    assert len(papers) == 8
    assert listed == wanted


def test_no_config_says_why(house):
    reasons = {(r["table"], r["row"]): r["reason"] for r in list_rows()}
    assert reasons["table1", "big"] == "not built yet"
    assert reasons["table1", "rival"] == "not the paper's own model"
    assert reasons["external-rerun", "rerun"] == "third-party reproduction"


def test_what_no_run_measures_says_why(house):
    text = "better: lower, description: 'per word'"
    house.publish(PUBLISHED.replace(text, f"{text}, no_recipe: 'a ratio of rows'"))
    reasons = {(r["row"], r["metric"]): r["reason"] for r in list_rows() if r["table"] == "table1"}
    assert reasons["big", "ppl"] == "a ratio of rows"
    assert reasons["big", "bleu"] == "not built yet"


def test_not_run(house):
    house.recipe("big")
    house.recipe("big", scale="cpu")
    row = next(r for r in list_rows() if r["row"] == "big" and r["metric"] == "bleu")
    assert (row["verdict"], row["experiment"], row["scales"]) == ("not run", "toy/big", ["paper", "cpu"])
    assert (row["measured"], row["n"], row["reduced"], row["reason"]) == (None, 0, [], None)


# Published: 30.0 BLEU, higher is better, tolerance 0.5.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([29.9, 30.0, 30.1], "reproduced"),
        ([29.5, 29.5, 29.5], "reproduced"),  # on the border of the tolerance
        ([29.49, 29.49, 29.49], "near"),  # the interval ends below the tolerance
        ([29.3, 29.35, 29.4], "near"),  # 29.35 ± 0.12 does not reach 29.5
        ([29.1, 29.35, 29.6], "reproduced"),  # 29.35 ± 0.62 does
        ([33.0, 33.1, 33.2], "reproduced"),  # on the better side
        ([28.5, 28.5, 28.5], "near"),  # 3 x tolerance
        ([28.4, 28.4, 28.4], "gap"),
        ([29.9, 30.1], "near"),  # two seeds only
        ([30.0], "near"),
        ([20.0], "gap"),
        ([33.0], "gap"),  # far from the number, and one seed proves nothing
    ],
)
def test_verdicts_where_higher_is_better(house, values, verdict):
    house.run(house.recipe("big"), values)
    assert cell("big").verdict == verdict
    assert cell("big").difference == pytest.approx(sum(values) / len(values) - 30.0)


# Published: 4.0 perplexity, lower is better, tolerance 1 % = 0.04.
@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([4.04, 4.04, 4.04], "reproduced"),
        ([3.0, 3.0, 3.0], "reproduced"),
        ([4.05, 4.05, 4.05], "near"),
        ([4.13, 4.13, 4.13], "gap"),
    ],
)
def test_verdicts_where_lower_is_better(house, values, verdict):
    house.run(house.recipe("big", GOAL % ("big", "ppl", "")), values)
    assert cell("big", "ppl").verdict == verdict


def test_a_declared_tolerance_replaces_the_default(house):
    house.run(house.recipe("big", GOAL % ("big", "bleu", ", tolerance: 2")), [28.0, 28.0, 28.0])
    house.run(house.recipe("base", GOAL % ("base", "bleu", ", tolerance: 10%")), [25.3, 25.3, 25.3])
    assert cell("big").verdict == "reproduced"
    assert cell("base").verdict == "reproduced"  # 10 % of 28 is 2.8


def test_a_unit_without_default_needs_a_tolerance(house):
    house.run(house.recipe("base", GOAL % ("base", "speed", "")), [900.0])
    with pytest.raises(UserError, match=r"no default tolerance for 'tokens/s'; add"):
        compare()


def test_one_run_is_enough_where_deterministic(house):
    house.run(house.recipe("big", GOAL % ("big", "bleu", ", deterministic: true")), [30.2])
    assert cell("big").verdict == "reproduced"
    assert cell("big").notes == ()


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"dirty": True}, "uncommitted changes (seeds 0, 1, 2)"),
        ({"commit": None, "dirty": None}, "commit unknown (seeds 0, 1, 2)"),
        ({"external": True}, "external record (seeds 0, 1, 2)"),
    ],
)
def test_what_cannot_be_reproduced_is_near_at_best_and_marked(house, changes, note):
    made = house.run(house.recipe("big"), [30.0, 30.0, 30.0], **changes)
    assert compare().state(made[0]) == ("current, external" if "external" in changes else "current")
    assert cell("big").verdict == "near"
    assert note in cell("big").notes


def test_missing_seeds_are_marked(house):
    house.run(house.recipe("big"), [30.0, 30.0])
    assert "2 of 3 seeds" in cell("big").notes


def test_mixed_commits_are_marked(house):
    name = house.recipe("big")
    for seed, commit in enumerate(["aaaaaaaa11", "bbbbbbbb22", "aaaaaaaa11"]):
        house.record(name, seed, 30.0, commit=commit)
    assert cell("big").notes == ("mixed commits (aaaaaaaa, bbbbbbbb)",)


def test_a_wide_interval_is_marked(house):
    house.run(house.recipe("big"), [25.0, 30.0, 35.0])
    assert "interval wider than 3 times the tolerance" in cell("big").notes


def test_stale_records_do_not_count(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0, 30.0])
    house.recipe("big", width=16)
    assert cell("big").verdict == "not run"
    assert cell("big").notes == ("3 stale records left out (another configuration)",)
    comparison = compare()
    assert [comparison.state(r) for r in comparison.records] == ["stale"] * 3


def test_states_name_why_a_record_is_not_used(house):
    name = house.recipe("big")
    house.record(name, 0, 30.0)
    house.record(name, 0, 31.0, finished="2026-02-01T00:00:00Z")
    house.record(name, 1, 30.0, external=True)
    gone = dataclasses.replace(make_record(name, 2, 30.0), experiment="toy/gone")
    write_record(gone, house.results / "runs")
    comparison = compare()
    states = {(r.experiment, r.seed, r.metrics[0].value): comparison.state(r) for r in comparison.records}
    assert states == {
        ("toy/big", 0, 30.0): "superseded",
        ("toy/big", 0, 31.0): "current",
        ("toy/big", 1, 30.0): "external",
        ("toy/gone", 2, 30.0): "no recipe",
    }
    assert cell("big").estimate.mean == 31.0
    assert "1 older record left out" in cell("big").notes
    assert "1 external record left out" in cell("big").notes


def test_another_protocol_is_not_used_at_paper_scale(house):
    name = house.recipe("big", GOAL % ("big", "bleu", ", protocol: {beam: 5}"))
    house.run(name, [30.0, 30.0, 30.0])
    assert cell("big").verdict == "not run"
    assert cell("big").notes == ("seeds 0, 1, 2: protocol mismatch: beam is 4, not 5",)


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
    house.record(name, 2, 30.0, metrics=[])
    assert cell("big").estimate.n == 2
    assert "seed 2: test/bleu was not measured" in cell("big").notes


def test_different_units_are_not_averaged(house):
    name = house.recipe("big")
    house.record(name, 0, 30.0)
    house.record(name, 1, 0.3, metrics=[Measurement("test/bleu", 0.3, "fraction", "test")])
    assert cell("big").estimate is None
    assert "units differ" in cell("big").notes[0]


def test_a_reduced_scale_is_never_the_row(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [30.0, 30.0, 30.0], "cpu")
    row = next(r for r in list_rows() if r["row"] == "big" and r["metric"] == "bleu")
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


def test_the_best_of_two_experiments_stands_in_the_list(house):
    house.run(house.recipe("big"), [25.0])
    house.run(house.recipe("big", name="other"), [30.0, 30.0, 30.0])
    row = next(r for r in list_rows() if r["row"] == "big" and r["metric"] == "bleu")
    assert (row["experiment"], row["measured"], row["verdict"]) == ("toy/other", 30.0, "reproduced")


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


@pytest.mark.parametrize(
    ("values", "plain", "two_sided"),
    [
        ([33.0, 33.1, 33.2], "reproduced", "gap"),
        ([31.0, 31.1, 31.2], "reproduced", "near"),
        ([30.4, 30.6, 30.8], "reproduced", "reproduced"),  # 30.6 ± 0.5 reaches the band from above
        ([29.9, 30.0, 30.1], "reproduced", "reproduced"),
        ([28.5, 28.5, 28.5], "near", "near"),
    ],
)
def test_where_a_better_number_is_a_difference_too(house, values, plain, two_sided):
    house.run(house.recipe("big", GOAL % ("big", "bleu", "")), values)
    assert cell("big").verdict == plain
    house.run(house.recipe("big", GOAL % ("big", "bleu", ", two_sided: true")), [])
    assert cell("big").verdict == two_sided
