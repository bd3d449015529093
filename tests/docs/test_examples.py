"""Runs the commands of README and docs/, each document in a folder of its own. Only with ``-m docs``.

Commands of the README run as printed, and must print the lines of the ``text`` block below them, decimals aside.
In docs/, training ends after a few updates. Nothing is installed.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.commands import DOCUMENTS, blocks, commands
from tests.workshop import PROJECT

README = DOCUMENTS[0]
UPDATES = 120  # more than any warm-up of the scale `cpu`
PREAMBLE = f'set -eo pipefail; pip() {{ :; }}; repro() {{ "{sys.executable}" -m repro "$@"; }}\n'
RUNNABLE = [path for path in DOCUMENTS if any(b.is_run for b in blocks(path.read_text(encoding="utf-8")))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Like a checkout: recipes, and a copy of the results."""
    shutil.copytree(PROJECT / "results", tmp_path / "results")
    for name in ("REPRO_CONFIGS", "REPRO_RUNS", "REPRO_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    monkeypatch.setenv("WANDB_MODE", "offline")
    return tmp_path


def said(line: str, folder: Path) -> str:
    """Runs a command; returns its stdout."""
    done = subprocess.run(
        ["bash", "-c", PREAMBLE + line],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def shortened(line: str) -> str:
    """The command with a few updates, where it trains."""
    if not line.startswith("repro run "):
        return line
    return f"{re.sub(r' --trainer.max_steps [0-9]+', '', line)} --trainer.max_steps {UPDATES}"


def comparable(text: str) -> list[str]:
    """Lines with single blanks and without decimals."""
    return [re.sub(r"\d+\.\d+", "#", " ".join(line.split())) for line in text.splitlines()]


@pytest.mark.docs
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", RUNNABLE, ids=lambda path: path.name)
def test_the_commands_of_a_document_work(path: Path, folder: Path) -> None:
    output = ""
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.is_run:
            lines = block.lines if path == README else tuple(map(shortened, block.lines))
            output = "".join(said(line, folder) for line in lines)
        elif block.language == "text" and path == README:
            missing = set(comparable("\n".join(block.lines))) - set(comparable(output))
            assert missing == set(), output


@pytest.mark.docs
def test_the_plugins_of_extending_run_as_printed(folder: Path) -> None:
    """A block that begins with the name of a file is its content."""
    path = PROJECT / "docs" / "extending.md"
    for name, content in re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", path.read_text(), re.M | re.S):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    (folder / "repro.yaml").write_text("plugins: [mymix, parity]\n")
    check, run = (line for line in commands(path) if "naive" in line or "mine/parity" in line)
    assert "all laws hold (float64)" in said(check, folder)
    assert "test/error" in said(run, folder)


def test_training_is_shortened() -> None:
    line = "repro run x/y --trainer.max_steps 300 --seed 2"
    assert shortened(line) == f"repro run x/y --seed 2 --trainer.max_steps {UPDATES}"
    assert shortened("repro list") == "repro list"


def test_only_decimals_may_differ() -> None:
    assert comparable("a  12.50  b") == comparable("a 7.25 b")
    assert comparable("am dritten Mai") != comparable("am vierten Mai")
