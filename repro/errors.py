"""Errors that end a command with one clear line instead of a traceback."""

import difflib
from collections.abc import Iterable

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_REQUEUE = 75
EXIT_INTERRUPTED = 130


class ReproError(Exception):
    """A failure that no input caused; the message is one line."""

    exit_code = EXIT_FAILED


class UserError(ReproError):
    """Bad input. The message names the offending value and the remedy, in one line."""

    exit_code = EXIT_BAD_INPUT


class Preempted(ReproError):
    """The system asked the run to stop; it has saved a checkpoint and should be started again."""

    exit_code = EXIT_REQUEUE


class Interrupted(Preempted):
    """The user asked the run to stop; it has saved a checkpoint."""

    exit_code = EXIT_INTERRUPTED


def nearest(word: str, choices: Iterable[str], n: int = 3) -> str:
    """Returns ``"; nearest: a, b"`` for the choices most like ``word``, or an empty string. Ignores leading dashes."""
    names = {choice.lstrip("-"): choice for choice in choices}
    close = difflib.get_close_matches(str(word).lstrip("-"), names, n=n, cutoff=0.4)
    return f"; nearest: {', '.join(names[name] for name in close)}" if close else ""


def at_least(least: float, **values: float | None) -> None:
    """Refuses values that are too small; None is no value.

    Raises:
        UserError: names the first of them.
    """
    for name, value in values.items():
        if value is not None and not value >= least:  # NaN is refused, too
            raise UserError(f"{name} must be at least {least}, not {value}")
