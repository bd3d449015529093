"""The process that mirrors one run: follows its events until it ends, or sends the present ones."""

import argparse
import fcntl
import json
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from repro.errors import EXIT_FAILED, EXIT_OK
from repro.events import EVENTS_FILE, Event, read, status
from repro.files import lock, write_atomic
from repro.mirror import FINISH_S, NOTE_FILE, client, note_here, place

POLL_S = 2.0
AGAIN_S = 30.0  # between two attempts to reach the server
BUSY = 3  # exit code: another process mirrors the run
# Slurm sends these to all processes of a step; the mirror ends after its run instead.
SHIELDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Follows a run as long as the process that started this one lives; with ``--once``, sends the present events."""
    parser = argparse.ArgumentParser(prog="python -m repro.mirror", description=main.__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--once", action="store_true")
    started_by = "process that started this one; it may have ended since"
    parser.add_argument("--parent", type=int, default=os.getppid(), help=started_by)
    running = "the run is not over; its state on W&B is left alone"
    parser.add_argument("--running", action="store_true", help=running)
    args = parser.parse_args()
    if not args.once:
        signal.pthread_sigmask(signal.SIG_BLOCK, SHIELDED)
        threading.Thread(target=_end_after, args=(args.parent,), daemon=True).start()
    with (args.folder / ".mirror.lock").open("w") as file:
        if not lock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if args.once else 0)):
            sys.exit(BUSY)  # another process mirrors the run
        done = send(args.folder, running=args.running) if args.once else follow(args.folder, args.parent)
    sys.exit(EXIT_OK if done else EXIT_FAILED)


def _end_after(parent: int) -> None:
    """Ends this process and W&B's service some time after the run, whatever they wait for."""
    while os.getppid() == parent:
        time.sleep(1)
    time.sleep(FINISH_S + client.CONFIRM_S)
    os.killpg(0, signal.SIGKILL)


def follow(folder: Path, parent: int) -> bool:
    """Sends events as they come until the run is over; begins again after errors while its process lives."""
    while not send(folder, parent):
        if os.getppid() != parent or client.is_over(read(folder / EVENTS_FILE)):
            return False
        time.sleep(AGAIN_S)
    return True


def send(folder: Path, parent: int | None = None, running: bool = False) -> bool:
    """Sends the events that the server lacks; returns whether it has all.

    Args:
        folder: of the run.
        parent: the process of the run, whose events are sent as they come until it ends; None: only present events.
        running: whether the run is not over; its state on W&B is left alone.
    """
    try:
        _session(folder, parent, running)
    except Exception as error:
        message = f"W&B: {type(error).__name__}: {str(error).partition(chr(10))[0][:160]}"
        print(message, file=sys.stderr, flush=True)
        return False
    return True


def _session(folder: Path, parent: int | None, running: bool) -> None:
    path = folder / EVENTS_FILE
    events = read(path)
    first = next(event for event in reversed(events) if event.get("state") == "starting")
    with tempfile.TemporaryDirectory(prefix="repro-mirror-", ignore_cleanup_errors=True) as scratch:
        run = client.start(first, scratch, FINISH_S, parent, ended=not running)
        _note(folder, url=run.url)
        rows: list[Event] = []
        sent, size = run.starting_step, 0
        while True:
            last = os.getppid() != parent  # always, where only the present events are sent
            if last or path.stat().st_size != size:
                size, events = path.stat().st_size, read(path)
                rows = client.rows_of(events)
                for event in rows[sent:]:
                    client.log(run, event, folder, first.get("published", {}))
                sent = max(sent, len(rows))
            if last or client.is_over(events):
                break
            time.sleep(POLL_S)
        state = status(folder)
        alert = state.get("message") if state["state"] == "failed" and parent is not None else None
        client.finish(run, events, state["state"], alert)
    _note(folder, rows=len(rows), bytes=size, state=None if running else state["state"])


def _note(folder: Path, **values: object) -> None:
    note = json.dumps({**note_here(folder), **place(), **values}) + "\n"
    write_atomic(folder / NOTE_FILE, note.encode())
