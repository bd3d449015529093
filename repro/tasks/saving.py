"""What is kept of training: checkpoints, and the one written when the run is asked to stop."""

import signal
import threading
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.errors import Interrupted, Preempted
from repro.tasks.callbacks import Curves, StatusFile, at_update


class StepCheckpoints(Callback):
    """Writes a checkpoint every so many updates and at the end of training; keeps the newest.

    Args:
        folder: where ``step-00001500.ckpt`` and its kin are written.
        every_steps: optimiser updates between two checkpoints.
        keep: how many of the newest stay.
        curves: brought up to date before each.
    """

    def __init__(self, folder: Path, every_steps: int, keep: int, curves: Curves) -> None:
        self.folder = folder
        self.every_steps = every_steps
        self.keep = keep
        self.curves = curves

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        step = trainer.global_step
        if at_update(trainer, batch_idx) and (step % self.every_steps == 0 or step == trainer.max_steps):
            self.save(trainer, pl_module)

    def save(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Writes a checkpoint now, on all ranks together, and prunes old ones."""
        self.curves.point(trainer, pl_module)
        trainer.save_checkpoint(checkpoint_path(self.folder, trainer.global_step))
        if trainer.is_global_zero:
            for old in checkpoints(self.folder)[: -self.keep]:
                old.unlink()


def checkpoint_path(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}.ckpt"


def checkpoints(folder: Path) -> list[Path]:
    """Checkpoints of a run, oldest first."""
    return sorted(folder.glob("step-*.ckpt"))


class Preemption(Callback):
    """Stops cleanly when asked to: USR1, TERM and Ctrl-C set a flag, and nothing more happens inside the handler.

    At the end of an update the ranks agree on the flag, write a checkpoint together and leave. A second Ctrl-C
    does not wait for that.

    Args:
        saver: writes the checkpoint.
        status: is told that the run wants to be started again.

    Raises:
        Preempted: after the checkpoint is on disk; after Ctrl-C it is Interrupted.
    """

    SIGNALS = (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT)

    def __init__(self, saver: StepCheckpoints, status: StatusFile) -> None:
        self.saver = saver
        self.status = status
        self._asked = False
        self._by_user = False
        self._before: dict[signal.Signals, Any] = {}

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._ask) for number in self.SIGNALS}

    def _ask(self, number: int, frame: Any) -> None:
        self._asked = True
        if number == signal.SIGINT:
            self._by_user = True
            signal.signal(number, self._before[signal.SIGINT])

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not at_update(trainer, batch_idx) or trainer.global_step >= trainer.max_steps:
            return
        if not trainer.strategy.reduce_boolean_decision(self._asked, all=False):
            return
        self.saver.save(trainer, pl_module)
        step = trainer.global_step
        if trainer.is_global_zero:
            state = "stopped" if self._by_user else "requeue"
            self.status.write(state, step=step, max_steps=trainer.max_steps)
        kind = Interrupted if self._by_user else Preempted
        raise kind(f"asked to stop; saved at step {step}, the same command goes on from there")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
