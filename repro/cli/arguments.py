"""Shared arguments of the verbs, and their completion by the shell."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from repro.recipe import SCALES, experiments

# What `add_subparsers` returns. As text: before Python 3.14 argparse's class takes no brackets at run time.
Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options: TypeAlias = argparse.ArgumentParser | argparse._MutuallyExclusiveGroup
Words: TypeAlias = Callable[[], Iterable[str]] | None
Handler: TypeAlias = Callable[[argparse.Namespace], int | None]
SEEDS = "3: the first three judged seeds of each recipe; 11-15, 1-3,7 or 101-101: these seeds"
ACCEPT = "resume with other code, packages or another device; the record is then mixed, and not judged"


def add_verb(verbs: Verbs, name: str, handler: Handler) -> argparse.ArgumentParser:
    """Adds a verb; its help is the first line of the handler's docstring."""
    words = (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
    parser = verbs.add_parser(name, help=words[:1].lower() + words[1:])
    parser.set_defaults(handler=handler, parser=parser)
    return parser


def add(
    parser: Options, name: str, meaning: str | None = None, *others: str, words: Words = None, **settings: Any
) -> None:
    """Adds an argument to a parser.

    Args:
        parser: of a verb, or a group of it.
        name: of the argument.
        meaning: its help.
        others: further names.
        words: those with which the shell completes it.
        settings: see :meth:`argparse.ArgumentParser.add_argument`.
    """
    argument = parser.add_argument(name, *others, help=meaning, **settings)
    if words is not None:
        argument.completer = lambda **_: [*words()]  # type: ignore[attr-defined]  # argcomplete reads it


def add_flag(parser: Options, name: str, meaning: str | None = None, *others: str) -> None:
    """Adds an option without a value; see :func:`add`."""
    parser.add_argument(name, *others, action="store_true", help=meaning)


def add_scale(parser: argparse.ArgumentParser) -> None:
    add(parser, "--scale", "default: paper", choices=SCALES, default="paper")


def add_targets(parser: argparse.ArgumentParser, nargs: str = "*", more: str = "") -> None:
    """Adds the experiments of a verb and their scale."""
    meaning = f"paper, table, row or experiment{more}"
    add(parser, "targets", meaning, nargs=nargs, metavar="TARGET", words=experiments_and_papers)
    add_scale(parser)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name an experiment, a scale and overrides."""
    meaning = "<paper>/<recipe>; see `repro list`"
    add(parser, "experiment", meaning, metavar="EXPERIMENT", words=experiments_and_papers)
    add_scale(parser)
    parser.set_defaults(overrides=[])
    parser.epilog = (
        "any key of the recipe can be set: --trainer.max_steps 10, --model.net.dropout 0.2; keys that state one "
        "quantity (updates of a schedule, widths, sizes of the vocabulary) follow"
    )


def add_grid(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names values of settings; see :func:`repro.cli.runs.parse_grid`."""
    meaning = "a run for each value; again for all pairs"
    add(parser, "--grid", meaning, action="append", default=[], metavar="KEY=A,B")


def experiments_and_papers() -> list[str]:
    names = experiments()
    return [*names, *sorted({name.split("/")[0] for name in names})]


def runs_and_jobs() -> list[str]:
    """The known runs and jobs, and the experiments and papers that have runs."""
    from repro.launch.status.run_index import everything, names

    known = names(everything())
    return sorted({*known, *(name.partition("/")[0] for name in known)})
