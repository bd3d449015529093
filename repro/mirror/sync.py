"""Sends missing rows of runs to W&B, each run by a mirror that ends when it has sent all."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.events import ENDS, EVENTS_FILE, is_fresh, read, status
from repro.mirror import LOG_FILE, note_here, note_of, spawn
from repro.mirror.client import rows_of
from repro.mirror.process import BUSY

PATIENCE_S = 180.0  # for one run, and
ROWS_PER_S = 200  # at least


@dataclass(frozen=True)
class Synced:
    """The outcome for a run.

    Attributes:
        run: its id.
        state: ``complete``, ``missing`` (not all is on the server), ``running`` or ``planned`` (nothing was
            sent on request).
        sent: rows that were sent now, or would be.
        held: rows of the run.
        why: what went wrong; empty where nothing did.
    """

    run: str
    state: str
    sent: int = 0
    held: int = 0
    why: str = ""

    @property
    def line(self) -> str:
        """The outcome in a line."""
        summary = {
            "planned": f"would send {self.sent} of {self.held} rows",
            "running": f"skipped: {self.why}",
            "complete": f"{self.sent} of {self.held} rows sent, complete",
            "missing": f"not sent: {self.why}",
        }[self.state]
        return f"{self.run}: {summary}"


def waits(folder: Path) -> bool:
    """Whether a run has rows, and W&B was not disabled when it was started."""
    events = read(folder / EVENTS_FILE)
    if events and note_of(folder):
        return True
    starts = [event for event in events if event.get("state") == "starting" and "run" in event]
    return bool(starts) and starts[-1].get("wandb") != "disabled" and bool(rows_of(events))


def sync(run: str, folder: Path, dry: bool = False, running_too: bool = False) -> Synced:
    """Sends a run's remaining rows to the server.

    Args:
        run: the run's id, for the line.
        folder: of the run.
        dry: only report what would be sent.
        running_too: also for running runs.
    """
    try:
        note, state, path = note_here(folder), status(folder), folder / EVENTS_FILE
        if not state:
            return Synced(run, "missing", why=f"its events cannot be read; restore or remove {folder}")
        running = state["state"] not in ENDS and is_fresh(state)
        if running and not running_too:
            return Synced(run, "running", why="it is still running; --watch sends it meanwhile")
        if note.get("bytes") == path.stat().st_size and (running or note.get("state") == state["state"]):
            return Synced(run, "planned" if dry else "complete", 0, note["rows"])
        n_rows = len(rows_of(read(path)))
        unsent = max(n_rows - note.get("rows", 0), 0)
        if dry:
            return Synced(run, "planned", unsent, n_rows)
        code = _call(folder, PATIENCE_S + unsent / ROWS_PER_S, *["--running"] * running)
        if code == BUSY:
            return Synced(run, "running", held=n_rows, why="another process mirrors it")
        if code:
            return Synced(run, "missing", 0, n_rows, f"W&B did not accept it; see {folder / LOG_FILE}")
        return Synced(run, "complete", unsent, n_rows)
    except OSError as error:
        return Synced(run, "missing", why=f"cannot read {folder}: {error.strerror}")


def _call(folder: Path, limit_s: float, *options: str) -> int:
    """Runs a mirror and its service within a limit; returns its exit code, -1 where the time was up."""
    child = spawn(folder, "--once", *options)
    try:
        return child.wait(limit_s)
    except subprocess.TimeoutExpired:
        return -1
    finally:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def watch(find: Callable[[], Mapping[str, Path]], seconds: float, report: Callable[[Synced], object]) -> None:
    """Repeats sending new rows of runs until Ctrl-C.

    Args:
        find: returns the runs and their folders, called in each round.
        seconds: between two rounds.
        report: is given each outcome by which something was sent or failed.
    """
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for run, folder in find().items():
                outcome = sync(run, folder, running_too=True)
                if outcome.sent or outcome.state == "missing":
                    report(outcome)
            time.sleep(seconds)
