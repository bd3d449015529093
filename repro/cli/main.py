# PYTHON_ARGCOMPLETE_OK
"""Parses the command line, calls the verb, and turns errors into one line and an exit code."""

import argparse
import io
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

from repro import __version__
from repro.cli import cluster, cost, data, infer, mirror, native, results, runs, show, start, verify
from repro.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, ReproError, UserError, nearest
from repro.files import is_leader
from repro.paths import project_above

EXIT_UNREAD = 128 + signal.SIGPIPE  # the exit code of shells when the reader of a pipe has left
RESUMED = ("run", "reproduce", "tour")  # verbs that go on where they were stopped
FEW = 6  # choices that are listed whole in an error


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line with the nearest spelling, without the usage.

    Options are written in full: the beginning of one may be another verb's option.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        if "invalid choice" in message and "(choose from" in message:
            head, _, listed = message.partition(" (choose from ")
            value = head.split("invalid choice: ", 1)[1].strip("'")
            choices = [c.strip(" ')") for c in listed.split(",")]
            hint = f"; choose from: {', '.join(choices)}" if len(choices) <= FEW else nearest(value, choices)
            message = f"{head}{hint}; see `{self.prog} --help`"
        raise UserError(message.replace("invalid int value:", "must be a whole number, not"))


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = _Parser(
        prog="repro", description="Do the published results of eight Transformer papers hold, today?"
    )
    parser.add_argument("--version", action="version", version=f"repro {__version__}")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for family in (results, mirror, start, runs, show, verify, data, infer, cost, cluster, native):
        family.register(verbs)
    return parser


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point; exits with 0 done, 1 failed, 2 bad input, 75 requeue me, 130 interrupted, 141 reader left."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that lacks a character shows ? for it
            stream.reconfigure(errors="replace")
    try:
        code = _dispatch(words)
        sys.stdout.flush()
    except ReproError as error:
        if debug:
            raise
        if str(error):
            _complain(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        resumes = words and words[0] in RESUMED
        _complain(f"interrupted{'; the same command resumes from the last checkpoint' if resumes else ''}")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence(sys.stdout)
        try:
            _complain("stopped, since the reader of its output left")
        except OSError:
            _silence(sys.stderr)
        code = EXIT_UNREAD
    except Exception as error:
        if debug:
            raise
        _complain(f"{type(error).__name__}: {error} (--debug shows where)")
        code = EXIT_FAILED
    sys.exit(code)


def _dispatch(words: list[str]) -> int:
    if words and words[0] in native.VERBS:  # LightningCLI parses these
        native.call(words)
        return EXIT_OK
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    args, extras = parser.parse_known_args(runs.joined(words))
    args.command = shlex.join(["repro", *words])
    options = args.parser._option_string_actions
    if hasattr(args, "overrides"):
        args.overrides = runs.parse_overrides(extras, [*options], args)
    elif extras:
        close = nearest(extras[0], options)
        raise UserError(f"unknown argument {extras[0]!r}{close}; see `repro {args.verb} --help`")
    if is_leader() and (above := project_above()):
        print(
            f"{above} is a project, but not the working folder: call repro there to use it", file=sys.stderr
        )
    return args.handler(args) or EXIT_OK


def _complain(message: str) -> None:
    print(f"repro: {' '.join(message.split())}", file=sys.stderr)


def _silence(stream: TextIO) -> None:
    """Discards the buffer of a stream, whose flush at the interpreter's exit would fail, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
