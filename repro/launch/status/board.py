"""The table of ``repro status``, once or redrawn in place."""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tabulate import tabulate

from repro.events import moment
from repro.launch.status.state import SHOWN_DAYS, RunState, Survey
from repro.launch.status.summary import summarise

# What matters less stands further to the right, where a narrow terminal cuts it off.
_HEADINGS = ("run", "state", "step", "left", "last event", "loss", "tokens/s", "job", "restarts", "W&B")
_NUMBERS = ("step", "left", "last event", "loss", "tokens/s", "restarts")
_REDRAW = "\x1b[H\x1b[2J"


def table(rows: Sequence[RunState]) -> list[str]:
    """The table's lines."""
    sides = ["right" if heading in _NUMBERS else "left" for heading in _HEADINGS]
    lines = [list(_HEADINGS), *map(_cells, rows)]  # as `headers` tabulate would widen them
    return tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=sides).splitlines()


def _cells(row: RunState) -> list[str]:
    total = "" if row.max_steps is None else f"/{row.max_steps}"
    cells = [
        row.run,
        row.label,
        "" if row.step is None else f"{row.step}{total}",
        _left(row),
        "" if row.silent_s is None else f"{duration(row.silent_s)} ago",
        "" if row.loss is None else f"{row.loss:.4g}",
        "" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}",
        row.job or "local",
        str(row.restarts) if row.restarts else "",
        row.wandb_url or "",
    ]
    return [_plain(cell) for cell in cells]


def _left(row: RunState) -> str:
    """Until the end of the run; until the expected start for a task that waits."""
    if row.seconds_left is not None:
        return duration(row.seconds_left)
    begins = moment(row.start) if row.start else None
    if begins is None:
        return ""
    return f"starts in {duration(max((begins - datetime.now(UTC)).total_seconds(), 0))}"


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``5.2 h``, ``3.1 d``."""
    for limit, size, unit in ((90, 1, "s"), (90 * 60, 60, "min")):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} d"


def _plain(text: str) -> str:
    """Removes control characters, since files of a run may contain any."""
    return "".join(c if c.isprintable() else " " for c in text)


def page(survey: Survey) -> list[str]:
    """Returns summary, table, and a line for each run that has a message; also how many runs were left out."""
    rows, parts = survey.rows, []
    if rows:
        notes = [_plain(f"{row.run}: {row.state}: {row.message}") for row in rows if row.message]
        parts = [summarise(rows).lines, table(rows), notes]
    if survey.hidden:
        parts.append([f"{survey.hidden} more that ended over {SHOWN_DAYS} days ago; --all shows them"])
    lines = [line for part in parts if part for line in ("", *part)]
    return lines[1:] or ["no runs; `repro submit` or `repro run` starts one"]


def show(survey: Survey) -> None:
    """Prints the page, cut to the width of a terminal, and on stderr facts that could not be determined."""
    warn(survey.notes)
    width = shutil.get_terminal_size()[0] if _is_terminal() else None
    print("\n".join(line[:width] for line in page(survey)), flush=True)


def warn(notes: Sequence[str]) -> None:
    """Prints on stderr the facts that could not be determined."""
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)


def watch(read: Callable[[], Survey], seconds: float) -> None:
    """Repeats the page until every run has ended or Ctrl-C: in place on a terminal, else in blocks.

    Args:
        read: asks anew.
        seconds: between two looks.
    """
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            survey = read()
            is_over = all(row.ended for row in survey.rows)
            head = f"{datetime.now(UTC):%H:%M:%S} UTC, every {seconds:g} s, Ctrl-C to leave"
            lines = ["", head, *survey.notes, "", *page(survey)]
            if _is_terminal():
                width, height = shutil.get_terminal_size()
                shown = lines if is_over else lines[: height - 1]  # more would scroll
                lines = [line[:width] for line in shown]
                print(_REDRAW, end="")
            print("\n".join(lines), flush=True)
            if is_over:
                return
            time.sleep(seconds)


def _is_terminal() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
