"""``repro logs``: the log of a run's job, while it is written or afterwards, or a run's events."""

import contextlib
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

from repro.errors import ReproError, UserError
from repro.events import EVENTS_FILE, Event, read
from repro.launch.slurm.queue import in_queue
from repro.launch.status.run_index import RunEntry, everything, select
from repro.paths import runs_dir

ASK_S = 10.0  # between two questions to squeue
LATE_S = 1.0  # what a node wrote last may take a moment to be seen here


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


def print_log(entry: RunEntry, lines: int | None = None) -> None:
    """Prints a task's log, all attempts, or its last lines; of a run without one, its events.

    Raises:
        ReproError: there is no log though the task is not in the queue any more.
    """
    if entry.log is None:
        text = "".join(describe(read(runs_dir() / entry.run / EVENTS_FILE)))
    elif entry.log.exists():
        text = entry.log.read_text(encoding="utf-8", errors="replace")
    else:
        require_log_to_come(entry)
        text = f"{entry.job_id}: queued, no output yet\n"
    if lines is not None:
        kept = text.splitlines(True)
        text = "".join(kept[max(0, len(kept) - lines) :])
    print(text, end="", flush=True)


def describe(events: Sequence[Event]) -> list[str]:
    """A line for each event, with its numbers or its state."""
    lines = []
    for event in events:
        numbers = [f"{n} {x:.4g}" for n, x in event.items() if "/" in n and isinstance(x, int | float)]
        words = [str(event[name]) for name in ("state", "message") if event.get(name)]
        moment = datetime.fromtimestamp(event["t"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        lines.append("  ".join([moment, f"step {event['step']}", *words, *numbers]) + "\n")
    return lines


def require_log_to_come(entry: RunEntry) -> None:
    """Raises if there is no log and none is to be expected."""
    if is_queued(entry) is False:
        raise ReproError(
            f"job {entry.job_id} left the queue without output: it was cancelled before it started, or {entry.log} "
            "was removed; `repro status` shows its state"
        )


def follow(entry: RunEntry, lines: int | None = None) -> None:
    """Prints a task's log as it grows, until the task is known to have left the queue, or Ctrl-C.

    Args:
        entry: the task.
        lines: how many of the existing lines are printed; None: all.

    Raises:
        ReproError: as :func:`print_log`.
    """
    path = log_of(entry)
    if not path.exists():
        print(f"{entry.job_id}: queued, no output yet", flush=True)
    first = "+1" if lines is None else str(lines)
    with Popen(["cat"], stdin=PIPE) as waiting:  # ends with this block, or with this process
        # tail prints what is left once the process has ended that --pid names.
        words = ["tail", "-F", "-n", first, f"--pid={waiting.pid}", "--", str(path)]
        tail = Popen(words, stdin=DEVNULL, stderr=DEVNULL)
        with contextlib.suppress(KeyboardInterrupt):
            while tail.poll() is None and is_queued(entry) is not False:
                with contextlib.suppress(TimeoutExpired):
                    tail.wait(ASK_S)  # it ends before the task where the reader of its output leaves
            time.sleep(LATE_S)
    tail.wait()
    if not path.exists():
        require_log_to_come(entry)
