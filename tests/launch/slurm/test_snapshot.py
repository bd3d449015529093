"""A snapshot holds the code and the recipes as they are, and nothing else."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.launch.slurm import snapshot
from repro.launch.slurm.snapshot import link_snapshot, read_sources, write_snapshot

FILES = {
    "repro/paths.py": "PROJECT = 1\n",
    "repro/nn/mixer.py": "x = 1\n",
    "configs/alpha/base.yaml": "title: base\n",
    "slurm/job.sbatch.j2": "#!/bin/bash\n",
    "pyproject.toml": "[project]\n",
    "requirements.lock": "torch==2.11\n",
    "README.md": "not code\n",
    "data/pairs/train.bin": "not code either\n",
}
CODE = [name for name in FILES if name not in ("README.md", "data/pairs/train.bin")]


def git(*arguments: str) -> str:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without git, entered."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setattr(snapshot, "PROJECT", root)
    monkeypatch.setenv("REPRO_CONFIGS", str(root / "configs"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for name, text in FILES.items():
        write(name, text)
    return root


@pytest.fixture
def checkout(folder: Path) -> str:
    """Makes a checkout with one commit; returns it."""
    write(".gitignore", "/data/\n*.log\n__pycache__/\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "x")
    return git("rev-parse", "HEAD")


def names() -> list[str]:
    return sorted(read_sources()[0])


def test_a_clean_checkout(checkout: str) -> None:
    files, facts = read_sources()
    assert sorted(files) == sorted([*CODE, "snapshot.json"])
    assert facts == {"commit": checkout, "dirty": False}
    assert json.loads(files["snapshot.json"]) == facts


def test_what_is_edited_and_what_is_new(checkout: str) -> None:
    """Tracked files as they are, and files that git neither tracks nor ignores."""
    write("repro/nn/mixer.py", "x = 2\n")
    write("repro/new.py", "y = 1\n")
    write("repro/out.log", "ignored\n")
    write("repro/.env", "PLAIN=1\n")
    write("notes.txt", "elsewhere\n")
    Path("requirements.lock").unlink()
    files, facts = read_sources()
    expected = {*CODE, "repro/new.py", "snapshot.json"} - {"requirements.lock"}
    assert set(files) == expected
    assert files["repro/nn/mixer.py"] == b"x = 2\n"
    assert facts == {"commit": checkout, "dirty": True}


def test_without_git_the_package_and_the_recipes(folder: Path) -> None:
    write("repro/__pycache__/paths.cpython-311.pyc", "x")
    write("repro/.env", "x")
    write("repro/.cache/x.py", "x")
    files, facts = read_sources()
    assert sorted(files) == sorted([*CODE, "snapshot.json"])
    assert facts == {"commit": None, "dirty": None}


def test_a_project_that_lies_ignored_in_another_checkout(
    checkout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a package installed into a folder of the checkout does; that commit says nothing about it."""
    inner = Path("data/site").absolute()
    for name, text in FILES.items():
        write(f"data/site/{name}", text)
    monkeypatch.setattr(snapshot, "PROJECT", inner)
    monkeypatch.setenv("REPRO_CONFIGS", str(inner / "configs"))
    files, facts = read_sources()
    assert sorted(files) == sorted([*CODE, "snapshot.json"])
    assert facts == {"commit": None, "dirty": None}


def test_a_snapshot_of_a_snapshot_says_the_same(
    checkout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("repro/nn/mixer.py", "x = 2\n")
    first, facts = read_sources()
    write_snapshot(tmp_path / "copy", first)
    monkeypatch.setattr(snapshot, "PROJECT", tmp_path / "copy")
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "copy" / "configs"))
    second, again = read_sources()
    assert facts == again == {"commit": checkout, "dirty": True}
    assert first == second


def test_recipes_from_elsewhere(checkout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only recipes are taken from there, whatever else the folder holds; the commit does not cover them."""
    for name in (
        "mine/new.yaml",
        "mine/newer.yaml",
        "mine/.netrc",
        "mine/deep/x.yaml",
        "id_rsa",
        "top.yaml",
    ):
        write(str(tmp_path / "own" / name), name)
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "own"))
    files, facts = read_sources()
    assert [n for n in sorted(files) if n.startswith("configs/")] == [
        "configs/mine/new.yaml",
        "configs/mine/newer.yaml",
    ]
    assert facts == {"commit": checkout, "dirty": True}


def test_recipes_of_a_clean_project(checkout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The project's own commit covers them."""
    own = tmp_path / "own"
    write(str(own / "configs" / "mine" / "new.yaml"), "title: new")
    write(str(own / "repro.yaml"), "")
    monkeypatch.delenv("REPRO_CONFIGS")
    monkeypatch.chdir(own)
    assert read_sources()[1] == {"commit": checkout, "dirty": None}
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "x")):
        git(*words)
    assert read_sources()[1] == {"commit": checkout, "dirty": False}
    write("configs/mine/new.yaml", "title: newer")
    assert read_sources()[1] == {"commit": checkout, "dirty": True}


def test_it_is_written_as_read(checkout: str, tmp_path: Path) -> None:
    files, _ = read_sources()
    write("repro/nn/mixer.py", "edited = True\n")
    write_snapshot(tmp_path / "code", files)
    there = {
        p.relative_to(tmp_path / "code").as_posix(): p for p in (tmp_path / "code").rglob("*") if p.is_file()
    }
    assert {name: path.read_bytes() for name, path in there.items()} == files
    assert there["repro/nn/mixer.py"].read_text() == "x = 1\n"


def test_equal_files_share_a_snapshot_and_missing_ones_are_written_again(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "other")]
    for folder, files in zip(folders, [{"a/b.py": b"1"}, {"a/b.py": b"1"}, {"a/c.py": b"1"}], strict=True):
        folder.mkdir()
        link_snapshot(folder, files)
        for path in (folder / "code").rglob("*.py"):
            path.unlink()  # as by a cluster that clears its scratch folders
    (folders[1] / "code").unlink()
    link_snapshot(folders[1], {"a/b.py": b"1"})
    first, second, other = ((folder / "code").resolve() for folder in folders)
    assert first == second != other
    assert (first / "a" / "b.py").read_bytes() == b"1"
    assert not (folders[0] / "code").readlink().is_absolute()
    assert len(list((tmp_path / "snapshots").iterdir())) == 2


def test_a_link_out_of_the_project_is_refused(checkout: str, tmp_path: Path) -> None:
    outside = write(str(tmp_path / "outside.py"), "secret = 1\n")
    Path("repro/link.py").symlink_to(outside)
    with pytest.raises(UserError, match=r"link\.py"):
        read_sources()
    Path("repro/link.py").unlink()
    Path("repro/link.py").symlink_to(Path("repro/paths.py").absolute())
    assert read_sources()[0]["repro/link.py"] == b"PROJECT = 1\n"


def test_what_is_no_code_is_refused(checkout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LARGEST_FILE", 20)
    write("repro/weights.py", "x" * 21)
    with pytest.raises(UserError, match=r"weights\.py"):
        read_sources()


@pytest.mark.parametrize("variable", ["WANDB_API_KEY", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "MY_PASSWORD"])
def test_a_secret_in_a_source_is_refused(
    checkout: str, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "sesame-open-0123")
    write("configs/alpha/own.yaml", "title: x # sesame-open-0123\n")
    with pytest.raises(UserError, match=rf"configs/alpha/own\.yaml.*\${variable}") as caught:
        read_sources()
    assert "sesame" not in str(caught.value)


def test_an_unreadable_file_is_named(checkout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(UserError, match=r"cannot read .*Permission denied"):
        read_sources()


def test_git_variables_of_a_hook_do_not_mislead(checkout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", os.devnull)
    assert read_sources()[1] == {"commit": checkout, "dirty": False}
