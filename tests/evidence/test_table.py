"""The flat rows of all evidence, ``results/evidence.json``."""

import json

import pytest

from repro.evidence.declared.gate import Condition
from repro.evidence.entries import UNEXPLAINED
from repro.evidence.table import as_json, read_evidence, table
from repro.paths import published_files
from tests.evidence.tested_rows import around, run_rows
from tests.report.fakes import TEST


@pytest.fixture(scope="module")
def checkout():
    """The evidence of the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REPRO_RESULTS", raising=False)
        patch.delenv("REPRO_CONFIGS", raising=False)
        yield read_evidence()


def test_every_number_of_every_published_file_has_a_row(checkout):
    rows = [r for r in table(checkout)["numbers"] if r["published"] is not None]
    listed = {(r["paper"], r["table"], r["row"], r["metric"]) for r in rows}
    expected = {
        (paper.key, published.id, row.id, metric)
        for paper in checkout.papers
        for published in paper.tables.values()
        for row in published.rows.values()
        for metric in row.values
    }
    assert len(checkout.papers) == len(published_files())
    assert listed == expected
    rows = {(r["paper"], r["table"], r["row"]) for r in table(checkout)["numbers"]}
    assert rows == {
        (paper.key, published.id, row)
        for paper in checkout.papers
        for published in paper.tables.values()
        for row in published.rows
    }


def test_every_number_has_a_recipe_a_derivation_or_a_reason(checkout):
    rows = [r for r in table(checkout)["numbers"] if r["why"] == UNEXPLAINED]
    assert [(r["paper"], r["table"], r["row"], r["metric"]) for r in rows] == []


def test_every_claim_has_its_tests_or_what_it_needs(checkout):
    result = table(checkout)
    claims = {(paper.key, claim) for paper in checkout.papers for claim in paper.claims}
    assert {(r["paper"], r["claim"]) for kind in ("tests", "untested") for r in result[kind]} == claims
    assert [line["paper"] for line in result["rungs"]] == [paper.key for paper in checkout.comparison.papers]


def test_the_picture_of_each_paper_is_of_a_test_that_counts(checkout):
    for paper in checkout.papers:
        tests = checkout.tested[paper.key]
        one = checkout.test(paper.key, checkout.files[paper.key].picture)
        assert (one is not None and one.counts) or not any(test.counts for test in tests), paper.key


def test_the_counted_numbers_of_the_rungs_are_those_of_the_rows(checkout):
    result = table(checkout)
    counted = {(r["paper"], r["table"], r["row"], r["metric"]) for r in result["numbers"] if r["counted"]}
    assert sum(line["counted"] for line in result["rungs"]) == len(counted)


def test_the_file_is_stable_and_has_a_row_a_line(checkout):
    text = as_json(table(checkout))
    assert as_json(table(checkout)) == text
    result = json.loads(text)
    assert result == json.loads(json.dumps(table(checkout)))
    assert text.count("\n") == sum(map(len, result.values())) + 2 * len(result) + 2
    assert "NaN" not in text
    assert "Infinity" not in text


def numbers(row, metric="bleu"):
    return [r for r in table(read_evidence("toy"))["numbers"] if (r["row"], r["metric"]) == (row, metric)]


def test_a_number_without_a_recipe_has_one_row(house):
    (row,) = numbers("big")
    assert row == {
        "paper": "toy", "table": "table1", "row": "big", "label": "Big", "metric": "bleu", "unit": "BLEU",
        "better": "higher", "published": 30.0, "unconfirmed": False, "class": "trained", "margin": "0.5",
        "updates": 100, "counted": True, "experiment": None, "scale": None, "measured": None, "n": 0, "mean": None,
        "low": None, "high": None, "verdict": "no recipe", "why": UNEXPLAINED, "notes": [],
    }  # fmt: skip
    assert [(r["metric"], r["published"], r["why"]) for r in numbers("drawn", None)] == [
        (None, None, "the paper prints no number")
    ]


def test_each_experiment_and_scale_of_a_number_has_a_row(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.recipe("big", name="again")
    house.run(name, around(30))
    house.run(name, [1.0], "cpu")
    result = [(r["experiment"], r["scale"], r["n"], r["mean"], r["verdict"]) for r in numbers("big")]
    assert result == [
        ("toy/big", "paper", 3, 30.0, "reproduced"),
        ("toy/again", "paper", 0, None, "not run"),
        ("toy/big", "cpu", 1, 1.0, "reduced scale"),
    ]
    assert numbers("big")[0]["low"] == pytest.approx(29.7516, abs=1e-4)


def test_a_test_has_its_rows_its_gate_and_its_effects(house):
    run_rows(house, text=TEST, big=around(30), base=around(28))
    (row,) = table(read_evidence("toy"))["tests"]
    assert [row[key] for key in ("test", "attempt", "scale", "column", "margin", "unit", "verdict", "core_hours")] == [
        "bigger-is-better/1", 1, "small", "bleu", "0.5", "BLEU", "same order", 0.5,
    ]  # fmt: skip
    assert (row["says"], row["paper_says"]) == (
        "Big has more BLEU than base after 100 updates.",
        "Bigger is better.",
    )
    assert [Condition(**c).name for c in row["gate"]] == ["declared", "column", "room"]
    assert [(r["row"], r["experiment"], r["relation"], r["scores"]) for r in row["rows"]] == [
        ("big", "toy/big", ">", [29.9, 30.0, 30.1]),
        ("base", "toy/base", "", [27.9, 28.0, 28.1]),
    ]
    assert row["effects"][0]["percent"] == pytest.approx(7.142857)


def test_what_is_not_tested_says_what_it_needs(house):
    result = [tuple(row.values()) for row in table(read_evidence("toy"))["untested"]]
    assert result == [
        ("toy", "base-ties-small", False, "8 GPU hours a row"),
        ("toy", "lower-perplexity", True, "needs the toys; nobody sells them"),
    ]


def test_numbers_are_written_with_the_digits_that_matter(house):
    house.run(house.recipe("big"), [30.1, 30.2, 30.3])
    assert [numbers("big")[0][key] for key in ("mean", "low", "high")] == [30.2, 29.95158623, 30.44841377]
