"""Whatever weakens a number is marked beside it, in every format, and is never silently averaged."""

import csv
import io

import pytest

from repro.evidence.compare import compare
from repro.record import Measurement
from repro.report.render import render_all, render_overview
from tests.evidence.test_compare import GOAL
from tests.report.fakes import PUBLISHED
from tests.report.markup import read
from tests.report.pages import cells, group, row, tree_of


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
    changes_not_committed: ["uncommitted changes (seeds 1, 2, 3)"],
    commit_unknown: ["commit unknown (seeds 1, 2, 3)"],
    diverged: ["a curve that is not finite (seed 3)"],
}


def tables(house):
    files = render_all(house.results)
    return {path.name: data.decode() for path, data in files.items() if path.suffix != ".svg"}


@pytest.mark.parametrize(("weaken", "said"), CASES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_at_paper_scale(house, weaken, said):
    weaken(house, house.recipe("big"), "paper")
    files = tables(house)
    _, ours = row(read(files["index.html"]), "big")
    assert [li.text for li in ours.one("ul", cls="marks").all("li")] == said
    line = next(line for line in csv.DictReader(io.StringIO(files["toy.csv"])) if line["mean"])
    assert line["notes"] == "; ".join(said)
    (strong,) = [line for line in files["toy.md"].split("\n") if "ours: toy/big" in line]
    assert strong.endswith("; see notes)** |")
    assert f"- big, bleu, toy/big at scale paper: {'; '.join(said)}." in files["toy.md"].replace("\\", "")


@pytest.mark.parametrize(("weaken", "said"), CASES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_at_a_reduced_scale(house, weaken, said):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    weaken(house, name, "cpu")
    files = tables(house)
    runs = group(read(files["index.html"]), name, "cpu")
    assert set(said) <= {li.text for li in runs.first("ul", cls="marks").all("li")}
    assert "see notes" in runs.first("summary").text
    (line,) = [line for line in files["toy.md"].split("\n") if line.startswith("| toy/big | cpu |")]
    assert "(see notes)" in line
    assert all(words in files["toy.md"].split("## Reduced-scale runs")[1] for words in said)


def test_seeds_that_are_missing_stand_beside_the_verdict(house):
    house.run(house.recipe("big"), [30.0, 30.2])
    files = tables(house)
    tree = read(files["index.html"])
    _, ours = row(tree, "big")
    assert ours.all("td")[0].text == "30.10 ± 1.27n = 2, +0.10undecided2 of 3 seeds"
    (shown,) = tree.one("div", aria_label="Trained results at the paper's scale").one("tbody").all("tr")
    assert [small.text for small in shown.all("small")][-1] == "2 of 3 seeds"
    assert "**undecided (+0.10, n = 2, 2 of 3 seeds)**" in files["toy.md"]
    assert "undecided (+0.10, n = 2, 2 of 3 seeds)" in files["toy.tex"]
    assert "| undecided: 2 of 3 seeds |" in render_overview()
    assert ours.all("ul", cls="marks") == []


def test_nothing_is_marked_that_has_no_weakness(house):
    house.run(house.recipe("big"), [30.0, 30.0, 30.0])
    assert_unmarked(house)


def assert_unmarked(house):
    files = tables(house)
    tree = read(files["index.html"])
    shown = [*tree.all("details"), tree.one("section", id="overview")]
    assert [ul.text for part in shown for ul in part.all("ul", cls="marks")] == []
    assert "see notes" not in files["toy.md"]
    assert [line["notes"] for line in csv.DictReader(io.StringIO(files["toy.csv"])) if line["notes"]] == []


def test_records_that_do_not_count_leave_no_mark(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0, 30.0])
    house.record(name, 1, 1.0, finished="2026-05-01T00:00:00Z")  # repeated
    house.record(name, 4, 1.0, config_hash="0" * 64)  # superseded
    house.record(name, 5, 1.0, config_hash="1" * 64, overrides=["--trainer.max_steps=1"])
    house.record(name, 100, 1.0, finished="2026-05-01T00:00:00Z")  # tuning
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.verdict, cell.estimate.mean, cell.estimate.n) == ("reproduced", 30.0, 3)
    assert_unmarked(house)
    states = [line[1] for line in runs_of(tree_of(house), name)]
    assert sorted(states) == [
        "current", "current", "current", "overridden", "repeated", "superseded", "tuning",
    ]  # fmt: skip


def runs_of(tree, experiment):
    """The lines of the runs of an experiment at paper scale."""
    region = group(tree, experiment).one("div", aria_label=f"Runs of {experiment} at scale paper")
    return [cells(line) for line in region.one("tbody").all("tr")]


def test_a_run_without_the_number_is_marked_and_left_out(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0])
    house.record(name, 3, 0.0, metrics=[Measurement("test/other", 1.0, "BLEU", "test")])
    _, ours = row(read(tables(house)["index.html"]), "big")
    assert "n = 2" in ours.text
    assert "seed 3: test/bleu was not measured" in ours.text
    metrics = group(read(tables(house)["index.html"]), name).text
    assert "only seeds 1, 2" in metrics
    assert "only seed 3" in metrics


@pytest.mark.parametrize("scale", ["paper", "cpu"])
def test_signatures_that_differ_are_not_averaged(house, scale):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    for seed, signature in enumerate(["case:mixed", "case:mixed", "case:lc"], 1):
        house.record(name, seed, 30.0, scale, metrics=bleu(29.0 + seed, beam=4, signature=signature))
    (cell,) = [c for c in compare().entries["toy", "table1", "big", "bleu"].cells if c.goal.scale == scale]
    assert cell.estimate is None
    assert cell.verdict == "not run"
    said = "protocols differ between seeds: signature case:mixed (seeds 1, 2); signature case:lc (seed 3): not averaged"
    assert said in cell.notes
    files = tables(house)
    assert "31.00" not in files["index.html"].split('<details class="runs"')[0]
    metrics = group(read(files["index.html"]), name, scale)
    assert "only seeds 1, 2" in metrics.text
    if scale == "cpu":
        lines = [line for line in files["toy.md"].split("\n") if line.startswith("| toy/big | cpu |")]
        assert ["only seeds 1, 2" in line or "only seed 3" in line for line in lines] == [True, True]


def test_a_signature_that_only_some_seeds_state_is_a_difference(house):
    name = house.recipe("big")
    house.record(name, 1, 0.0, metrics=bleu(30.0, signature="a"))
    house.record(name, 2, 0.0, metrics=bleu(30.0))
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert cell.estimate is None
    assert "no signature (seed 2)" in cell.notes[0]


def test_another_signature_than_the_recipe_names_is_not_used(house):
    name = house.recipe("big", GOAL % ("big", "bleu", ", protocol: {signature: a}"))
    for seed, signature in enumerate("aab", 1):
        house.record(name, seed, 0.0, metrics=bleu(20.0 + 10 * seed, signature=signature))
    _, ours = row(read(tables(house)["index.html"]), "big")
    assert "35.00 ± 63.53" in ours.text
    assert "n = 2" in ours.text
    assert "seed 3: protocol mismatch: signature is b, not a" in ours.text


def test_what_a_run_found_by_itself_is_no_other_protocol(house):
    name = house.recipe("big")
    for seed in (1, 2, 3):
        house.record(name, seed, 0.0, metrics=bleu(30.0, best=90.0 + seed, within=1.0))
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.estimate.n, cell.notes) == (3, ())
    assert "protocol: within 1.0" in group(read(tables(house)["index.html"]), name).text


def test_many_missing_seeds_are_counted(house):
    house.recipe("big")
    name = house.write("big", (house.configs / "toy" / "big.yaml").read_text() + "seeds: 1-99\n")
    for seed in (1, 2, 20):
        house.record(name, seed, 30.0, finished="2026-05-01T00:00:00Z")
    wanted = ("no record of seeds 3, 4, 5, 6, 7 and 12 more: failed or not run",)
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert cell.notes == wanted
    house.record(name, 2_000_000_000, 30.0, finished="2026-05-01T00:00:00Z")  # a tuning seed leaves no gap
    (cell,) = compare().entries["toy", "table1", "big", "bleu"].cells
    assert (cell.estimate.n, cell.notes) == (3, wanted)


def test_a_published_number_that_is_unconfirmed(house):
    house.publish(
        PUBLISHED.replace(
            "settings: {}, values: {bleu: 30.0", "settings: {unconfirmed: [bleu]}, values: {bleu: 30.0"
        )
    )
    house.run(house.recipe("big"), [30.0, 30.0, 30.0])
    files = tables(house)
    tree = read(files["index.html"])
    paper, _ = row(tree, "big")
    assert paper.first("td").text == "30unconfirmed"
    assert tree.all("div", aria_label="Trained results at the paper's scale") == []
    (said,) = [li.text for li in tree.one("section", id="overview").all("li") if "unconfirmed" in li.text]
    assert "Big, bleu (toy, Table 1) 30.00 beside 30, n = 3, reproduced" in said
    assert "| Big | paper | 2,000 | 30 (unconfirmed) |" in files["toy.md"]
    assert next(csv.DictReader(io.StringIO(files["toy.csv"])))["unconfirmed"] == "True"
    assert "30 (unconfirmed)" in files["toy.tex"]


def test_a_reduced_scale_stands_nowhere_beside_the_papers_number(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [77.7, 77.7, 77.7], "cpu")
    files = tables(house)
    tree = read(files["index.html"])
    assert all("77.7" not in t.text for t in tree.all("details", cls="table"))
    assert "77.7" not in tree.one("section", id="overview").text
    assert "reduced scale: cpu" in group(tree, name, "cpu").first("summary").text
