"""Stopping together: ranks agree at the end of an update whether one was asked to stop, save, and exit."""

import math

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.errors import Interrupted, Preempted
from repro.events import EventLog
from repro.training.loops import at_update
from repro.training.saving import StepCheckpoints
from repro.training.stop_request import StopRequest


class Stopping(Callback):
    """Acts on a request to stop where all ranks are at the same point: never inside a signal's handler.

    In training that is the end of an update, in evaluation the end of a batch that every rank has. A checkpoint
    is written first; one that interrupts validation is of the update before it, and a resumed run validates anew.
    A test leaves at once, since all of training is on disk.

    Args:
        request: the flag of this process.
        saver: writes the checkpoint.
        events: the run's events.

    Raises:
        Preempted: on all ranks, after the checkpoint is on disk; after Ctrl-C it is Interrupted.
    """

    def __init__(self, request: StopRequest, saver: StepCheckpoints, events: EventLog) -> None:
        self.request = request
        self.saver = saver
        self.events = events
        self._batches: list[int] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._agreed(trainer):
            self._leave(trainer, f"at step {trainer.global_step}, where it began")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if not at_update(trainer, batch_idx) or trainer.global_step >= trainer.max_steps:
            return
        if self._agreed(trainer):
            self._save_and_leave(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(trainer, trainer.num_val_batches)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin(trainer, trainer.num_test_batches)

    def _begin(self, trainer: Trainer, batches: list[int | float]) -> None:
        """The number of batches of each loader that every rank has: ranks synchronise only after those.

        Where a loader has no length, Lightning counts infinitely many; ranks do not synchronise within it.
        """
        known = [int(count) if math.isfinite(count) else 0 for count in batches]
        counts = torch.tensor(known, device=trainer.strategy.root_device)
        self._batches = trainer.strategy.reduce(-counts, reduce_op="max").neg().tolist()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        if batch_idx < self._batches[dataloader_idx] and self._agreed(trainer):
            step = trainer.global_step
            if step == self.saver.resumed_from:  # a kill while it is written again could spoil its checkpoint
                self._leave(trainer, f"in the validation of step {step}, where it began")
            if step < trainer.max_steps:
                self._save_and_leave(trainer)
            self._leave(trainer, "in the last validation, before the last step was saved")

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:  # fmt: skip
        if batch_idx < self._batches[dataloader_idx] and self._agreed(trainer):
            self._leave(trainer, "in its test, after the last step")

    def _agreed(self, trainer: Trainer) -> bool:
        return trainer.strategy.reduce_boolean_decision(self.request.is_requested, all=False)

    def _save_and_leave(self, trainer: Trainer) -> None:
        self.saver.save(trainer)
        self._leave(trainer, f"saved at step {trainer.global_step}")

    def _leave(self, trainer: Trainer, place: str) -> None:
        by_user = trainer.strategy.reduce_boolean_decision(self.request.by_user, all=False)
        if trainer.is_global_zero:
            state = "stopped" if by_user else "requeue"
            self.events.append("state", trainer.global_step, {"state": state})
        kind = Interrupted if by_user else Preempted
        message = f"asked to stop; {place}, the same command resumes from there"
        raise kind(message if trainer.is_global_zero else "")  # one rank reports for all
