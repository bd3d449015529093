"""Shared arguments of the verbs, and their completion by the shell."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from repro.recipe import SCALES, experiments

# What `add_subparsers` returns. As text: before Python 3.14 argparse's class takes no brackets at run time.
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
SEEDS = "3: the first three judged seeds of each recipe; 11-15, 1-3,7 or 101-101: these seeds"
ACCEPT = "resume with other code, packages or another device; the record is then mixed, and not judged"


def add(
    parser: argparse.ArgumentParser,
    *names: str,
    words: Callable[[], Iterable[str]] | None = None,
    **settings: Any,
) -> None:
    """Adds an argument to a parser; the shell completes it with ``words``."""
    argument = parser.add_argument(*names, **settings)
    if words is not None:
        argument.completer = lambda **_: [*words()]  # type: ignore[attr-defined]  # argcomplete reads it


def add_scale(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", choices=SCALES, default="paper", help="default: paper")


def add_targets(parser: argparse.ArgumentParser, nargs: str = "*", more: str = "") -> None:
    """Adds the experiments of a verb and their scale."""
    meaning = f"paper, table, row or experiment{more}"
    add(parser, "targets", nargs=nargs, metavar="TARGET", help=meaning, words=experiments_and_papers)
    add_scale(parser)


def add_grid(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names values of settings; see :func:`repro.cli.runs.parse_grid`."""
    meaning = "a run for each value; again for all pairs"
    parser.add_argument("--grid", action="append", default=[], metavar="KEY=A,B", help=meaning)


def experiments_and_papers() -> list[str]:
    names = experiments()
    return [*names, *sorted({name.split("/")[0] for name in names})]


def runs_and_jobs() -> list[str]:
    """The known runs and jobs, and the experiments and papers that have runs."""
    from repro.launch.status.run_index import names

    return names()
