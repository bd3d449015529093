"""The table of ``repro status``, once or redrawn in place."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TextIO

from repro.launch.status.job_state import moment
from repro.launch.status.state import SHOWN_DAYS, RunState, Survey

_HEADINGS = ("run", "state", "job", "step", "loss", "tokens/s", "left", "restarts", "W&B")
_RIGHT = (3, 4, 5, 6, 7)  # columns of numbers
_REDRAW = "\x1b[H\x1b[2J"


def table(rows: Sequence[RunState], links: bool = False) -> list[str]:
    """The table's lines, then a line for each run with a message.

    Args:
        rows: in the order of the table.
        links: whether this goes to a terminal: W&B pages are then short names that can be clicked.
    """
    cells = [list(_HEADINGS), *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEADINGS))]
    lines = []
    for line, row in zip(cells, (None, *rows), strict=True):
        padded = [
            cell.rjust(width) if i in _RIGHT else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line[:-1], widths, strict=False))
        ]
        page = _link(_plain(row.wandb_url), links) if row and row.wandb_url else line[-1]
        lines.append("  ".join([*padded, page]).rstrip())
    messages = [_plain(f"{row.run}: {row.state}: {row.message}") for row in rows if row.message]
    return [*lines, *([""] if messages else []), *messages]


def _cells(row: RunState) -> list[str]:
    step = (
        "" if row.step is None else f"{row.step}" if row.max_steps is None else f"{row.step}/{row.max_steps}"
    )
    return [
        _plain(row.run),
        _plain(row.said),
        _plain(row.job or "local"),
        step,
        "" if row.loss is None else f"{row.loss:.4g}",
        "" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}",
        _left(row),
        str(row.restarts) if row.restarts else "",
        "",
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
    """Without control characters: files of a run may hold anything."""
    return "".join(c if c.isprintable() else " " for c in text)


def _link(url: str, short: bool) -> str:
    if not short or not url.startswith(("http://", "https://")):
        return url
    return f"\x1b]8;;{url}\x1b\\{url.rstrip('/').rpartition('/')[2]}\x1b]8;;\x1b\\"


def show(survey: Survey, out: TextIO | None = None) -> None:
    """Prints the table, and on stderr what could not be found out."""
    out = out or sys.stdout
    warn(survey.notes)
    out.write("\n".join(page(survey, _is_terminal(out))) + "\n")
    out.flush()


def warn(notes: Sequence[str]) -> None:
    """Says on stderr what could not be found out."""
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)


def page(survey: Survey, links: bool = False) -> list[str]:
    """The table, or a line that there is none, and the number of runs that it leaves out."""
    lines = (
        table(survey.rows, links) if survey.rows else ["no runs; `repro submit` or `repro run` starts one"]
    )
    if survey.hidden:
        more = f"{survey.hidden} more that ended over {SHOWN_DAYS} days ago; --all shows them"
        lines = [*lines, "", more] if survey.rows else [more]
    return lines


def watch(
    look: Callable[[], Survey],
    seconds: float,
    out: TextIO | None = None,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Shows the table again and again until every run has ended or Ctrl-C: in place on a terminal, else in blocks.

    Args:
        look: asks anew.
        seconds: between two looks.
        out: where to; stdout by default.
        pause: waits; replaced by tests.
    """
    out = out or sys.stdout
    place = _is_terminal(out)
    warned: set[str] = set()
    try:
        while True:
            survey = look()
            ended = all(row.ended for row in survey.rows)
            if place and not ended:
                lines = _screenful(survey, seconds)
            else:  # on a terminal the last table stays, whole
                warn([note for note in survey.notes if note not in warned])
                warned.update(survey.notes)
                lines = [*page(survey, place), *([""] if ended else ["", ""])]
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
    lines = page(survey)
    if max(map(len, lines)) > width:
        lines = page(replace(survey, rows=_shortened(survey.rows)))
    lines = [f"{now} UTC, every {seconds:g} s, Ctrl-C to leave", "", *lines]
    lines += [""] * bool(survey.notes) + survey.notes
    cut = [line if len(line) <= width else line[: width - 1] + "…" for line in lines]
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
