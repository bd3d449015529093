"""Every command in README, CONTRIBUTING and docs/ parses and names things that exist. Nothing is run."""

from pathlib import Path

import pytest

from repro.cli.main import build_parser
from repro.errors import UserError
from tests.docs.commands import DOCUMENTS, blocks, check, commands, inline_verbs, programs

LINES = sorted({line for path in DOCUMENTS for line in commands(path)})
README_LINES = 135


@pytest.mark.parametrize("line", LINES)
def test_a_command_parses(line: str) -> None:
    check(line)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_verbs_in_the_text_exist(path: Path) -> None:
    usage = build_parser().format_help()
    assert {verb for verb in inline_verbs(path) if f"    {verb}" not in usage} == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_shell_blocks_are_marked_as_known(path: Path) -> None:
    result = blocks(path.read_text(encoding="utf-8"))
    assert {block.rest for block in result} <= {"", "parse"}
    assert all(block.language in ("sh", "text", "python", "yaml", "") for block in result)


def test_the_readme_is_short() -> None:
    assert len(DOCUMENTS[0].read_text(encoding="utf-8").splitlines()) <= README_LINES


@pytest.mark.parametrize(
    "line",
    [
        "repro runs attention-is-all-you-need/base",
        "repro run attention-is-all-you-need/bass",
        "repro run attention-is-all-you-need/base --scale tiny",
        "repro run attention-is-all-you-need/base --scale cpu --seeed 1",
        "repro show attention-is-all-you-need/base --trainer.max_steps 1",
        "repro data prepare multi31k",
        "repro submit transformer-xl --cluster none",
        "echo x | repro translate attention-is-all-you-need/bass",
        "pip install -r requirements.txt",
        "pytest tests/test_nothing.py",
        "repo list",
    ],
)
def test_a_wrong_command_is_seen(line: str) -> None:
    with pytest.raises((UserError, AssertionError)):
        check(line)


def test_a_line_is_taken_apart() -> None:
    line = 'echo "a b" | repro list && pip install -e ".[test]"  # a comment'
    assert list(programs(line)) == [["echo", "a b"], ["repro", "list"], ["pip", "install", "-e", ".[test]"]]


def test_blocks_are_found() -> None:
    text = "a\n```sh\nrepro list\n\nrepro doctor\n```\n```sh parse\nrepro sync\n```\n```text\nx\n```\n"
    result = blocks(text)
    assert [block.lines for block in result] == [("repro list", "repro doctor"), ("repro sync",), ("x",)]
    assert [block.is_run for block in result] == [True, False, False]
