"""Sends a fragment to W&B while it is written, by ``wandb beta sync --live`` in a child process. Optional.

Only the newest fragment is sent this way, and only if the server has all earlier ones; `repro sync` sends the others.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from repro.tracking import fragments

ADDRESS_S = 6.0  # for the run to be on the server
TIMEOUT_S = 2  # of one question for it
AGAIN_S = 10.0  # between two, later
_LOOK_S = 0.2


class LiveSync:
    """The child, and what is known of its run.

    Attributes:
        url: the run's address; None where the server has not shown it yet.
    """

    def __init__(self, log: Path, about: Mapping[str, Any]) -> None:
        self.log = log
        root = str(Path(__file__).resolve().parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from repro.tracking.live import main; main()"
        with (log.parent.parent / "live.log").open("ab") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-c", code, str(log), str(os.getpid())],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=fragments.environment(),
                cwd=log.parent.parent, start_new_session=True,
            )  # fmt: skip
        self.url: str | None = None
        self._run, self._next = f"{about['project']}/{about['id']}", 0.0
        deadline = time.monotonic() + ADDRESS_S
        while self.url is None and self._child.poll() is None and time.monotonic() < deadline:
            time.sleep(_LOOK_S)
            self._next = 0.0
            self.look()

    @classmethod
    def of(cls, folder: Path, about: Mapping[str, Any]) -> "LiveSync | None":
        """For the newest fragment of a run; None where the server lacks an earlier one."""
        earlier = [log for log in fragments.fragments_of(folder.parent.parent) if log.parent != folder]
        if not all(map(fragments.is_synced, earlier)):
            return None
        return cls(folder / f"run-{about['id']}.wandb", about)

    def ended(self, deadline: float) -> bool:
        """Whether the server has all of the fragment, which has ended; waits for that until ``deadline`` at most."""
        while (
            not fragments.is_synced(self.log) and self._child.poll() is None and time.monotonic() < deadline
        ):
            time.sleep(_LOOK_S)
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        return fragments.is_synced(self.log)

    def look(self) -> None:
        """Asks the server for the run's address where it is not known yet, every few seconds at most."""
        import wandb

        if self.url is None and time.monotonic() > self._next:
            with contextlib.suppress(Exception):
                self.url = str(wandb.Api(timeout=TIMEOUT_S).run(self._run).url)
            self._next = time.monotonic() + AGAIN_S


def main() -> None:
    """The child: ends with its parent, which ``wandb beta sync --live`` alone would not."""
    log, parent = Path(sys.argv[1]), int(sys.argv[2])
    command = [sys.executable, "-P", "-m", "wandb", "beta", "sync", "--live", "--yes", str(log)]
    syncing = None
    while syncing is None or syncing.poll() is None:
        if os.getppid() != parent:
            os.killpg(0, signal.SIGKILL)
        if syncing is None and log.exists():
            syncing = subprocess.Popen(command)
        time.sleep(_LOOK_S)
