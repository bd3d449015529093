"""Facts for the record say what they should and nothing about the machine's owner."""

import getpass
import json
import socket
import subprocess
from pathlib import Path

import pytest

from repro.experiment import facts


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "repro").mkdir()
    (tmp_path / "repro" / "a.py").write_text("1")
    (tmp_path / "README.md").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    monkeypatch.setattr(facts, "PROJECT", tmp_path)
    return tmp_path


def test_a_clean_checkout(checkout: Path) -> None:
    found = facts.source()
    head, dirty = found.commit, found.dirty
    assert head is not None
    assert len(head) == 40
    assert dirty is False


@pytest.mark.parametrize(
    ("file", "dirty"),
    [("repro/a.py", True), ("repro/new.py", True), ("README.md", False), ("results.json", False)],
)
def test_only_sources_make_it_dirty(checkout: Path, file: str, dirty: bool) -> None:
    (checkout / file).write_text("2")
    assert facts.source().dirty is dirty


def test_outside_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "PROJECT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = facts.source()
    assert (found.commit, found.dirty) == (None, None)


def test_no_host_and_no_user() -> None:
    text = json.dumps([facts.versions(), facts.hardware(1, 1)])
    assert socket.gethostname() not in text
    assert getpass.getuser() not in text.split('"')
    assert facts.versions()["torch"]


def test_peak_is_in_bytes() -> None:
    assert 50e6 < facts.peak_bytes() < 1e12
