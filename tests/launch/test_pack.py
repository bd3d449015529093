"""A copy of the project works without variables, git or a network, and its records come back once."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.errors import ReproError, UserError
from repro.launch.pack import bring_back, pack
from repro.ledger import HEADER, read_ledger, start
from repro.record import LEDGER


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The results of a project with one data store."""
    store = tmp_path / "data" / "digits" / "v1"
    store.mkdir(parents=True)
    (store / "manifest.json").write_text("{}")
    runs = tmp_path / "results" / "runs"
    runs.mkdir(parents=True)
    (runs / LEDGER).write_text(f"{HEADER}\n")
    (runs / "old.json").write_text("{}")
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REPRO_RESULTS", str(runs.parent))
    monkeypatch.delenv("REPRO_TRIALS", raising=False)
    return runs.parent


def test_a_copy_runs_and_its_records_come_back(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    known = Path("results", "runs", "alpha", "base", "cpu-s9.json")
    (tmp_path / known).parent.mkdir(parents=True)
    (tmp_path / known).write_text("{}")
    pack(copy, ["digits"])
    assert (copy / "data" / "digits" / "v1" / "manifest.json").is_file()
    assert (copy / known).is_file(), "a run that has its record is not made again in the copy"
    assert not (copy / "results" / "runs" / "old.json").exists()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("REPRO_", "PYTHONPATH"))}
    where = (
        "from repro.paths import data_dir, results_dir; print(data_dir().resolve(), results_dir().resolve())"
    )
    done = subprocess.run([sys.executable, "-c", where], cwd=copy, env=env, capture_output=True, text=True)
    assert done.stdout.split() == [str(copy / "data"), str(copy / "results")], done.stderr

    start(copy / "results" / "runs", "alpha/base/cpu/s1-01234567", "0" * 64, "1" * 40, None, anew=True)
    for folder in (copy / "results" / "runs" / "alpha", copy / "results" / "own" / "runs" / "alpha"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{folder.parts[-3]}.json").write_text("{}")
    assert bring_back(copy) == 2
    assert bring_back(copy) == 0
    assert [line.event for line in read_ledger(results / "runs")] == ["started"]
    assert {p.name for p in (results / "runs" / "alpha").glob("*.json")} == {"results.json", "own.json"}


def test_what_cannot_be_packed_or_brought_back(results: Path, tmp_path: Path) -> None:
    for taken in (results, results / "runs" / "old.json"):
        with pytest.raises(UserError, match="is not an empty folder"):
            pack(taken, [])
    with pytest.raises(UserError, match="repro data prepare letters"):
        pack(tmp_path / "copy", ["letters"])
    with pytest.raises(UserError, match="name the data set, letters"):
        pack(tmp_path / "copy", ["letters/bytes"])
    with pytest.raises(UserError, match="was not made by"):
        bring_back(results)


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Only the first byte of a file that is copied fits onto the disk."""

    def cut(source: str | Path, target: str | Path, **_: object) -> None:
        Path(target).write_bytes(Path(source).read_bytes()[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "copy2", cut)
        patch.setattr(os, "fsync", lambda _: cut(os.devnull, os.devnull))  # of files that are written
        with pytest.raises(ReproError, match="no space left"):
            yield


def test_a_copy_that_found_no_space_leaves_an_empty_folder(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with full_disk():
        pack(copy, ["digits"])
    shutil.rmtree(results)
    with full_disk():  # now the first that is copied is a data set
        pack(copy, ["digits"])
    pack(copy, ["digits"])
    assert (copy / "data" / "digits" / "v1" / "manifest.json").read_text() == "{}"


def test_a_record_that_found_no_space_comes_back_later(results: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    pack(copy, [])
    record = Path("runs", "alpha", "base", "cpu-s1.json")
    (copy / "results" / record).parent.mkdir(parents=True)
    (copy / "results" / record).write_text("{}")
    with full_disk():
        bring_back(copy)
    assert bring_back(copy) == 1
    assert (results / record).read_text() == "{}"
