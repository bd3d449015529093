"""``repro logs``: the log of a run's job, while it is written or afterwards, or a run's events."""

import contextlib
import os
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from repro.errors import ReproError, UserError
from repro.events import EVENTS_FILE, Event, read
from repro.launch.slurm.queue import in_queue
from repro.launch.status.run_index import RunEntry, everything, select
from repro.paths import runs_dir

POLL = 0.5  # seconds between two looks at the file
ASK_EVERY = 20  # looks between two questions to squeue
# Colours and cursor movements, and other control characters but tab, newline and return.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")

Writer = Callable[[str], object]


def clean(data: bytes) -> str:
    """Bytes as text without terminal commands: of control characters only tab, newline and return are kept."""
    return _CONTROL.sub("", data.decode("utf-8", "replace"))


class Tail:
    """The text of a growing file, which may not exist yet, line by line.

    Args:
        path: the file.
        lines: how many of the existing lines are read; None: all.
    """

    def __init__(self, path: Path, lines: int | None = None) -> None:
        self.path = path
        self._lines = lines
        self._offset = 0

    def read(self, last: bool = False) -> str | None:
        """The lines written since the last call, with ``last`` also one without an end; None where there is no file."""
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, os.SEEK_END) < self._offset:  # it was replaced
                    self._offset = 0
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return None
        if not last:
            data = data[: data.rfind(b"\n") + 1]
        self._offset += len(data)
        if self._lines is not None:
            kept = data.splitlines(True)
            data, self._lines = b"".join(kept[len(kept) - min(self._lines, len(kept)) :]), None
        return clean(data)


def choose(word: str, scale: str | None = None, seed: int | None = None) -> tuple[RunEntry, int]:
    """Returns the run that a word names, in its last submission, and the number of matching runs.

    Args:
        word: see :func:`repro.launch.status.run_index.select`; a job means that submission, not the run's last.
        scale: only runs at this scale.
        seed: only runs of this seed.

    Raises:
        UserError: an unknown word; no run of that scale and seed; a run of which Slurm has not taken the job.
    """
    matches = select([word], everything())
    matches = [k for k in matches if scale in (None, k.scale) and seed in (None, k.seed)]
    if not matches:
        kind = "".join([f" at scale {scale}" if scale else "", "" if seed is None else f" with seed {seed}"])
        raise UserError(f"{word} has no run{kind}; `repro status {word}` shows what there is")
    runs = len({entry.run for entry in matches})
    logged = [entry for entry in matches if entry.log is not None]
    if logged:
        newest = logged[-1].submission
        return next(entry for entry in logged if entry.submission == newest), runs
    if any(entry.submission for entry in matches):
        name = matches[0].run or word
        raise UserError(f"{name} is being submitted, or Slurm did not take it; `repro submit` tries again")
    return matches[0], runs


def log_of(entry: RunEntry) -> Path:
    """The log of a run's job.

    Raises:
        UserError: it was not submitted.
    """
    if entry.log is None:
        raise UserError(
            f"{entry.run} was not submitted, so its output went to a terminal and to no file; `repro submit` keeps a "
            f"log, `repro logs {entry.run}` prints the run's events"
        )
    return entry.log


def is_queued(entry: RunEntry) -> bool | None:
    """Whether the task is in the queue; None where the queue cannot be read."""
    try:
        return entry.task_in(in_queue()) is not None
    except UserError:
        return None


def print_log(entry: RunEntry, write: Writer, lines: int | None = None) -> None:
    """Writes a task's log, all attempts, or its last lines; of a run without one, its events.

    Raises:
        ReproError: there is no log though the task is not in the queue any more.
    """
    if entry.log is None:
        described = describe(read(runs_dir() / entry.run / EVENTS_FILE))
        write("".join(described[max(0, len(described) - lines) :] if lines is not None else described))
        return
    text = Tail(entry.log, lines).read(last=True)
    if text is None:
        require_log_to_come(entry)
        text = f"{entry.job_id}: queued, no output yet\n"
    write(text)


def describe(events: Sequence[Event]) -> list[str]:
    """A line for each event, with its numbers or its state."""
    lines = []
    for event in events:
        numbers = [f"{n} {x:.4g}" for n, x in event.items() if "/" in n and isinstance(x, int | float)]
        words = [str(event[name]) for name in ("state", "message") if event.get(name)]
        moment = datetime.fromtimestamp(event["t"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        lines.append(clean("  ".join([moment, f"step {event['step']}", *words, *numbers]).encode()) + "\n")
    return lines


def require_log_to_come(entry: RunEntry) -> None:
    """Raises if there is no log and none is to be expected."""
    if is_queued(entry) is False:
        raise ReproError(
            f"job {entry.job_id} left the queue without output: it was cancelled before it started, or {entry.log} "
            "was removed; `repro status` shows its state"
        )


def follow(entry: RunEntry, write: Writer, lines: int | None = None) -> None:
    """Writes a task's log as it grows, until the task is known to have left the queue, or Ctrl-C.

    Args:
        entry: the task.
        write: takes text.
        lines: how many of the existing lines are written; None: all.

    Raises:
        ReproError: as :func:`print_log`.
    """
    tail = Tail(log_of(entry), lines)
    if not tail.path.exists():
        write(f"{entry.job_id}: queued, no output yet\n")
    looks = 0
    with contextlib.suppress(KeyboardInterrupt):
        while looks % ASK_EVERY or is_queued(entry) is not False:
            write(tail.read() or "")
            looks += 1
            time.sleep(POLL)
        time.sleep(POLL)  # what a node wrote last may take a moment to be seen here
        write(tail.read(last=True) or "")
        if not tail.path.exists():
            require_log_to_come(entry)
