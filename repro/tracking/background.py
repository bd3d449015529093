"""Passes a run's rows to Lightning's ``WandbLogger`` in a separate thread: training never waits for W&B.

A call of W&B's client blocks for ever while its service is stopped, and raises when the service died. Here only the
thread is affected. A service that died or hangs is replaced, and logging continues in a new fragment of the same run.
"""

import io
import queue
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.loggers.logger import Logger
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from repro.tracking import client
from repro.tracking.live import LiveSync

if TYPE_CHECKING:
    from wandb import Run

ATTEMPTS = 4  # services that a run may use up
AGAIN_S = 20.0  # rows so young may not be on disk when a service dies, and are logged a second time
KEPT = 10_000  # of those, at most
LAST_S = 5.0
_BAD = (AssertionError, AttributeError, KeyError, TypeError, ValueError)
Call = Callable[["Run", WandbLogger], object]


@dataclass(frozen=True)
class Limits:
    """How long, in seconds, a run waits for W&B.

    Attributes:
        probe: for the server to take a connection.
        start: for the address of a run that is online; training then goes on regardless.
        hang: for one call of W&B's client, before its service is killed and replaced.
    """

    probe: float = 3.0
    start: float = 8.0
    hang: float = 60.0


def say(text: str) -> None:
    """One line on stderr."""
    print(f"W&B: {text}", file=sys.stderr, flush=True)


class BackgroundLogger(Logger):
    """A Lightning logger of which no call waits for W&B or raises for its sake; acts on the first rank only.

    Args:
        about: of the run, as :func:`repro.tracking.client.start` reads it.
        folder: of the run's fragments.
        limits: how long to wait for what.
        online: whether to send the fragment while it is written.
    """

    def __init__(self, about: Mapping[str, Any], folder: Path, limits: Limits, online: bool) -> None:
        super().__init__()
        self.lost = False
        self._about, self._folder, self._limits, self._online = about, folder, limits, online
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._again: deque[Call] = deque()
        self._recent: deque[tuple[float, Call]] = deque(maxlen=KEPT)
        self._busy: float | None = None  # when the call began that W&B's client has not returned from
        self._live: LiveSync | None = None
        self._deadline, self._code = 0.0, 0
        self._closed, self._ready = False, threading.Event()
        self._thread = threading.Thread(target=self._work, name="wandb", daemon=True)
        self._thread.start()
        if online:
            self._ready.wait(limits.start)

    @property
    def name(self) -> str:
        return "wandb"

    @property
    def version(self) -> str:
        return str(self._about["id"])

    @property
    def url(self) -> str | None:
        """The run's address, where it is sent while it is written."""
        return None if self._live is None else self._live.url

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        row = {name: _number(value) for name, value in metrics.items()}
        self._put(lambda _, logger: logger.log_metrics(row, step))

    @rank_zero_only
    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Nothing: the resolved recipe is the run's config already."""

    @rank_zero_only
    def log_table(
        self, key: str, columns: Sequence[str], data: Sequence[Sequence[object]], step: int | None = None
    ) -> None:
        """Shows a few rows of text or numbers as a table."""
        rows = [list(row) for row in data]
        self._put(lambda _, logger: logger.log_table(key, list(columns), rows, step=step))

    @rank_zero_only
    def log_picture(self, key: str, png: bytes, caption: str | None = None, step: int | None = None) -> None:
        """Shows a picture, the bytes of a PNG file; one that is none is left out."""
        from PIL import Image

        try:
            picture = Image.open(io.BytesIO(png), formats=("PNG",))
            picture.load()
        except (OSError, SyntaxError) as error:
            say(f"picture {key!r} is left out: {error}")
            return
        self._put(lambda _, logger: logger.log_image(key, [picture], step=step, caption=[caption]))

    @rank_zero_only
    def log_summary(self, values: Mapping[str, object]) -> None:
        """Sets values of the run as a whole, independent of its rows."""
        numbers = {name: _number(value) for name, value in values.items()}
        self._put(lambda run, _: run.summary.update(numbers))

    @rank_zero_only
    def log_artifact(self, artifact: Mapping[str, object]) -> None:
        """Logs an input or an output of the run; see :func:`repro.tracking.labels.artifact`."""
        self._put(lambda run, _: run.log_artifact(client.artifact(artifact)))

    @rank_zero_only
    def alert(self, title: str, text: str, level: str = "WARN") -> None:
        """Sends an alert: a title of at most 64 characters, one line of at most 500."""
        line = " ".join(text.split())[:500]
        self._put(lambda run, _: run.alert(title[:64], line, level))

    def close(self, limit_s: float, code: int = 0) -> None:
        """Ends the fragment within about ``limit_s`` seconds, with the run's exit code."""
        if self._closed:
            return
        self._closed, self._code, self._deadline = True, code, time.monotonic() + limit_s
        self._calls.put(None)
        self._thread.join(limit_s)
        if self._thread.is_alive():
            self._let_go(f"no answer within {limit_s:.0f} s at the end of the run")
            client.kill_service()
            self._thread.join(LAST_S)

    def _put(self, call: Call) -> None:
        if self.lost or self._closed:
            return
        self._calls.put(call)
        busy = self._busy  # once: the thread sets it meanwhile
        if busy is not None and time.monotonic() - busy > self._limits.hang:
            self._busy = None
            client.kill_service()

    def _work(self) -> None:
        """The thread: attempts to log until one ends well."""
        signal.pthread_sigmask(signal.SIG_BLOCK, client.SHIELDED)  # for the service, which inherits that
        why = ""
        with client.environment(self._folder):
            for attempt in range(ATTEMPTS):
                if attempt:
                    time.sleep(1.1)  # W&B names a fragment by the second it was begun in
                try:
                    self._log()
                    return
                except BaseException as error:
                    why = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:160]}"
                self._busy = None
                client.reset()
                if self.lost:
                    return
                self._log_again()
            self._let_go(why)

    def _log_again(self) -> None:
        """Has the next attempt begin with what may have been lost with the last."""
        since = time.monotonic() - AGAIN_S
        self._again = deque(call for at, call in self._recent if at > since)
        if self._closed:
            self._calls.put(None)

    def _log(self) -> None:
        """Begins a fragment, fills it and ends it; raises what W&B's client raises."""
        self._busy = time.monotonic()
        run = client.start(self._about)
        logger = WandbLogger(experiment=run)
        if self._online and self._live is None:
            self._live = LiveSync.of(Path(run.dir).parent, self._about)
        self._ready.set()
        while True:
            self._busy = None
            call = self._again.popleft() if self._again else self._calls.get()
            self._busy = time.monotonic()
            if call is None:
                break
            self._recent.append((self._busy, call))
            if self._live is not None:
                self._live.look()
            try:
                call(run, logger)
            except _BAD as error:
                say(f"left out: {type(error).__name__}: {str(error)[:160]}")
        client.end(run, self._code)
        if self._live is not None and not self._live.ended(self._deadline):
            say(f"the server did not take all; `repro sync {self._about['name']}` sends the rest")

    def _let_go(self, why: str) -> None:
        self.lost = True
        self._ready.set()
        say(f"off for the rest of this run: {why}; `repro sync {self._about['name']}` sends what is on disk")


def _number(value: object) -> Any:
    """A tensor's or array's number as Python's own."""
    return value.item() if hasattr(value, "item") else value
