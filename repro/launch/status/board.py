"""The table of ``repro status``, once or redrawn in place."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TextIO

from tabulate import tabulate

from repro.events import moment
from repro.launch.status.state import SHOWN_DAYS, RunState, Survey
from repro.launch.status.summary import summarise

# What matters less stands further to the right, where a narrow terminal cuts it off.
_HEADINGS = ("run", "state", "step", "left", "last event", "loss", "tokens/s", "job", "restarts", "W&B")
_NUMBERS = ("step", "left", "last event", "loss", "tokens/s", "restarts")
_REDRAW = "\x1b[H\x1b[2J"


def table(rows: Sequence[RunState], width: int | None = None) -> list[str]:
    """The table's lines.

    Args:
        rows: in the order of the table.
        width: of the terminal: run ids are shortened and lines cut as far as needed; None: lines have any length.
    """
    whole = _aligned(rows)
    if width is None or max(map(len, whole)) <= width:
        return whole
    return [_cut(line, width) for line in _aligned(_shortened(rows))]


def _aligned(rows: Sequence[RunState]) -> list[str]:
    sides = ["right" if heading in _NUMBERS else "left" for heading in _HEADINGS]
    lines = [list(_HEADINGS), *map(_cells, rows)]  # as `headers` tabulate would widen them
    return tabulate(lines, tablefmt="plain", disable_numparse=True, colalign=sides).splitlines()


def messages(rows: Sequence[RunState]) -> list[str]:
    """A line for each run that has a message."""
    return [_plain(f"{row.run}: {row.state}: {row.message}") for row in rows if row.message]


def _cells(row: RunState) -> list[str]:
    step = (
        "" if row.step is None else f"{row.step}" if row.max_steps is None else f"{row.step}/{row.max_steps}"
    )
    return [
        _plain(row.run),
        _plain(row.label),
        step,
        _left(row),
        "" if row.silent_s is None else f"{duration(row.silent_s)} ago",
        "" if row.loss is None else f"{row.loss:.4g}",
        "" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}",
        _plain(row.job or "local"),
        str(row.restarts) if row.restarts else "",
        _plain(row.wandb_url or ""),
    ]


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


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def show(survey: Survey, out: TextIO | None = None) -> None:
    """Prints summary and table within the width of a terminal, and on stderr facts that could not be determined."""
    out = out or sys.stdout
    warn(survey.notes)
    out.write("\n".join(page(survey, shutil.get_terminal_size()[0] if _is_terminal(out) else None)) + "\n")
    out.flush()


def warn(notes: Sequence[str]) -> None:
    """Prints on stderr the facts that could not be determined."""
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)


def page(survey: Survey, width: int | None = None) -> list[str]:
    """Returns summary, table and messages; without runs a line with the number of those left out.

    Args:
        survey: what to show.
        width: see :func:`table`.
    """
    rows = survey.rows
    lines = ["no runs; `repro submit` or `repro run` starts one"]
    if rows:
        notes = messages(rows)
        lines = [*summarise(rows).lines, "", *table(rows, width), *(["", *notes] if notes else [])]
    if survey.hidden:
        more = f"{survey.hidden} more that ended over {SHOWN_DAYS} days ago; --all shows them"
        lines = [*lines, "", more] if rows else [more]
    return lines


def watch(
    read: Callable[[], Survey],
    seconds: float,
    out: TextIO | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Repeats the table until every run has ended or Ctrl-C: in place on a terminal, else in blocks.

    Args:
        read: asks anew.
        seconds: between two looks.
        out: where to; stdout by default.
        pause: waits; replaced by tests.
    """
    out = out or sys.stdout
    place = _is_terminal(out)
    warned: set[str] = set()
    try:
        while True:
            survey = read()
            ended = all(row.ended for row in survey.rows)
            if place and not ended:
                lines = _screenful(survey, seconds)
            else:  # on a terminal the last table stays, whole
                warn([note for note in survey.notes if note not in warned])
                warned.update(survey.notes)
                width = shutil.get_terminal_size()[0] if place else None
                lines = [*page(survey, width), *([""] if ended else ["", ""])]
            out.write((_REDRAW if place else "") + "\n".join(lines))
            out.flush()
            if ended:
                return
            pause(seconds)
    except KeyboardInterrupt:
        out.write("\n" if place else "")


def _screenful(survey: Survey, seconds: float) -> list[str]:
    """The part that fits: a line that wraps or scrolls would leave characters behind."""
    width, height = shutil.get_terminal_size()
    now = datetime.now(UTC).strftime("%H:%M:%S")
    lines = page(survey, width=width)
    lines = [f"{now} UTC, every {seconds:g} s, Ctrl-C to leave", *survey.notes, "", *lines]
    cut = [_cut(line, width) for line in lines]
    if len(cut) <= height:
        return cut
    return [*cut[: height - 2], f"… {len(cut) - height + 2} more lines; `repro status` shows all"]


def _shortened(rows: Sequence[RunState]) -> list[RunState]:
    """The rows without the common part of their run ids, the paper, and without hashes where seeds are unique."""
    papers = {row.run.partition("/")[0] for row in rows}
    names = [f"…/{row.run.partition('/')[2]}" if len(papers) == 1 else row.run for row in rows]
    bare = [name.rpartition("-")[0] for name in names]
    short = bare if len(set(bare)) == len(bare) else names
    return [replace(row, run=name) for row, name in zip(rows, short, strict=True)]


def _is_terminal(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM", "dumb") != "dumb"
