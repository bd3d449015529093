"""The command answers quickly: verbs that need no torch do not import it. Run as a process of its own."""

import os
import re
import subprocess
import sys

import pytest

from tests.workshop import PAPER, PROJECT, TINY, Workshop, call

HEAVY = ("torch", "lightning", "wandb", "datasets", "pandas", "matplotlib", "sacrebleu")
CODE = """
import sys
from repro.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
print("loaded:", *[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def process(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """The command line in a fresh interpreter, which tells at its end what it has loaded."""
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    words = [sys.executable, "-c", before + CODE.format(heavy=HEAVY), *arguments]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",), ("--version",), ("run", "--help"), ("list",), ("config", TINY), ("completion", "bash"),
        ("data", "list"), ("reproduce", TINY, "--scale", "cpu", "--dry-run"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_heavy_import(workshop: Workshop, arguments: tuple[str, ...]) -> None:
    done = process(*arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "loaded:"


def test_a_heavy_import_would_be_seen(workshop: Workshop) -> None:
    done = process("--version", before="import sacrebleu")
    assert done.stderr.splitlines()[-1] == "loaded: sacrebleu"


def test_help_names_every_verb(workshop: Workshop) -> None:
    text = call("--help").out
    verbs = "list config params run reproduce show data tables dashboard sync translate generate recl doctor submit"
    verbs += " status logs cancel attention"
    for verb in (*verbs.split(), "completion", "fit", "validate", "test", "predict"):
        assert re.search(rf"^ +{verb}\b", text, re.MULTILINE), verb


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT], ids=["apart", "too"])
def test_a_reader_that_leaves_is_told_from_a_command_that_ended(workshop: Workshop, stderr: int) -> None:
    """It exits as a shell says of a command that SIGPIPE ended, after one line if anybody reads that."""
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "repro", "list"]
    done = subprocess.run(words, env=env, stdout=write, stderr=stderr, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert done.stderr in (None, "repro: stopped, since the reader of its output left\n")


def test_shell_completion_offers_papers_and_experiments(
    workshop: Workshop, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("completion") / "out"
    line = "repro config att"
    env = {
        **os.environ, "PYTHONPATH": str(PROJECT), "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_TYPE": "9",
        "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n", "_ARGCOMPLETE_STDOUT_FILENAME": str(out),
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "repro"], env=env, capture_output=True, check=False)
    offered = {word.strip() for word in out.read_text().splitlines()}
    assert {PAPER, TINY} <= offered
