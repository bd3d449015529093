"""Uploads a run's fragments to W&B with W&B's own tool, in order of their start, as one run.

A fragment counts as sent once the tool has put its marker beside it. One of which the server had taken a part is sent
again as a whole: each row is there at least once, and rows sent twice have the same ``trainer/global_step``. At last
the run's summary is set from its record.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repro.files import lock
from repro.record import RECORD_FILE
from repro.tracking.fragments import environment, fragments_of, is_synced

if TYPE_CHECKING:
    from wandb import Api

PATIENCE_S = 120.0  # for one fragment, and
BYTES_PER_S = 50_000  # of it at least
ABOUT_FILE = "about.json"  # id and project of the run
SUMMARY_MARK = "summary.synced"


@dataclass(frozen=True)
class Synced:
    """The outcome for a run.

    Attributes:
        run: its id.
        state: ``complete``, ``missing`` (not all is on the server), ``running`` or ``planned`` (nothing was
            sent, as was asked).
        sent: fragments that were sent now, or would be.
        held: fragments that hold anything.
        why: what went wrong; empty where nothing did.
    """

    run: str
    state: str
    sent: int = 0
    held: int = 0
    why: str = ""

    @property
    def line(self) -> str:
        """One line about it."""
        summary = {
            "planned": f"would send {self.sent} of {self.held} fragments",
            "running": f"skipped: {self.why}",
            "complete": f"{self.sent} of {self.held} fragments sent, complete",
            "missing": f"{self.sent} of {self.held} fragments sent: {self.why}",
        }[self.state]
        return f"{self.run}: {summary}"


def sync(run: str, folder: Path, api: "Api | None", patience_s: float = PATIENCE_S) -> Synced:
    """Sends a run's remaining fragments to the server.

    Args:
        run: the run's id, for the line.
        folder: of the run.
        api: W&B's public API; None: only report what would be sent.
        patience_s: time limit for one fragment.
    """
    with held(folder) as free:
        if not free:
            return Synced(run, "running", why="it is still running")
        logs = fragments_of(folder)
        unsent = [log for log in logs if not is_synced(log)]
        if api is None:
            return Synced(run, "planned", len(unsent), len(logs))
        for number, log in enumerate(unsent):
            why = upload(log, patience_s)
            if why:  # a later one does not overtake it
                return Synced(run, "missing", number, len(logs), why)
        why = set_summary(folder, api) if logs else ""
        return Synced(run, "missing" if why else "complete", len(unsent), len(logs), why)


def waits(folder: Path) -> bool:
    """Whether a run's folder holds fragments of W&B's."""
    return bool(fragments_of(folder))


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Holds a run's folder, so that it does not start meanwhile; gives False where it runs."""
    with (folder / ".lock").open("a") as file:
        yield lock(file)


def upload(log: Path, patience_s: float) -> str:
    """Has W&B's own tool send a fragment; returns the error, or an empty string.

    The tool exits with 0 even if the server refused everything, so only its marker counts.
    """
    command = [sys.executable, "-P", "-m", "wandb", "sync", "--include-online", str(log.parent)]
    log_file = log.parent.parent / "sync.log"
    limit_s = patience_s + log.stat().st_size / BYTES_PER_S
    with log_file.open("ab") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(), cwd=log.parent.parent,
            start_new_session=True,
        )  # fmt: skip
        why = "W&B's tool gave up"
        try:
            child.wait(limit_s)
        except subprocess.TimeoutExpired:
            why = f"not on the server after {limit_s:.0f} s"
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)  # its service follows
            child.wait()
    return "" if is_synced(log) else f"{log.parent.name}: {why}; {log_file} may say more"


def write_about(folder: Path, run: str, project: str) -> None:
    """Notes beside the fragments which run of W&B's they belong to."""
    (folder / "wandb" / ABOUT_FILE).write_text(json.dumps({"id": run, "project": project}), encoding="utf-8")


def set_summary(folder: Path, api: "Api") -> str:
    """Sets the summary to the record's measurements, once; returns the error, or an empty string.

    A fragment that comes later than a newer one leaves older values there.
    """
    record, mark, about = folder / RECORD_FILE, folder / "wandb" / SUMMARY_MARK, folder / "wandb" / ABOUT_FILE
    if not record.exists() or mark.exists():
        return ""
    try:
        metrics = json.loads(record.read_text(encoding="utf-8"))["metrics"]
        where = json.loads(about.read_text(encoding="utf-8"))
        entity = os.environ.get("WANDB_ENTITY") or api.default_entity
        remote = api.run(f"{entity}/{where['project']}/{where['id']}")
        # Of two measurements of one name the first counts, as in the tables.
        remote.summary.update({metric["name"]: metric["value"] for metric in reversed(metrics)})
    except Exception as error:  # of W&B's client, or a file that was damaged
        return f"the summary is not set: {type(error).__name__}: {str(error).partition(chr(10))[0][:160]}"
    mark.touch()
    return ""
