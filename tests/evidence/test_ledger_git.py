"""The ledger in a git checkout: no line of an earlier commit may be missing."""

import hashlib
import subprocess

import pytest

from repro.evidence.ledger import append_missing, check_records
from repro.evidence.verified import VERIFIED, Verified
from repro.evidence.verified import keep as keep_outcome
from repro.record import LEDGER
from tests.report.ledgers import keep, lines_with, place, record_of, the_problem


def git(folder, *words):
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


@pytest.fixture
def runs(house):
    return keep(house)


@pytest.fixture
def committed(runs):
    """Records and ledger, committed."""
    git(runs.parent, "init", "-b", "main")
    git(runs.parent, "add", ".")
    git(runs.parent, "commit", "-m", "records")
    return runs


def test_an_edited_record_whose_line_was_hashed_again_is_noticed(committed):
    path = record_of(committed, 2)
    (line,) = lines_with(committed, path)
    path.write_bytes(path.read_bytes().replace(b"30.0", b"31.0", 1))
    rehashed = line.replace(line.split("\t")[3], hashlib.sha256(path.read_bytes()).hexdigest())
    ledger = committed / LEDGER
    ledger.write_text(ledger.read_text().replace(line, rehashed))
    assert place(committed, path) in the_problem(committed)


@pytest.mark.parametrize("commit", [False, True])
def test_a_record_removed_with_its_line_is_noticed(committed, commit):
    path, ledger = record_of(committed, 2), committed / LEDGER
    (line,) = lines_with(committed, path)
    ledger.write_text(ledger.read_text().replace(f"{line}\n", ""))
    path.unlink()
    if commit:
        git(committed.parent, "commit", "-am", "tidy up")
    assert place(committed, path) in the_problem(committed)


def test_a_line_that_a_merge_dropped_is_noticed(committed, house):
    git(committed.parent, "checkout", "-b", "other")
    house.record("toy/big", 4, 31.0)
    path = record_of(committed, 4)
    append_missing(committed)
    git(committed.parent, "add", ".")
    git(committed.parent, "commit", "-m", "one more")
    git(committed.parent, "checkout", "main")
    git(committed.parent, "merge", "--no-ff", "-s", "ours", "-m", "merged", "other")
    assert not path.exists()
    assert place(committed, path) in the_problem(committed)


def test_lines_beyond_the_last_commit_are_fine(committed, house):
    house.record("toy/big", 4, 31.0)
    append_missing(committed)
    assert check_records(committed) == []
    git(committed.parent, "add", ".")
    git(committed.parent, "commit", "-m", "one more")
    assert check_records(committed) == []


@pytest.mark.parametrize("how", ["no git", "no commit", "shallow"])
def test_git_is_not_needed(runs, tmp_path, monkeypatch, how):
    if how == "no git":
        monkeypatch.setenv("PATH", str(tmp_path / "none"))
    elif how == "no commit":
        git(runs.parent, "init")
    else:
        git(runs.parent, "init")
        git(runs.parent, "add", ".")
        git(runs.parent, "commit", "-m", "records")
        git(tmp_path, "clone", "--depth", "1", f"file://{runs.parent}", "copy")
        runs = tmp_path / "copy" / "runs"
    assert check_records(runs) == []


def test_an_outcome_of_a_verification_that_is_gone_is_noticed(committed):
    path = committed / VERIFIED
    for outcome in ("differs", "bit-equal"):
        keep_outcome(committed.parent, Verified("2026-01-01", "toy/big/1.json", "0" * 64, outcome, True, ""))
    git(committed.parent, "add", ".")
    git(committed.parent, "commit", "-m", "verified")
    assert check_records(committed) == []
    path.write_text("".join(line for line in path.open() if "differs" not in line))
    (problem,) = check_records(committed)
    assert (
        problem
        == f"runs/{VERIFIED} lacks a line of an earlier commit, 2026-01-01 toy/big/1.json {'0' * 64}; restore it"
    )
