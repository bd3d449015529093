"""A rank that died or hangs ends the job: other ranks do not wait for it for ever."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.errors import EXIT_FAILED, UserError

LIMIT_VARIABLE = "REPRO_STALL_S"
LIMIT_S = 1200.0
# The rank that started the others of this machine, where no Slurm did.
LEADER_VARIABLE = "REPRO_LEADER"


def stall_limit() -> float:
    """Seconds without a sign of life after which a run ends: ``$REPRO_STALL_S``, by default 20 minutes.

    Raises:
        UserError: the variable is no positive number.
    """
    setting = os.environ.get(LIMIT_VARIABLE, "")
    try:
        limit = float(setting) if setting else LIMIT_S
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise UserError(
            f"{LIMIT_VARIABLE}={setting!r} is not a number of seconds above 0; unset it for {LIMIT_S:.0f}"
        )
    return limit


class Watchdog(Callback):
    """Ends the process when no batch has ended for too long, as where another rank is dead or stopped.

    A thread counts its own ticks, not the clock: a job that is suspended as a whole does not age. Used as a context
    manager around the run; the hooks of the Trainer are its signs of life. Where there is one rank, on a CPU, the time
    that it computes is one, too: a test that measures speeds takes an hour for its batch. On a GPU waiting computes.

    Args:
        limit_s: seconds without a sign of life.
        farewell: is given the message before the process ends, which waits for it :data:`FAREWELL_S` seconds at most:
            a file system may hang, too.
    """

    TICK_S = 0.25
    FAREWELL_S = 10.0
    COMPUTES = 0.05  # of the limit: a process that has spent so much time of a CPU does not hang

    def __init__(self, limit_s: float, farewell: Callable[[str], None] = lambda message: None) -> None:
        self.limit_s = limit_s
        self.farewell = farewell
        self.siblings: list[Any] = []
        self.alone = False
        self._spent_s = 0.0
        self._doing = "starting"
        self._quiet_ticks = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        os.environ.setdefault(LEADER_VARIABLE, str(os.getpid()))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if os.environ.get(LEADER_VARIABLE) == str(os.getpid()):
            del os.environ[LEADER_VARIABLE]

    def beat(self, doing: str) -> None:
        """A sign of life; ``doing`` names the next activity."""
        self._doing = doing
        self._spent_s = time.process_time()
        self._quiet_ticks = 0

    def _watch(self) -> None:
        while not self._over.wait(self.TICK_S):
            self._quiet_ticks += 1
            if self._quiet_ticks * self.TICK_S > self.limit_s:
                if self.alone and time.process_time() - self._spent_s > self.COMPUTES * self.limit_s:
                    self.beat(self._doing)
                else:
                    self._end()

    def _end(self) -> None:
        message = (
            f"nothing moved for {self.limit_s:g} s ({self._doing}); a rank died or hangs, so this one ends; the "
            f"same command resumes ({LIMIT_VARIABLE} sets the limit)"
        )
        try:
            last_words = threading.Thread(target=self._report, args=(message,), daemon=True)
            last_words.start()
            last_words.join(self.FAREWELL_S)
        finally:
            for process in self.siblings:  # stopped ones do not notice that this one ends
                process.kill()
            if os.environ.get(LEADER_VARIABLE) == str(os.getppid()):
                os.kill(os.getppid(), signal.SIGKILL)
            os._exit(EXIT_FAILED)

    def _report(self, message: str) -> None:
        with contextlib.suppress(OSError):
            print(f"repro: {message}", file=sys.stderr, flush=True)
        with contextlib.suppress(Exception):
            self.farewell(message)

    # --- signs of life ------------------------------------------------------------------------------------------

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.siblings = getattr(trainer.strategy.launcher, "procs", [])
        self.alone = trainer.world_size == 1 and trainer.strategy.root_device.type == "cpu"
        self.beat(f"ranks have met, {stage}")

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.beat(f"training, step {trainer.global_step + 1}")

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.beat(f"training, behind step {trainer.global_step}")

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.beat("validating")

    def on_test_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self.beat("testing")
