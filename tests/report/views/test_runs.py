"""Every record has a line with its state; so has every record that was run again."""

import dataclasses

from repro.evidence.ledger import withdraw
from repro.evidence.table import read_evidence
from repro.evidence.verified import BIT_EQUAL, DIFFERS, FAILED, Verified, keep
from repro.record import Measurement, write_record
from repro.report.formats.documents import markdown
from repro.report.render import write_tables
from repro.report.views.runs import commit, first_number, runs_document
from tests.report.fakes import make_record
from tests.report.views.fair import fair

DASH = "\N{EN DASH}"


def said():
    return markdown(runs_document(read_evidence()))


def lines():
    """Run, state, number and tests of each record."""
    result = [line.strip("| ").split(" | ") for line in said().split("\n") if line.startswith("| toy/")]
    return [(line[0].rpartition("-")[0], *line[1:4]) for line in result]


def test_without_a_run(house):
    assert "No run has been recorded yet." in said()


def test_each_record_has_its_state(house):
    name = house.recipe("big")
    house.run(name, [30.0, 30.0])
    house.record(name, 1, 1.0, finished="2026-05-01T00:00:00Z")
    house.record(name, 4, 1.0, config_hash="0" * 64)
    house.record(name, 5, 1.0, config_hash="1" * 64, overrides=["--trainer.max_steps=1"])
    house.record(name, 100, 1.0, finished="2026-05-01T00:00:00Z")
    states = [line[1] for line in lines()]
    assert states == ["current", "repeated", "current", "superseded", "overridden", "tuning"]


def test_a_withdrawn_record_says_why(house):
    house.run(house.recipe("big"), [30.0])
    write_tables()
    (path,) = house.results.glob("runs/toy/big/*.json")
    withdraw(house.results / "runs", str(path), "a fault")
    assert lines()[0][1] == "withdrawn: a fault"


def test_a_record_of_a_test_names_it(house):
    fair(house)
    house.record("toy/big", 1, 3.0, "paper")
    result = {line[0]: line[3] for line in lines()}
    assert result["toy/big/small/s1"] == result["toy/base/small/s3"] == "bigger-is-better/1"
    assert result["toy/big/paper/s1"] == DASH


def test_larger_scales_come_first_and_runs_without_recipe_are_shown(house):
    house.recipe("big", scale="cpu", width=2)
    made = make_record(house.recipe("big"), 1, 30.0)
    write_record(dataclasses.replace(made, experiment="toy/gone"), house.results / "runs")
    house.run("toy/big", [12.0], "cpu")
    house.record("toy/big", 2, 30.0)
    assert [line[0] for line in lines()] == ["toy/big/paper/s2", "toy/big/cpu/s1", "toy/big/paper/s1"]
    assert lines()[-1][1] == "no recipe"


def test_deviations_are_listed_once(house):
    house.run(house.recipe("big"), [30.0, 30.0], deviations=["Fewer | updates"])
    assert said().count("- toy/big: Fewer \\| updates") == 1


def test_the_first_number_is_one_that_the_recipe_names(house):
    (record,) = house.run(house.recipe("big"), [30.0])
    other = Measurement("test/other", 1.0, "BLEU", "test")
    record = dataclasses.replace(
        record, metrics=[dataclasses.replace(other, name="val/x"), other, *record.metrics]
    )
    assert first_number(record) == "test/bleu 30.00 BLEU"
    assert first_number(dataclasses.replace(record, config={})) == "test/other 1.000 BLEU"
    assert first_number(dataclasses.replace(record, metrics=record.metrics[:1])) == "val/x 1.000 BLEU"
    assert first_number(dataclasses.replace(record, metrics=[])) == DASH


def test_a_commit_says_what_is_known_of_it(house):
    (record,) = house.run(house.recipe("big"), [30.0])
    assert commit(record) == "01234567"
    assert commit(dataclasses.replace(record, dirty=True)) == "01234567 with uncommitted changes"
    assert commit(dataclasses.replace(record, dirty=None)) == "01234567 (changes unknown)"
    assert commit(dataclasses.replace(record, commit=None)) == "unknown"


def test_records_that_were_run_again_stand_below_the_runs(house):
    (made,) = house.run(house.recipe("big"), [30.0])
    assert "run again" not in said()
    outcomes = [
        Verified("2026-02-03T00:00:00Z", made.path, "a" * 64, BIT_EQUAL, True, "4 numbers"),
        Verified("2026-02-01T00:00:00Z", made.path, "a" * 64, DIFFERS, False, "test/bleu 30 | 31"),
        Verified("2026-02-02T00:00:00Z", "toy/gone/x.json", "a" * 64, FAILED, None, "exit code 1"),
    ]
    for outcome in outcomes:
        keep(house.results, outcome)
    above, _, below = said().partition("## Records that were run again")
    assert "bit-equal" not in above
    assert [line for line in below.split("\n") if line.startswith("| 2026")] == [
        f"| 2026-02-03 | {made.path} | bit-equal | yes | 4 numbers |",
        f"| 2026-02-01 | {made.path} | differs | no | test/bleu 30 \\| 31 |",
        f"| 2026-02-02 | toy/gone/x.json | failed to run | {DASH} | exit code 1 |",
    ]
