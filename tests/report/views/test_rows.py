"""Flat rows: one object for each published number in `repro list`, a line for each number and scale as CSV."""

import csv
import io

import pytest

from repro.evidence.table import read_evidence, table
from repro.report.formats.terminal import render
from repro.report.views.rows import as_csv, list_grid, list_rows
from tests.report.fakes import PUBLISHED

KEYS = {"paper", "table", "row", "experiment", "scales", "metric", "published", "measured", "verdict"}


def listed(row="big", metric="bleu"):
    (result,) = [one for one in list_rows(read_evidence()) if (one["row"], one["metric"]) == (row, metric)]
    return result


def test_every_row_of_a_published_file_has_an_object(house):
    rows = list_rows(read_evidence())
    assert {row["row"] for row in rows} == {"big", "base", "small", "drawn", "rival", "rerun"}
    assert len(rows) == 9
    assert all(row.keys() >= KEYS for row in rows)
    assert listed("drawn", None)["published"] is None


def test_the_mean_at_the_papers_scale_is_measured(house):
    house.recipe("big", scale="cpu", width=2)
    house.run(house.recipe("big"), [30.0, 30.2, 30.4])
    house.run("toy/big", [12.5], "cpu")
    result = listed()
    assert (result["measured"], result["n"], result["verdict"]) == (30.2, 3, "open")
    assert (result["experiment"], result["scales"]) == ("toy/big", ["paper", "cpu"])
    assert result["reduced"] == [{"scale": "cpu", "mean": 12.5, "n": 1, "experiment": "toy/big"}]
    assert "mean" not in result


def test_a_reduced_scale_is_not_measured(house):
    house.recipe("big", scale="cpu", width=2)
    house.recipe("big")
    house.run("toy/big", [12.5], "cpu")
    result = listed()
    assert (result["measured"], result["n"], result["verdict"]) == (None, 0, "reduced scale")
    assert result["reduced"][0]["mean"] == 12.5


def test_what_weakens_a_number_stands_beside_its_verdict(house):
    house.run(house.recipe("big"), [30.0, 30.1], dirty=True)
    said = " ".join(render([list_grid(list_rows(read_evidence()))]).split())
    assert "big bleu (BLEU) 30 30.05 (n = 2) open: not all commits are clean;" in said
    assert "29 (unconfirmed)" in said
    assert "no recipe: third-party reproduction" in said


def sheet():
    output = as_csv(table(read_evidence())["numbers"])
    assert "\x1b" not in output
    return list(csv.DictReader(io.StringIO(output)))


def test_csv_has_a_line_for_each_number_and_scale(house):
    house.publish(PUBLISHED.replace("label: Big", 'label: "B,i\\"g\\n\\e[1m"'))
    house.recipe("big", scale="cpu", width=2)
    house.run(house.recipe("big"), [30.0, 30.0, 30.0])
    house.run("toy/big", [12.5], "cpu", dirty=True)
    lines = sheet()
    big = [x for x in lines if x["row"] == "big" and x["metric"] == "bleu"]
    assert [(x["published"], x["scale"], x["mean"], x["verdict"]) for x in big] == [
        ("30.0", "paper", "30.0", "reproduced"),
        ("30.0", "cpu", "12.5", "reduced scale"),
    ]
    assert big[0]["label"].startswith('B,i"g')
    assert big[1]["notes"] == "uncommitted changes (seed 1)"
    assert {x["row"] for x in lines} == {"big", "base", "small", "drawn", "rival", "rerun"}
    assert next(x for x in lines if x["row"] == "rerun")["unconfirmed"] == "True"
    assert as_csv([]) == ""


@pytest.mark.parametrize("start", "=+-@")
def test_a_text_in_a_sheet_is_no_formula(house, start):
    house.publish(PUBLISHED.replace("label: Big", f"label: '{start}cmd|x!A0'"))
    labels = {x["row"]: x["label"] for x in sheet()}
    assert labels["big"] == f"'{start}cmd|x!A0"
    assert labels["base"] == "Base"
