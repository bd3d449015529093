"""A W&B run kept by a process of its own, fed through a file, replaced when it dies or hangs. Standard library."""

import atexit
import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.tracking import process, spool

MAX_DEATHS = 4
AT_EXIT_S = 15.0
RESERVE_S = 10.0
_LOOK_S = 1.0


@dataclass(frozen=True)
class Limits:
    """How long, in seconds, a run waits for W&B.

    Attributes:
        probe: for the server to take a connection.
        init: for the server to take the run, once W&B's client asks it.
        online: for an online run to start, before it starts offline.
        start: for any run to start, the failed online one included; training then goes on regardless.
        hang: without progress, after which the process that mirrors is replaced.
        beat: between two questions to W&B's service whether it is alive.
    """

    probe: float = 3.0
    init: float = 7.0
    online: float = 12.0
    start: float = 20.0
    hang: float = 60.0
    beat: float = 5.0


def say(text: str) -> None:
    """One line on stderr."""
    print(f"W&B: {text}", file=sys.stderr, flush=True)


class Mirror:
    """Gives rows to W&B without waiting for it.

    Rows are appended to ``rows-*.jsonl``, which is removed once W&B, or a fragment on disk, has them all. What
    an earlier process that was killed left there is sent first.

    Args:
        folder: for rows and fragments.
        about: id, name, project, ... as ``process.start`` reads them.
        mode: ``online`` or ``offline``.
        limits: how long to wait for what.

    Raises:
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, about: dict[str, Any], mode: str, limits: Limits) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        folder = folder.resolve()
        self.id, self.name = about["id"], about["name"]
        self.url: str | None = None
        self.lost = False
        self._limits, self._mode, self._folder = limits, mode, folder
        self._child: subprocess.Popen[bytes] | None = None
        self._deaths, self._looked, self._answered = 0, 0.0, 0
        self._quiet, self._at = 0.0, 0.0  # seconds without progress; time of the last row
        self._owner, self._closed = os.getpid(), False
        old = spool.left_behind(folder)
        head = {"about": about, "beat_s": limits.beat, "init_timeout_s": limits.init}
        for rows in old:
            head.update(spool.known(rows))
        self.rows = folder / f"rows-{time.time_ns()}.jsonl"
        self._file = self.rows.open("ab", buffering=0)
        self._write(spool.line(head) + b"".join(spool.rows_of(rows) for rows in old))
        for rows in folder.glob(spool.PATTERN):
            if rows != self.rows:
                spool.remove(rows)

    @property
    def pid(self) -> int | None:
        """Of the process that mirrors now."""
        return None if self._child is None else self._child.pid

    def start(self) -> bool:
        """Starts the process and waits, within limits, until W&B has the run; False where it cannot have it."""
        deadline = time.monotonic() + self._limits.start
        self._spawn(self._mode)
        if self._mode == "online":
            why = self._started(time.monotonic() + self._limits.online)
            if why is None:
                return True
            say(f"{why}; this run is logged offline")
            self._replace("offline")
        why = self._started(deadline)
        if why is not None and (self._dead() or self._state()["phase"] == "failed"):
            self._let_go(why)
        return not self.lost

    def put(self, kind: str, what: dict[str, Any], dying: bool = False) -> None:
        """Hands on one line. Never waits for W&B, never raises for its sake.

        Args:
            kind: one of :data:`repro.tracking.sender.KINDS`.
            what: it says.
            dying: the process is about to end, so W&B's is not looked after any more.
        """
        if self.lost or self._closed or os.getpid() != self._owner:
            return
        try:
            if not dying:
                self._look()
            self._at = max(time.time(), self._at + 1e-6)  # tells rows apart
            self._write(spool.line({kind: what, "at": self._at}))
        except (OSError, TypeError, ValueError) as error:
            self._let_go(f"{type(error).__name__}: {error}")

    def close(self, limit_s: float, code: int = 0) -> None:
        """Ends the run within ``limit_s`` seconds; what W&B has not taken by then is on disk, and a line says so."""
        if self._closed or self.lost or os.getpid() != self._owner:
            return None
        self._closed = True
        atexit.unregister(self._at_exit)
        deadline = time.monotonic() + limit_s
        try:
            self._write(spool.line({"end": {"code": code}}))
            self._file.close()
            if self._drained(deadline - min(RESERVE_S, limit_s / 2)):
                return spool.remove(self.rows)
            if self.lost:
                return None
            if self._state()["phase"] == "closing":
                return self._part(deadline, limit_s)
            say(f"no answer at the end of the run; {self._remedy()} sends what is missing")
            self._replace("offline")
            if self._drained(deadline):
                return spool.remove(self.rows)
            if not self.lost:
                self._let_go(f"no answer within {limit_s:.0f} s")
        except OSError as error:
            self._let_go(f"{type(error).__name__}: {error}")

    def _write(self, lines: bytes) -> None:
        if self._file.write(lines) < len(lines):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _part(self, deadline: float, limit_s: float) -> None:
        """Waits for a server that is slow to take the end of a run that W&B's service has whole."""
        if not self._drained(deadline) and not self.lost:
            state = self._state()
            if state["phase"] != "closing" or time.time() - state["at"] < 2 * process.FLUSH_S:
                return self._let_go(f"no answer within {limit_s:.0f} s")
            self._kill()
            say(f"the server did not take all within {limit_s:.0f} s; {self._remedy()} sends the rest")
        return None if self.lost else spool.remove(self.rows)

    def abandon(self) -> None:
        """Stops at once; what W&B has not got stays in the file, for the next mirror of the same folder."""
        self._closed = True
        atexit.unregister(self._at_exit)
        self._kill()

    def _remedy(self) -> str:
        return f"`repro sync {self.name}`"

    def _spawn(self, mode: str) -> None:
        """Starts the process; does not wait for it."""
        environment = {name: value for name, value in os.environ.items() if name != "WANDB_SERVICE"}
        environment.setdefault("WANDB_ERROR_REPORTING", "false")
        if mode != "online":
            environment.pop("WANDB_API_KEY", None)
        environment["WANDB_DATA_DIR"] = str(self._folder)  # for files of artifacts
        with (self._folder / "mirror.log").open("ab") as log:
            self._child = subprocess.Popen(
                process.command(self.rows, spool.state_file(self.rows), mode, os.getpid()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,  # files are named from here, for their names are sent
                start_new_session=True,  # Ctrl-C is for the run, which then ends this
            )
        self._mode, self._quiet = mode, 0.0
        atexit.unregister(self._at_exit)
        atexit.register(self._at_exit)

    def _started(self, deadline: float) -> str | None:
        """Waits for the process to have its run; returns None, or why it has none."""
        while time.monotonic() < deadline:
            state = self._state()
            if state["phase"] == "failed":
                return str(state["error"])
            if state["phase"] != "starting":
                self.url = self.url or state["url"]
                return None
            if self._dead():
                return "its process died"
            time.sleep(0.02)
        return "no answer in time"

    def _look(self) -> None:
        """Replaces a process that died or makes no progress; once a second at most."""
        since = time.monotonic() - self._looked
        if since < min(_LOOK_S, self._limits.beat):
            return
        self._looked += since
        state = self._state()
        self.url = self.url or state["url"]
        if self._dead():
            self._revive(state)
        elif state["answered"] != self._answered or state["answered"] == self.rows.stat().st_size:
            self._answered, self._quiet = state["answered"], 0.0
        else:
            self._quiet += min(since, self._limits.hang / 4)  # a job that was suspended has not hung
            if self._quiet > self._limits.hang:
                self._revive({**state, "url": None, "error": f"no progress for {self._limits.hang:.0f} s"})

    def _revive(self, state: dict[str, Any]) -> None:
        """A new process for one that died: online again where it was online and this is the first time."""
        self._deaths += 1
        why = state["error"] or "its process died"
        if self._deaths >= MAX_DEATHS:
            return self._let_go(why)
        again = self._mode == "online" and state["url"] is not None and self._deaths == 1
        mode = "online" if again else "offline"
        say(f"{why}; the rest of this run is logged {'online again' if mode == 'online' else 'offline'}")
        return self._replace(mode)

    def _replace(self, mode: str) -> None:
        self._kill()
        self._spawn(mode)

    def _drained(self, deadline: float) -> bool:
        """Whether the process ends well in time; one that dies is replaced."""
        while time.monotonic() < deadline and not self.lost:
            state = self._state()
            self.url = self.url or state["url"]
            if state["phase"] == "done":
                self._wait(deadline - time.monotonic())
                return True
            if self._dead():
                self._revive(state)
            time.sleep(0.02)
        return False

    def _let_go(self, why: str) -> None:
        self.lost = True
        with contextlib.suppress(OSError):
            self._kill()
        say(f"off for the rest of this run: {why}; {self._remedy()} sends what it has not got")

    def _dead(self) -> bool:
        return self._child is None or self._child.poll() is not None

    def _state(self) -> dict[str, Any]:
        """What the process that runs now says of itself."""
        state = spool.read_state(self.rows)
        if state["pid"] != self.pid:
            return {**state, "phase": "starting", "url": None, "error": None}
        return state

    def _wait(self, seconds: float) -> None:
        """Until the process has gone; one that lingers is killed."""
        assert self._child is not None
        try:
            self._child.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            self._kill()

    def _kill(self) -> None:
        """Kills the process and W&B's service below it: stopped, or left behind by a process that died."""
        if self._child is None:
            return
        alive = self._child.poll() is None
        below = process.children(self._child.pid) if alive else self._left_behind()
        for pid in [*below, *([self._child.pid] if alive else [])]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(2)

    def _left_behind(self) -> list[int]:
        """Services of a process that died, which may still be writing; their command line names it."""
        owner, found = str(self.pid).encode(), []
        for pid in spool.read_state(self.rows)["services"]:
            with contextlib.suppress(OSError):
                if owner in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    found.append(int(pid))
        return found

    def _at_exit(self) -> None:
        """A run that ended without saying so has failed."""
        self.close(AT_EXIT_S, 1)
