import dataclasses
import hashlib
import json
import subprocess
import sys

import pytest

from repro.errors import UserError
from repro.evidence import ledger as record_ledger
from repro.evidence.compare import compare
from repro.evidence.ledger import append_missing, check_records, withdraw
from repro.ledger import HEADER, read_ledger
from repro.record import LEDGER, read_records, withdrawn
from tests.report.fakes import TESTS, make_record
from tests.report.ledgers import keep, lines_with, place, record_of, the_problem


@pytest.fixture
def runs(house):
    return keep(house)


def test_every_record_and_its_outputs_get_a_line_once(runs):
    lines = read_ledger(runs)
    assert [line.event for line in lines] == ["recorded"] * 4 + ["declared"]
    assert (lines[-1].path.rpartition("/")[0], lines[-1].reason) == ("seeds/toy/big/paper", "1-5")
    assert sorted(line.path for line in lines[:-1]) == sorted(
        place(runs, p) for p in runs.rglob("*") if p.is_file() and p.name != LEDGER
    )
    for line in lines[:-1]:
        assert line.sha256 == hashlib.sha256((runs / line.path).read_bytes()).hexdigest()
    before = (runs / LEDGER).read_bytes()
    assert append_missing(runs) is None
    assert (runs / LEDGER).read_bytes() == before
    assert check_records(runs) == []


def test_lines_are_only_appended(runs, house):
    before = (runs / LEDGER).read_bytes()
    house.record("toy/big", 4, 31.0)
    assert place(runs, record_of(runs, 4)) in the_problem(runs), "no line yet"
    assert (runs / LEDGER).read_bytes() == before, "checking writes nothing"
    assert append_missing(runs) == runs / LEDGER
    assert (runs / LEDGER).read_bytes().startswith(before)
    assert check_records(runs) == []


def test_without_records_there_is_no_ledger(house):
    assert append_missing(house.results / "runs") is None
    assert check_records(house.results / "runs") == []
    assert not (house.results / "runs").exists()


def test_a_removed_record_is_noticed(runs):
    path = record_of(runs, 2)
    path.unlink()
    assert place(runs, path) in the_problem(runs)


@pytest.mark.parametrize("suffix", [".json", ".outputs.txt"])
def test_an_edited_byte_is_noticed(runs, suffix):
    path = record_of(runs, 1).with_suffix(suffix)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"0", b"1", 1) if suffix == ".json" else b"a" + data[1:])
    assert place(runs, path) in the_problem(runs)


def test_an_edited_record_with_a_second_line_is_noticed(runs):
    path = record_of(runs, 2)
    (line,) = lines_with(runs, path)
    path.write_bytes(path.read_bytes().replace(b"30.0", b"31.0", 1))
    rehashed = line.replace(line.split("\t")[3], hashlib.sha256(path.read_bytes()).hexdigest())
    with (runs / LEDGER).open("a") as file:
        file.write(f"{rehashed}\n")
    assert place(runs, path) in the_problem(runs)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.removeprefix("time"),
        lambda text: text[:-5],
        lambda text: text + "<<<<<<< HEAD\n",
        lambda text: text.replace("recorded", "noted", 1),
        lambda text: text.replace("toy/big", "../big", 1),
        lambda text: text.replace("\t-\n", "\n", 1),
        lambda text: text.replace("Z\trecorded", "\trecorded", 1),
    ],
    ids=range(7),
)
def test_a_malformed_ledger_is_refused_and_left_as_it_is(runs, house, spoil):
    ledger = runs / LEDGER
    ledger.write_text(spoil(ledger.read_text()))
    before = ledger.read_bytes()
    house.record("toy/big", 4, 31.0)
    assert str(ledger) in the_problem(runs)
    with pytest.raises(UserError, match="LEDGER"):
        append_missing(runs)
    with pytest.raises(UserError, match="LEDGER"):
        withdraw(runs, str(record_of(runs, 4)), "a fault")
    assert ledger.read_bytes() == before


def test_a_recipe_that_changes_supersedes_its_records_once(runs, house):
    house.recipe("big", width=16)
    *superseded, seeds = check_records(runs)
    assert len(superseded) == 3
    assert "seeds/toy/big/paper/" in seeds, "the changed recipe judges seeds anew"
    append_missing(runs)
    append_missing(runs)
    lines = [line for line in read_ledger(runs) if line.event == "superseded"]
    assert sorted(line.path for line in lines) == sorted(place(runs, record_of(runs, s)) for s in (1, 2, 3))
    assert all("model.init_args.width: 8 → 16" in line.reason for line in lines)
    assert check_records(runs) == []


def test_a_snapshot_records_and_supersedes_nothing(runs, house, monkeypatch):
    monkeypatch.setattr(record_ledger, "is_snapshot", lambda: True)
    before = len(read_ledger(runs))
    house.recipe("big", width=16)
    house.record("toy/big", 4, 31.0)
    append_missing(runs)
    assert [line.event for line in read_ledger(runs)[before:]] == ["recorded"]


def test_a_recipe_that_is_removed_supersedes_its_records(runs, house):
    (house.configs / "toy" / "big.yaml").unlink()
    house.recipe("base")
    append_missing(runs)
    assert sum(line.event == "superseded" for line in read_ledger(runs)) == 3


def test_a_point_that_only_one_scale_has_is_a_recipe(house):
    house.recipe("big")
    house.write("big", "points: {wide: {model.width: 16}}\n", "cpu")
    made = house.record("toy/big@wide", 1, 30.0, "cpu")
    append_missing(house.results / "runs")
    assert [line.event for line in read_ledger(house.results / "runs")] == ["recorded"]
    house.write("big", "points: {narrow: {model.width: 4}}\n", "cpu")
    append_missing(house.results / "runs")
    last = read_ledger(house.results / "runs")[-1]
    assert (last.event, last.path) == ("superseded", made.path)


def test_what_never_was_the_recipes_is_not_superseded(runs, house):
    house.record("toy/big", 4, 30.0, config_hash="0" * 64, overrides=["--model.width=9"])
    append_missing(runs)
    assert {line.event for line in read_ledger(runs)} == {"recorded", "declared"}


def test_a_withdrawn_record_stays_and_says_why(runs):
    path = record_of(runs, 2)
    before = path.read_bytes()
    name = place(runs, path)
    assert withdraw(runs, name.removesuffix(".json"), "trained\ton the\ntest split") == name
    last = read_ledger(runs)[-1]
    assert (last.event, last.path, last.reason) == ("withdrawn", name, "trained on the test split")
    assert withdrawn(runs) == {name}
    assert compare().withdrawn == {name: "trained on the test split"}
    assert path.read_bytes() == before
    assert check_records(runs) == []
    with pytest.raises(UserError, match=name):
        withdraw(runs, name, "again")
    path.write_bytes(before + b"\n")
    assert name in the_problem(runs)


def test_a_record_is_withdrawn_by_its_path_from_anywhere(runs, monkeypatch):
    monkeypatch.chdir(runs / "toy")
    withdraw(runs, f"big/{record_of(runs, 2).name}", "a fault")
    withdraw(runs, str(record_of(runs, 3)), "a fault")
    assert len(withdrawn(runs)) == 2


@pytest.mark.parametrize("reason", ["", " \t\n"])
def test_a_withdrawal_needs_a_reason(runs, reason):
    name = place(runs, record_of(runs, 2))
    with pytest.raises(UserError, match=name):
        withdraw(runs, name, reason)


def test_an_unknown_record_is_not_withdrawn(runs):
    with pytest.raises(UserError, match="toy/bug/x"):
        withdraw(runs, "toy/bug/x", "a fault")


def test_a_damaged_record_gets_no_line_and_can_be_withdrawn(runs):
    known, new = record_of(runs, 2), runs / "toy" / "big" / "odd.json"
    whole = known.read_bytes()
    known.write_text("{")
    new.write_text("{{")
    output = check_records(runs)
    assert any(place(runs, known) in line for line in output)
    assert any(place(runs, new) in line for line in output)
    assert append_missing(runs) is None
    for path in (known, new):
        withdraw(runs, str(path), "cut off when the disk was full")
    assert check_records(runs) == []
    assert read_records(runs).damaged == []
    known.write_bytes(whole)
    assert check_records(runs) == [], "restored, and still withdrawn"


def test_two_processes_at_once_lose_nothing(house):
    """Each writes a record and appends what is missing, twenty times; every record has one line in the end."""
    runs = house.results / "runs"
    made = json.loads(make_record(house.recipe("big"), 1, 30.0).to_json())
    code = (
        "import json, sys\nfrom pathlib import Path\n"
        "from repro.evidence.ledger import append_missing\n"
        "runs, who, made = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])\n"
        "folder = runs / 'toy' / 'big'\nfolder.mkdir(parents=True, exist_ok=True)\n"
        "for i in range(20):\n"
        "    whole = folder / f'{who}{i}.new'\n"
        "    whole.write_text(json.dumps(made | {'seed': i}))\n"
        "    whole.rename(folder / f'{who}{i}.json')\n"
        "    append_missing(runs)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", code, str(runs), who, json.dumps(made)]) for who in "ab"]
    assert [one.wait(60) for one in both] == [0, 0]
    seeds, *paths = sorted((line.path for line in read_ledger(runs)), key=lambda path: path[0] == "t")
    assert seeds.startswith("seeds/")
    assert sorted(paths) == sorted(f"toy/big/{who}{i}.json" for who in "ab" for i in range(20))
    assert (runs / LEDGER).read_text().count(HEADER) == 1


def test_a_failed_append_leaves_the_ledger_whole(runs, house, monkeypatch):
    import errno
    import os

    from repro.errors import ReproError

    before = (runs / LEDGER).read_bytes()
    house.record("toy/big", 4, 31.0)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReproError, match="no space left"):
        append_missing(runs)
    assert (runs / LEDGER).read_bytes() == before


def test_a_moved_copy_is_a_record_without_a_line(runs):
    path = record_of(runs, 2)
    copy = path.with_name("copy.json")
    copy.write_bytes(path.read_bytes())
    assert place(runs, copy) in the_problem(runs)


def test_overridden_runs_leave_the_others_as_they_were(runs, house):
    from repro.evidence.selection import Selection

    records = read_records(runs).good
    other = dataclasses.replace(records[0], seed=2, config_hash="0" * 64, overrides=["--model.width=9"])
    seeds = frozenset(range(1, 6))
    before = Selection.from_records(records, records[0].config_hash, seeds, frozenset())
    after = Selection.from_records([*records, other], records[0].config_hash, seeds, frozenset())
    assert (before.used, before.notes) == (after.used, after.notes)
    assert after.state(other) == "overridden"


def test_a_test_with_a_date_is_declared_once(runs, house):
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01"))
    cannot = r"tests/toy/bigger-is-better/1 cannot be declared: "
    house.recipe("big", scale="small")
    with pytest.raises(UserError, match=cannot + "unknown experiment 'toy/base'"):
        append_missing(runs)
    house.recipe("base")
    with pytest.raises(UserError, match=cannot + ".* has no scale"):
        append_missing(runs)
    house.recipe("base", scale="small")
    assert not [line for line in read_ledger(runs) if line.path.startswith("tests/")]
    named = [f"tests/toy/bigger-is-better/1{part}" for part in ("", "/claim", "/column")]
    assert [problem.split()[0] for problem in check_records(runs)] == [f"runs/{name}" for name in named]
    append_missing(runs)
    append_missing(runs)
    assert [line.path for line in read_ledger(runs) if line.path.startswith("tests/")] == named
    assert check_records(runs) == []


def test_a_test_whose_sweep_names_no_key_of_its_runs_is_not_declared(runs, house):
    for name in ("big", "base"):
        house.recipe(name, scale="small")
    swept = "tuned: {key: model.widht, values: [1, 2, 3]}"
    house.test(
        TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01").replace("tuned: nothing", swept)
    )
    with pytest.raises(
        UserError,
        match=r"better/1 cannot be declared: its runs have no key 'model.widht' to tune; nearest: model.width",
    ):
        append_missing(runs)
    assert not [line for line in read_ledger(runs) if line.path.startswith("tests/")]


def test_a_test_of_another_folder_that_no_run_could_meet_keeps_nobody_from_working(
    runs, house, tmp_path, monkeypatch
):
    house.recipe("big")
    house.recipe("base")
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01"))
    own = tmp_path / "own" / "runs"
    own.mkdir(parents=True)
    monkeypatch.setattr(record_ledger, "records_dirs", lambda: (own,))
    assert append_missing(own) is None


def test_a_snapshot_declares_nothing(runs, house, monkeypatch):
    monkeypatch.setattr(record_ledger, "is_snapshot", lambda: True)
    for name in ("big", "base"):
        house.recipe(name)
        house.recipe(name, scale="small")
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01"))
    assert append_missing(runs) is None


def test_what_another_folder_has_declared_is_not_declared_again(runs, house, tmp_path, monkeypatch):
    for name in ("big", "base"):
        house.recipe(name)
        house.recipe(name, scale="small")
    house.test(TESTS.replace("attempt: 1", "attempt: 1\n    declared: 2026-01-01"))
    append_missing(runs)
    own = tmp_path / "own" / "runs"
    own.mkdir(parents=True)
    monkeypatch.setattr(record_ledger, "records_dirs", lambda: (own, runs))
    assert append_missing(own) is None
