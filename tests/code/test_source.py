"""The commit, and whether sources differ from it, are those of the code that runs."""

import json
import subprocess
from dataclasses import astuple
from pathlib import Path

import pytest

from repro.code import source as module
from repro.code.source import SNAPSHOT_FACTS, code_hash, release, source


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "repro").mkdir()
    (tmp_path / "repro" / "a.py").write_text("1")
    (tmp_path / "README.md").write_text("1")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_a_clean_checkout(checkout: Path) -> None:
    head, dirty, _ = astuple(source(checkout))
    assert head is not None
    assert len(head) == 40
    assert dirty is False


@pytest.mark.parametrize(
    ("file", "dirty"),
    [("repro/a.py", True), ("repro/new.py", True), ("README.md", False), ("results.json", False)],
)
def test_only_sources_make_it_dirty(checkout: Path, file: str, dirty: bool) -> None:
    (checkout / file).write_text("2")
    assert source(checkout).dirty is dirty


def test_outside_a_checkout(tmp_path: Path) -> None:
    result = source(tmp_path)
    assert (result.commit, result.dirty) == (None, None)


def test_inside_another_checkout_that_does_not_hold_it(checkout: Path) -> None:
    (checkout / ".gitignore").write_text("inner/\n")
    (checkout / "inner" / "repro").mkdir(parents=True)
    (checkout / "inner" / "repro" / "a.py").write_text("1")
    assert source(checkout / "inner").commit is None


def test_a_hook_does_not_mislead(checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert source(checkout).commit is not None


def test_a_snapshot_says_what_it_was_taken_from(tmp_path: Path) -> None:
    (tmp_path / SNAPSHOT_FACTS).write_text(json.dumps({"commit": "c" * 40, "dirty": True}))
    assert astuple(source(tmp_path))[:2] == ("c" * 40, True)


def test_the_hash_is_over_names_and_contents(checkout: Path) -> None:
    first = code_hash(checkout)
    assert code_hash(checkout) == first
    (checkout / "repro" / "a.py").rename(checkout / "repro" / "b.py")
    second = code_hash(checkout)
    (checkout / "repro" / "b.py").write_text("2")
    third = code_hash(checkout)
    (checkout / "repro" / "facts.yaml").write_text("a: 1")
    assert len({first, second, third, code_hash(checkout)}) == 4


@pytest.mark.parametrize(
    ("url", "wheel"),
    [
        ({"archive_info": {"hashes": {"sha256": "ab"}}}, {"repro wheel": "sha256:ab"}),
        ({"archive_info": {}}, {}),
        (None, {}),
    ],
)
def test_an_installed_wheel_has_a_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: dict[str, object] | None, wheel: dict[str, str]
) -> None:
    """The installer notes the hash where the wheel was named by its file or address."""
    info = tmp_path / "repro-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: repro\nVersion: 1.2\n")
    if url is not None:
        (info / "direct_url.json").write_text(json.dumps(url))
    assert release(tmp_path) == {}
    monkeypatch.setattr(module, "INSTALLED", True)
    assert release(tmp_path) == {"repro": "1.2", **wheel}


def test_a_snapshot_of_a_wheel_says_its_release(tmp_path: Path) -> None:
    output = {"repro": "1.2", "repro wheel": "sha256:ab"}
    (tmp_path / SNAPSHOT_FACTS).write_text(json.dumps({"commit": None, "dirty": None, "release": output}))
    assert release(tmp_path) == output


@pytest.fixture
def own(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: a clean project of a user's own, with git, beside the checkout."""
    for name in ("CONFIGS", "RESULTS"):
        monkeypatch.delenv(f"REPRO_{name}", raising=False)
    own = checkout / "my [1] project"
    for name in ("configs/mine/a.yaml", "results/published/mine.yaml", "mymix45/__init__.py", "notes.py"):
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text("")
    (own / "repro.yaml").write_text("plugins: [mymix45]\n")
    (own / ".gitignore").write_text("*.pyc\nlater.*\n")
    git(own, "init", "-q")
    git(own, "add", "-A")
    git(own, "commit", "-qm", "first")
    monkeypatch.chdir(own)
    return own


@pytest.mark.parametrize(
    ("file", "dirty"),
    [
        ("mymix45/__init__.py", True),
        ("mymix45/new.py", True),
        ("mymix45/later.py", True),
        ("mymix45/a.pyc", False),
        ("configs/mine/a.yaml", True),
        ("configs/mine/later.yaml", True),
        ("results/published/mine.yaml", True),
        ("results/tests/mine.yaml", True),
        ("results/runs/record.json", False),
        ("notes.py", False),
    ],
)
def test_sources_of_a_project_make_it_dirty_too(own: Path, file: str, dirty: bool) -> None:
    assert source(own.parent).dirty is False
    (own / file).parent.mkdir(parents=True, exist_ok=True)
    (own / file).write_text("# 2\n")
    assert source(own.parent).dirty is dirty


def test_a_project_outside_git_is_not_known_to_be_clean(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("own"))
    Path("repro.yaml").write_text("")
    assert source(checkout).dirty is None


def test_plugins_of_a_checkout_make_it_dirty(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "mymix45.py").write_text("")
    (checkout / "repro.yaml").write_text("plugins: [mymix45]\n")
    monkeypatch.chdir(checkout)
    monkeypatch.setattr(module, "PROJECT", checkout)
    assert source(checkout).dirty is True
    git(checkout, "add", "-A")
    git(checkout, "commit", "-qm", "second")
    assert source(checkout).dirty is False
