"""Weights & Biases, a mirror of runs: a process of its own reads a run's events and sends them.

``python -m repro.mirror FOLDER`` follows one run (``process.py``); `repro sync` sends what is missing of many
(``sync.py``). Training never waits for either. The server reports its number of rows, so each is sent once.
"""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from repro.mirror.reach import CLOUD, Mode, has_key, mode

__all__ = ["FAILED_S", "PROJECT_NAME", "Mode", "has_key", "mode", "note_of", "start", "url", "wait"]

PROJECT_NAME = "repro"
NOTE_FILE = "mirror.json"  # in a run's folder: what the server has, as far as known here
LOG_FILE = "mirror.log"
FINISH_S = 60.0  # for W&B, after a run
FAILED_S = 30.0  # after one that failed or was stopped
_STARTED: list[subprocess.Popen[bytes]] = []


def start(folder: Path) -> subprocess.Popen[bytes] | None:
    """Starts the mirror of a run; None where W&B is disabled, offline or not installed."""
    if mode() != "online" or importlib.util.find_spec("wandb") is None:
        return None
    try:
        process = spawn(folder)
    except OSError as error:
        print(f"W&B: no mirror of this run: {error}", file=sys.stderr, flush=True)
        return None
    _STARTED.append(process)
    return process


def wait(process: "subprocess.Popen[bytes] | None", limit_s: float = FINISH_S) -> None:
    """Waits for a mirror in a Slurm job, which would end it with the ranks; elsewhere it goes on by itself."""
    if process is not None and os.environ.get("SLURM_JOB_ID"):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)


def spawn(folder: Path, *options: str) -> "subprocess.Popen[bytes]":
    """Starts a mirror in a session of its own; what it prints goes to its log."""
    with (folder / LOG_FILE).open("ab") as log:
        return subprocess.Popen(
            command(folder, *options), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment(),
            start_new_session=True,
        )  # fmt: skip


def command(folder: Path, *options: str) -> list[str]:
    """The command line of a mirror that this process starts."""
    arguments = [str(folder.resolve()), "--parent", str(os.getpid()), *options]
    return [sys.executable, "-P", "-m", "repro.mirror", *arguments]


def environment() -> dict[str, str]:
    """The environment of a mirror: this package first, and nothing that would keep W&B offline."""
    dropped = ("WANDB_MODE", "WANDB_SERVICE")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    path = os.pathsep.join(filter(None, [str(Path(__file__).resolve().parents[2]), kept.get("PYTHONPATH")]))
    return {**kept, "PYTHONPATH": path, "WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}


def note_of(folder: Path) -> dict[str, Any]:
    """Reads the note of a mirror about a run: ``url``, ``rows`` on the server, ``state`` that it
    shows, the length of the events in ``bytes``, and what :func:`place` gave."""
    try:
        note = json.loads((folder / NOTE_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}


def place() -> dict[str, str]:
    """The server, entity and project to which runs are sent from here; no entity is that of the key."""
    return {
        "server": os.environ.get("WANDB_BASE_URL") or CLOUD,
        "entity": os.environ.get("WANDB_ENTITY", ""),
        "project": os.environ.get("WANDB_PROJECT") or PROJECT_NAME,
    }


def note_here(folder: Path) -> dict[str, Any]:
    """The note of a run, where it is about :func:`place`; else an empty one."""
    note = note_of(folder)
    return note if place().items() <= note.items() else {}


def url(folder: Path) -> str | None:
    """The address of a run on W&B, where a mirror has noted it."""
    address = note_of(folder).get("url")
    return address if isinstance(address, str) else None
