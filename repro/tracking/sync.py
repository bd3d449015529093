"""Brings to W&B what runs could not bring there while they trained, each row once, and counts what is there.

What a run left are fragments, and rows that no fragment has (see ``mirror.py``). The rows are first made a fragment. Of
all fragments those parts that the server lacks are joined into one, which W&B's own client sends. ``wandb sync`` alone
sends the rows of a fragment again that a server had taken in part, and lets an older fragment have the last word.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError
from repro.tracking import process, spool
from repro.tracking.fragments import Fragment, fragments_of
from repro.tracking.joined import Plan, join, plan
from repro.tracking.mirror import Limits, Mirror
from repro.tracking.server import NoAnswer, Server, There

PATIENCE_S = 60.0  # without a row more on the server, before sending is given up
SETTLE_S = 10.0  # until a server counts what it has taken
START_S = 15.0  # in addition, for the client to start
SPOOL_S = 60.0
_LOOK_S = 0.5


@dataclass(frozen=True)
class Synced:
    """What became of a run.

    Attributes:
        run: its id.
        state: ``complete``, ``missing`` (the server has fewer rows than the files), ``more`` (it has more), ``failed``,
            ``running`` or ``planned`` (nothing was sent, as was asked).
        sent: rows that were sent now, or would be at most.
        there: rows that the server has; None where it was not asked.
        held: rows that the files hold.
        why: what went wrong; empty where nothing did.
    """

    run: str
    state: str
    sent: int = 0
    there: int | None = None
    held: int = 0
    why: str = ""

    @property
    def line(self) -> str:
        """One line about it."""
        told = f"{self.sent} rows sent" if self.sent else "nothing sent"
        said = {
            "planned": f"would send up to {self.sent} of {self.held} rows"
            if self.sent
            else "nothing to send",
            "running": f"skipped: {self.why}",
            "failed": f"{told}: {self.why}",
            "complete": f"{told}, {self.there} there, complete",
            "missing": f"{told}, {self.there} of {self.held} there: {self.why}",
            "more": f"{told}, {self.there} there, but the files hold {self.held}: {self.why}",
        }[self.state]
        return f"{self.run}: {said}"


def sync(run: str, folder: Path, server: Server | None, patience_s: float = PATIENCE_S) -> Synced:
    """Sends what a run left to the server, then compares what is there with what the files hold.

    Args:
        run: the run's id, for the line.
        folder: of the run.
        server: None: only say what would be sent.
        patience_s: without a row more on the server, before sending is given up.
    """
    with held(folder) as free:
        busy = "it is still running" if not free else writing(folder / "wandb")
        if busy:
            return Synced(run, "running", why=busy)
        root = folder / "wandb"
        if server is None:
            return planned(run, root)
        try:
            gather(root)
            found = fragments_of(root)
            return send(run, root, found, server, patience_s) if found else Synced(run, "complete", there=0)
        except ReproError as error:
            return Synced(run, "failed", why=str(error))


def left(folder: Path) -> bool:
    """Whether a run's folder holds anything of W&B's."""
    return bool(
        list((folder / "wandb").glob("*run-*/run-*.wandb")) or list((folder / "wandb").glob(spool.PATTERN))
    )


def planned(run: str, root: Path) -> Synced:
    """What would be sent, as far as can be said without the server."""
    made = plan(fragments_of(root), None)
    every = made.rows.union(*map(spool.times, spool.left_behind(root)))
    return Synced(run, "planned", sent=len(every - made.there), held=len(every))


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Holds a run's folder, so that it does not start meanwhile; gives False where it runs."""
    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True


def writing(root: Path) -> str:
    """Why a run's files may still be written to by a process whose run was killed; empty where that is ruled out."""
    for rows in root.glob(spool.PATTERN):
        state = spool.read_state(rows)
        left_s = state["at"] + process.FAREWELL_S + 10 - time.time()
        ended = state["phase"] in ("done", "failed")
        if not ended and left_s > 0 and not process.known_dead(state["pid"], state["boot"]):
            return f"it has just ended, and its last rows may still be written; ask again in {left_s:.0f} s"
    return ""


def gather(root: Path) -> None:
    """Makes rows that lie in no fragment a fragment.

    Raises:
        ReproError: W&B's client does not take them.
    """
    old = spool.left_behind(root)
    if not old:
        return
    about = spool.about(old[-1]) | {"dir": str(root.parent.resolve())}
    code = next((said["end"]["code"] for said, _ in process.lines_from(old[-1], 0) if "end" in said), 1)
    mirror = Mirror(root, about, "offline", Limits(start=SPOOL_S))
    if mirror.start():
        mirror.close(SPOOL_S, code)
    if mirror.lost:
        raise ReproError(f"W&B's client does not take the rows; {root / 'mirror.log'} may say why")


def send(run: str, root: Path, found: list[Fragment], server: Server, patience_s: float) -> Synced:
    """Sends what the server lacks, and counts again."""
    newest = found[-1].run
    where = (newest.run_id, newest.project, newest.entity or os.environ.get("WANDB_ENTITY"))
    before = server.has(*where)
    made = plan(found, before)
    sent, why = 0, ""
    if made.open:
        drop_useless(found, made)
        joined = join(made, newest.run_id, before.next_step, root)
        why = upload(joined, lambda: server.has(*where), patience_s)
        after = server.has(*where) if why else settled(server, where, len(made.rows))
        sent = after.rows - before.rows
        if after.rows == len(made.rows) and joined.synced:
            for one in made.fragments:
                one.mark()
            for one in fragments_of(root):
                if one.copied:
                    shutil.rmtree(one.folder)
        else:
            joined.unmark()
    else:
        after = before
    return verdict(run, made, after, sent, why)


def verdict(run: str, made: Plan, after: There, sent: int, why: str) -> Synced:
    """Compares what is there with what the files hold."""
    held_rows = len(made.rows)
    if after.rows > held_rows:
        why = "some were sent by other means, or fragments were removed here"
        return Synced(run, "more", sent, after.rows, held_rows, why)
    if after.rows < held_rows or why:
        why = why or ("the server did not take all" if made.open else "it lost what it had taken")
        return Synced(run, "missing", sent, after.rows, held_rows, why)
    return Synced(run, "complete", sent, after.rows, held_rows)


def drop_useless(found: list[Fragment], made: Plan) -> None:
    """Removes earlier joined fragments of which the server took nothing: they say nothing of what is there."""
    for one in found:
        if one.copied and not set(one.times) & made.there:
            shutil.rmtree(one.folder)


def settled(server: Server, where: tuple[str, str, str | None], wanted: int) -> There:
    """What the server has, once it has counted what it took; waits for it for a moment."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        now = server.has(*where)
        if now.rows >= wanted or time.monotonic() > deadline:
            return now
        time.sleep(_LOOK_S)


def upload(fragment: Fragment, count: Callable[[], There], patience_s: float) -> str:
    """Has W&B's own client send a fragment; returns what went wrong, or nothing.

    Args:
        fragment: to be sent.
        count: asks the server.
        patience_s: without a row more there, before the client is stopped.
    """
    environment = {k: v for k, v in os.environ.items() if k not in ("WANDB_MODE", "WANDB_SERVICE")}
    environment.setdefault("WANDB_ERROR_REPORTING", "false")
    command = [sys.executable, "-P", "-m", "wandb", "sync", "--include-online", str(fragment.folder)]
    log = fragment.folder.parent / "sync.log"
    with log.open("ab") as said:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, cwd=fragment.folder.parent,
            start_new_session=True,
        )  # fmt: skip
        try:
            why = watched(child, count, patience_s)
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)  # its service, too
            child.wait()
    if why or fragment.synced:
        return why
    return f"W&B's client gave up; {log} may say why"


def watched(child: "subprocess.Popen[bytes]", count: Callable[[], There], patience_s: float) -> str:
    """Waits for the client as long as rows arrive; returns why that was given up, or nothing."""
    rows, moved = -1, time.monotonic() + START_S
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(min(2.0, patience_s / 4))
            return ""
        why = "the server takes nothing more"
        try:
            now = count().rows
            if rows not in (-1, now):
                moved = time.monotonic()
            rows = now
        except NoAnswer as error:
            why = str(error)
        if time.monotonic() - moved > patience_s:
            return why
