"""The table of ``repro status``, once or redrawn in place."""

import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TextIO

from repro.launch.status.job_state import moment
from repro.launch.status.state import SHOWN_DAYS, RunState, Survey
from repro.launch.status.summary import summarise

_HEADINGS = ("run", "state", "job", "step", "loss", "tokens/s", "left", "restarts", "W&B")
_RIGHT = (3, 4, 5, 6, 7)  # columns of numbers
_DROPPED = ("W&B", "restarts", "tokens/s", "loss", "job")  # on a narrow terminal, in this order
_LINK = re.compile(r"\x1b\]8;;[^\x1b]*\x1b\\")
_REDRAW = "\x1b[H\x1b[2J"


def table(rows: Sequence[RunState], links: bool = False, dropped: Sequence[str] = ()) -> list[str]:
    """The table's lines.

    Args:
        rows: in the order of the table.
        links: whether this goes to a terminal: W&B pages are then short names that can be clicked.
        dropped: columns that are left out.
    """
    kept = [i for i, name in enumerate(_HEADINGS) if name not in dropped]
    cells = [list(_HEADINGS), *([*_cells(row), _link(_plain(row.wandb_url or ""), links)] for row in rows)]
    shown = [[line[i] for i in kept] for line in cells]
    widths = [max(_length(cell) for cell in column) for column in zip(*shown, strict=True)]
    lines = []
    for line in shown:
        padded = [
            " " * (width - _length(cell)) + cell if i in _RIGHT else cell + " " * (width - _length(cell))
            for i, cell, width in zip(kept, line, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def fitted(rows: Sequence[RunState], width: int, links: bool = False) -> list[str]:
    """The table, no line longer than ``width``: run ids, reasons and columns are shortened as far as needed."""
    whole = table(rows, links)
    if max(map(_length, whole)) <= width:
        return whole
    short = [replace(row, reason=_middle(row.reason, 12)) for row in _shortened(rows)]
    for n in range(len(_DROPPED) + 1):
        lines = table(short, links, _DROPPED[:n])
        if max(map(_length, lines)) <= width:
            return lines
    others = max(map(_length, table([replace(row, run="") for row in short], links, _DROPPED))) - len("run")
    named = [replace(row, run=_middle(row.run, max(width - others, 9))) for row in short]
    return [_cut(line, width) for line in table(named, links, _DROPPED)]


def messages(rows: Sequence[RunState], width: int | None = None) -> list[str]:
    """A line for each run that has something to say, folded at ``width`` so that run ids stay whole."""
    said = [_plain(f"{row.run}: {row.state}: {row.message}") for row in rows if row.message]
    if width is None:
        return said
    fold = partial(
        textwrap.wrap, width=width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return [line for text in said for line in fold(text)]


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


def _length(text: str) -> int:
    """What a terminal shows of a text, in characters."""
    return len(_LINK.sub("", text))


def _middle(text: str, most: int) -> str:
    """A text without its middle: the end of a run id tells runs apart."""
    return text if len(text) <= most else f"{text[: (most - 1) // 2]}…{text[-(most // 2) :]}"


def _cut(line: str, width: int) -> str:
    return line if _length(line) <= width else line[: width - 1] + "…"


def show(survey: Survey, out: TextIO | None = None) -> None:
    """Prints sum and table, on a terminal within its width, and on stderr what could not be found out."""
    out = out or sys.stdout
    warn(survey.notes)
    terminal = _is_terminal(out)
    out.write("\n".join(page(survey, terminal, shutil.get_terminal_size()[0] if terminal else None)) + "\n")
    out.flush()


def warn(notes: Sequence[str]) -> None:
    """Says on stderr what could not be found out."""
    for note in notes:
        print(f"repro: {note}", file=sys.stderr)


def page(survey: Survey, links: bool = False, width: int | None = None) -> list[str]:
    """The sum, the table and its messages; or a line that says that there is no run, and how many are left out.

    Args:
        survey: what to show.
        links: see :func:`table`.
        width: of the terminal; None where lines may have any length.
    """
    rows = survey.rows
    lines = ["no runs; `repro submit` or `repro run` starts one"]
    if rows:
        said = messages(rows, width)
        lines = [*summarise(rows).lines, ""]
        lines += table(rows, links) if width is None else fitted(rows, width, links)
        lines += ["", *said] if said else []
    if survey.hidden:
        more = f"{survey.hidden} more that ended over {SHOWN_DAYS} days ago; --all shows them"
        lines = [*lines, "", more] if rows else [more]
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
                width = shutil.get_terminal_size()[0] if place else None
                lines = [*page(survey, place, width), *([""] if ended else ["", ""])]
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
