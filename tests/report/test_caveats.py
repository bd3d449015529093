"""Whatever weakens a number is marked beside it, in every format, and is never silently averaged."""

import csv
import io

import pytest

from repro.evidence.compare import compare
from repro.record import Measurement
from tests.report.fakes import PUBLISHED
from tests.report.markup import read
from tests.report.pages import files_of


def bleu(value, **protocol):
    return [Measurement("test/bleu", value, "BLEU", "test", protocol)]


def seed_between_missing(house, name, scale):
    for seed in (1, 2, 4):
        house.record(name, seed, 30.0, scale)


def mixed_commits(house, name, scale):
    for seed, commit in enumerate(["aaaaaaaa11", "bbbbbbbb22", "aaaaaaaa11"], 1):
        house.record(name, seed, 30.0, scale, commit=commit)


def mixed_threads(house, name, scale):
    house.run(name, [30.0, 30.0], scale, hardware={"device": "cpu", "count": 1, "nodes": 1, "threads": 1})
    house.record(name, 3, 30.0, scale, hardware={"device": "cpu", "count": 1, "nodes": 1, "threads": 2})


def mixed_devices(house, name, scale):
    house.run(name, [30.0, 30.0], scale, hardware={"device": "cpu", "count": 1, "nodes": 1, "threads": 1})
    house.record(name, 3, 30.0, scale, hardware={"device": "other", "count": 1, "nodes": 1, "threads": 1})


def changes_not_committed(house, name, scale):
    house.run(name, [30.0, 30.0, 30.0], scale, dirty=True)


def commit_unknown(house, name, scale):
    house.run(name, [30.0, 30.0, 30.0], scale, commit=None, dirty=None)


def diverged(house, name, scale):
    house.run(name, [30.0, 30.0], scale)
    house.record(name, 3, 30.0, scale, curves={"train/loss": [[0, 3.0], [50, float("nan")]]})


CASES = {
    seed_between_missing: ["no record of seed 3: failed or not run"],
    mixed_commits: ["mixed commits (aaaaaaaa, bbbbbbbb)"],
    mixed_threads: ["mixed threads (1, 2)"],
    mixed_devices: ["mixed devices (cpu, other)"],
    changes_not_committed: ["uncommitted changes (seeds 1, 2, 3)"],
    commit_unknown: ["commit unknown (seeds 1, 2, 3)"],
    diverged: ["a curve that is not finite (seed 3)"],
}


def notes_of(files):
    """Notes of the CSV's first line with a mean."""
    lines = csv.DictReader(io.StringIO(files["tables/toy.csv"]))
    return next(line for line in lines if line["mean"])["notes"]


@pytest.mark.parametrize(("weaken", "message"), CASES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_at_paper_scale(house, weaken, message):
    weaken(house, house.recipe("big"), "paper")
    files = files_of(house)
    if weaken is seed_between_missing:
        message = [*message, "not counted: seed 4"]
    assert notes_of(files) == "; ".join(message)
    (strong,) = [line for line in files["tables/toy.md"].split("\n") if "ours: toy/big" in line]
    assert strong.endswith(", see notes** |")
    note = f"big, bleu, toy/big (paper's scale): {'; '.join(message)}."
    assert f"- {note}" in files["tables/toy.md"].replace("\\", "")
    assert note in [li.text for li in read(files["pages/toy.html"]).all("li")]


@pytest.mark.parametrize(("weaken", "message"), CASES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_at_a_reduced_scale(house, weaken, message):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    weaken(house, name, "cpu")
    files = files_of(house)
    assert notes_of(files) == "; ".join(message)
    (line,) = [line for line in files["tables/toy.md"].split("\n") if line.startswith("| toy/big | cpu |")]
    assert line.endswith("| see notes |")
    note = f"- big, bleu, toy/big (reduced scale: cpu): {'; '.join(message)}."
    assert note in files["tables/toy.md"].replace("\\", "")


def test_seeds_that_are_missing_stand_beside_the_verdict(house):
    house.run(house.recipe("big"), [30.0, 30.2])
    files = files_of(house)
    words = "open: +0.10, n = 2, no number of seed 3"
    assert f"**{words}**" in files["tables/toy.md"]
    assert words in files["tables/toy.tex"]
    assert "open +0.10, n = 2, no number of seed 3" in [
        td.text for td in read(files["pages/toy.html"]).all("td")
    ]


def test_nothing_is_marked_that_has_no_weakness(house):
    house.run(house.recipe("big"), [30.0, 30.0, 30.0])
    assert_unmarked(house)


def assert_unmarked(house):
    files = files_of(house)
    assert "see notes" not in files["tables/toy.md"] + files["pages/toy.html"]
    assert [x["notes"] for x in csv.DictReader(io.StringIO(files["tables/toy.csv"])) if x["notes"]] == []


def test_records_that_do_not_count_leave_no_mark(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0, 30.0])
    house.record(name, 1, 1.0, finished="2026-05-01T00:00:00Z")  # repeated
    house.record(name, 5, 1.0, config_hash="1" * 64, overrides=["--trainer.max_steps=1"])
    house.record(name, 100, 1.0, finished="2026-05-01T00:00:00Z")  # tuning
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.verdict, cell.estimate.mean, cell.estimate.n) == ("reproduced", 30.0, 3)
    assert_unmarked(house)


def test_a_run_without_the_number_is_marked_and_left_out(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0])
    house.record(name, 3, 0.0, metrics=[Measurement("test/other", 1.0, "BLEU", "test")])
    files = files_of(house)
    assert "n = 2" in files["tables/toy.md"]
    assert notes_of(files) == "seed 3: test/bleu was not measured"


@pytest.mark.parametrize("scale", ["paper", "cpu"])
def test_signatures_that_differ_are_not_averaged(house, scale):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    for seed, signature in enumerate(["case:mixed", "case:mixed", "case:lc"], 1):
        house.record(name, seed, 30.0, scale, metrics=bleu(29.0 + seed, beam=4, signature=signature))
    (cell,) = [c for c in compare().entries["toy", "table1", "big", "bleu"].cells if c.goal.scale == scale]
    assert cell.estimate is None
    assert cell.verdict == "not run"
    note = "protocols differ between seeds: signature case:mixed (seeds 1, 2); signature case:lc (seed 3): not averaged"
    assert note in cell.notes
    files = files_of(house)
    assert "31.00" not in files["tables/toy.md"]
    assert note in files["tables/toy.md"]


def test_a_signature_that_only_some_seeds_state_is_a_difference(house):
    name = house.recipe("big")
    house.record(name, 1, 0.0, metrics=bleu(30.0, signature="a"))
    house.record(name, 2, 0.0, metrics=bleu(30.0))
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert cell.estimate is None
    assert "no signature (seed 2)" in cell.notes[0]


def test_what_a_run_found_by_itself_is_no_other_protocol(house):
    name = house.recipe("big")
    for seed in (1, 2, 3):
        house.record(name, seed, 0.0, metrics=bleu(30.0, best=90.0 + seed, within=1.0))
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.estimate.n, cell.notes) == (3, ())


def test_many_missing_seeds_are_counted(house):
    house.recipe("big")
    name = house.write("big", (house.configs / "toy" / "big.yaml").read_text() + "seeds: 1-99\n")
    for seed in (1, 2, 20):
        house.record(name, seed, 30.0, finished="2026-05-01T00:00:00Z")
    expected = ("no record of seeds 3, 4, 5, 6, 7 and 12 more: failed or not run", "not counted: seed 20")
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert cell.notes == expected
    house.record(name, 2_000_000_000, 30.0, finished="2026-05-01T00:00:00Z")  # a tuning seed leaves no gap
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.estimate.n, cell.notes) == (2, expected)


def test_a_published_number_that_is_unconfirmed(house):
    house.publish(
        PUBLISHED.replace(
            "settings: {}, values: {bleu: 30.0", "settings: {}, unconfirmed: [bleu], values: {bleu: 30.0"
        )
    )
    house.run(house.recipe("big"), [30.0, 30.0, 30.0])
    files = files_of(house)
    assert "| Big | paper | 2,000 | 30 (unconfirmed) |" in files["tables/toy.md"]
    assert next(csv.DictReader(io.StringIO(files["tables/toy.csv"])))["unconfirmed"] == "True"
    assert "30 (unconfirmed)" in files["tables/toy.tex"]
    assert "none of 4 tested" in files["index.html"]
