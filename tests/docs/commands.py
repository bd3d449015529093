"""The commands in README, CONTRIBUTING and docs/: found, taken apart, and checked without being run.

A block that begins with three backticks and ``sh`` is run by ``pytest -m docs``; one with ``sh parse`` is only checked.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from repro.cli import native
from repro.cli.main import build_parser
from repro.cli.runs import joined, parse_overrides
from repro.data.registry import find_data_set
from repro.launch.slurm.profile import load_profile
from repro.launch.targets import resolve_targets
from repro.recipe import load_recipe
from repro.seeds import SeedChoice
from tests.workshop import PROJECT

DOCUMENTS = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]
_FENCE = re.compile(
    r"^```(?P<language>\w+)?(?: +(?P<rest>[^\n]*))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_INLINE = re.compile(r"`repro ([a-z]+)")
_INVENTED = ("letters", "RunningMean", "mine/parity")  # by docs/extending.md


@dataclass(frozen=True)
class Block:
    """A fenced block of a document.

    Attributes:
        language: ``sh``, ``text``, ``python``, ... or empty.
        rest: what stands behind it, ``parse``.
        lines: without empty ones.
    """

    language: str
    rest: str
    lines: tuple[str, ...]

    @property
    def is_run(self) -> bool:
        return self.language == "sh" and not self.rest


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a document, in order."""
    return [
        Block(m["language"] or "", m["rest"] or "", tuple(line for line in m["text"].splitlines() if line))
        for m in _FENCE.finditer(text)
    ]


def commands(path: Path) -> list[str]:
    """Every line of the ``sh`` blocks of a document."""
    result = blocks(path.read_text(encoding="utf-8"))
    return [line for block in result if block.language == "sh" for line in block.lines]


def inline_verbs(path: Path) -> set[str]:
    """The verbs of ``repro`` that the text of a document names."""
    return set(_INLINE.findall(_FENCE.sub("", path.read_text(encoding="utf-8"))))


def programs(line: str) -> Iterator[list[str]]:
    """The words of each program that a line calls, joined by ``|`` or ``&&``."""
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set("|&;"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def check(line: str) -> None:
    """Checks a line without running it.

    Raises:
        UserError: an argument, experiment, key, data set or target that does not exist.
        AssertionError: an unknown program, or a file that is not there.
    """
    for program, *words in programs(line):
        if program == "repro":
            _check_repro(words)
        elif program == "pip":
            assert words[0] == "install"
            _check_files(word for before, word in pairwise(words) if before == "-r")
        elif program == "pytest":
            _check_files(word.partition("::")[0] for word in words if word.startswith("tests/"))
        elif program == "python":
            assert words[0] == "-m", line
            module = PROJECT / words[1].replace(".", "/")
            assert module.with_suffix(".py").exists() or (module / "__main__.py").exists(), words[1]
        else:
            assert program == "echo", f"unknown program {program!r} in {line!r}"


def _check_files(names: Iterator[str]) -> None:
    for name in names:
        assert (PROJECT / name).exists(), name


def _check_repro(words: list[str]) -> None:
    if words[0] in native.VERBS:
        _check_files(word for before, word in pairwise(words) if before == "--config")
        return
    args, rest = build_parser().parse_known_args(joined(words))
    overrides = parse_overrides(rest)
    assert not overrides or hasattr(args, "overrides"), f"{args.verb} takes no {rest[0]}"
    if any(name in word for name in _INVENTED for word in words):
        return
    for experiment in _experiments(args.verb, vars(args)):
        load_recipe(experiment, args.scale or "paper", overrides)
    if args.verb in ("submit", "reproduce"):
        assert resolve_targets(args.targets, args.scale, SeedChoice.parse(args.seeds))
    if args.verb == "submit":
        load_profile(args.cluster)
    if args.verb == "data" and args.action != "list":
        find_data_set(args.name)


def _experiments(verb: str, args: dict[str, object]) -> list[str]:
    if verb in ("config", "params", "run"):
        return [str(args["experiment"])]
    if verb in ("translate", "generate", "attention"):
        return [str(args["run"])]
    runs = args["runs"] if verb == "recl" else []
    assert isinstance(runs, list)
    return runs
