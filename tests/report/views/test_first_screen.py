"""The first screen: rungs and no zeros, and sentences that follow from the evidence."""

import json
from dataclasses import replace

from repro.evidence.official import PARITY as FILE
from repro.evidence.official import SIZES
from repro.evidence.table import read_evidence
from repro.paths import PROJECT
from repro.report.formats.documents import markdown
from repro.report.views.first_screen import COMMANDS, overview, rungs_grid, shown, summary
from repro.report.views.words import WORDS
from tests.report.fakes import UNTESTED
from tests.report.test_parity import FOUND, write
from tests.report.views.fair import ROWS, TWO, fair, run


def line():
    found = read_evidence()
    (row,) = rungs_grid(found, found.papers).rows
    return row[1:]


def test_the_commands_are_those_of_the_readme():
    assert f"```sh\n{COMMANDS}\n```" in (PROJECT / "README.md").read_text(encoding="utf-8")


def test_nothing_is_shown_by_nothing(house):
    dash = "\N{EN DASH}"
    assert line() == (dash, dash, dash, "none of 1 yet", "none of 5 tested", dash)
    said = shown(read_evidence())
    assert "The training of 0 of 1 paper agrees" in said
    assert "none yet; 0 declared and not yet complete, 1 planned." in said
    assert (
        "0 attempts that the gate refuses, 0 of them declared beforehand, count for nothing, and 2 claims"
        in said
    )
    assert "parity.svg" not in str(summary(read_evidence()))


def test_each_rung_has_its_count_and_its_largest_difference(house):
    write(house.results, FOUND[:3])
    size = {
        "paper": "toy", "experiment": "toy/big", "table": "table1", "row": "big", "published": 2000, "ours": 2000,
        "rounded_to": 100, "agrees": True, "explanation": None,
    }  # fmt: skip
    other = {**size, "row": "base", "ours": 3, "agrees": False, "explanation": "tied"}
    (house.results / SIZES).write_text(json.dumps([size, other]))
    fair(house)
    house.run("toy/big", [30.0, 30.0, 30.0])
    house.run("toy/base", [20.0, 20.0, 20.0])
    assert (house.results / FILE).is_file()
    assert line()[:5] == (
        "2 cases, 3e-12",
        "8 updates, 7e-13 (reimplementation)",
        "1 of 2, 1 explained",
        "1 same order",
        "1 reproduced, 1 lower, of 5",
    )
    said = shown(read_evidence())
    assert "code, and of 1 with that of a published reimplementation." in said
    assert "Fair tests of claims, mostly at reduced scales: 1 same order; 0 declared" in said
    assert "2 were run at the paper's scale: 1 reproduced, 1 lower (reproduced by toy/big); the rest" in said
    assert "parity.svg" in str(summary(read_evidence()))


def test_the_code_of_the_authors_is_told_from_a_reimplementation(house):
    write(house.results, [FOUND[0], replace(FOUND[2], source="toy/toy@0123456 train.py; torch 2.13.0+cpu")])
    assert line()[1] == "8 updates, 7e-13"
    assert "The training of 1 of 1 paper agrees, update by update, with that of the authors' code." in shown(
        read_evidence()
    )


def test_the_hours_of_the_rest_are_those_of_the_recipes(house):
    house.recipe("big")
    house.write("big", "{hours: 2, devices: 4, hardware: GPU}", "paper")
    assert line()[5] == "24"
    assert "about 24 GPU hours" in shown(read_evidence())
    house.write("big", "{hours: 1234, devices: 4, hardware: GPU}", "paper")
    assert line()[5] == "14,808"
    assert "about 15,000 GPU hours" in shown(read_evidence()), "an estimate has two digits"


def test_the_overview_shows_the_last_attempt_and_explains_every_word(house):
    changed = TWO.replace("    rows:", "    changed: more updates\n    rows:")
    house.test(f"schema_version: 1\npaper: toy\ntests:{ROWS}{changed}{UNTESTED}")
    said = markdown(overview(read_evidence()))
    assert "| 2 of 2 | reduced scale: small | planned |" in said
    assert "| 1 of 2 |" not in said
    assert all(f"- {word}: {sentence}" in said for word, sentence in WORDS.items())


def test_a_test_that_is_not_fair_is_counted_apart(house):
    run(house)
    assert line()[3] == "none of 1 yet"
    assert "1 attempt that the gate refuses, 0 of them declared beforehand, count" in shown(read_evidence())
    house.declare(at="2026-01-03T12:00:00Z")
    assert "1 attempt that the gate refuses, 1 of them declared beforehand, count" in shown(read_evidence())
