# PYTHON_ARGCOMPLETE_OK
"""Parses the command line, calls the verb, and turns errors into one line and an exit code."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from repro import __version__
from repro.cli import (
    cluster,
    context,
    dashboard,
    data,
    infer,
    jobs,
    native,
    pictures,
    results,
    runs,
    sync,
    verify,
)
from repro.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    ReproError,
    UserError,
    nearest,
)

Handler = Callable[[argparse.Namespace], int | None]
FEW = 6  # choices that are listed whole in an error


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with the nearest spelling, without the usage."""

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message and "(choose from" in message:
            head, _, listed = message.partition(" (choose from ")
            said = head.split("invalid choice: ", 1)[1].strip("'")
            choices = [c.strip(" ')") for c in listed.split(",")]
            there = f"; choose from: {', '.join(choices)}" if len(choices) <= FEW else nearest(said, choices)
            message = f"{head}{there}; see `{self.prog} --help`"
        raise UserError(message)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="repro", description="Do the published results of eight Transformer papers hold, today?"
    )
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for family in (
        results,
        dashboard,
        sync,
        runs,
        verify,
        data,
        infer,
        pictures,
        context,
        cluster,
        jobs,
        native,
    ):
        family.register(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point; exits with 0 done, 1 failed, 2 bad input, 75 requeue me."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        code = _dispatch([a for a in given if a != "--debug"])
    except ReproError as error:
        if debug:
            raise
        if str(error):
            _complain(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted; the same command goes on from the last checkpoint")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_OK
    except Exception as error:
        if debug:
            raise
        _complain(f"{type(error).__name__}: {error} (--debug shows where)")
        code = EXIT_FAILED
    sys.exit(code)


def _dispatch(given: list[str]) -> int:
    if given and given[0] in native.VERBS:  # these belong to LightningCLI, arguments and all
        return native.call(given) or EXIT_OK
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    known, rest = parser.parse_known_args(given)
    if hasattr(known, "overrides"):
        known.overrides = runs.parse_overrides(rest, _options(parser, given))
    elif rest:
        close = nearest(rest[0], _options(parser, given))
        raise UserError(f"unknown argument {rest[0]!r}{close}; see `repro {known.verb} --help`")
    handler: Handler = known.handler
    return handler(known) or EXIT_OK


def _options(parser: argparse.ArgumentParser, given: list[str]) -> list[str]:
    """The options of the verb, and of its action, that the arguments name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word in given:
                if word in action.choices:
                    return _options(action.choices[word], given)
    return [option for action in parser._actions for option in action.option_strings]


def _complain(message: str) -> None:
    print(f"repro: {' '.join(message.split())}", file=sys.stderr)


__all__ = ["EXIT_BAD_INPUT", "build_parser", "main"]
