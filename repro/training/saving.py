"""Saving of checkpoints: the last ones and the best."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.errors import ReproError
from repro.tasks.curves import validated
from repro.tasks.lightning_private import owe_validation
from repro.training.checkpoints import DurableIO, checkpoint_path, checkpoints, remove, set_aside, step_of
from repro.training.loops import at_update, validation_due


@dataclass
class Checkpoints:
    """The recipe's ``checkpoints`` section.

    Args:
        every_steps: optimiser updates between two checkpoints.
        average_last: how many of the last checkpoints are averaged into the model that is tested.
        keep: how many are kept on disk; at least ``average_last``.
        best: a validation metric, like ``val/loss``; the model at its best value is tested instead of the last.
        best_is: whether the best is the smallest value or the largest.

    Raises:
        ValueError: a number below 1; both an average and the best.
    """

    every_steps: int
    average_last: int = 1
    keep: int = 2
    best: str | None = None
    best_is: Literal["min", "max"] = "min"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < 1:
                raise ValueError(f"checkpoints.{field.name} must be at least 1, not {value}")
        if self.best is not None and self.average_last > 1:
            raise ValueError(
                f"checkpoints.average_last {self.average_last} and checkpoints.best {self.best} exclude each other; "
                "the model that is tested is one or the other"
            )

    def is_planned(self, step: int, max_steps: int) -> bool:
        """Whether a checkpoint is due at a step, however often the run was interrupted."""
        return step % self.every_steps == 0 or step == max_steps

    def averaged(self, max_steps: int) -> list[int]:
        """The steps of the checkpoints of the final model."""
        before = range(self.every_steps, max_steps, self.every_steps)
        return [*before, max_steps][-self.average_last :]


class StepCheckpoints(Callback):
    """Writes the planned checkpoints, on all ranks together; keeps the newest and the best.

    Args:
        folder: where ``step-00001500.ckpt`` and its kin are written.
        plan: when, and how many are kept.
        files: through which Lightning writes.

    Attributes:
        best: step and value of the best validation so far.
        best_at: step of the best validation at each checkpoint that is kept.
        resumed_from: the step this process found on disk.
        unusable: files found there that must not be found again.

    Raises:
        ReproError: a checkpoint could not be written; on every rank.
    """

    def __init__(self, folder: Path, plan: Checkpoints, files: DurableIO) -> None:
        self.folder = folder
        self.plan = plan
        self.files = files
        self.best: tuple[int, float] | None = None
        self.best_at: dict[int, int] = {}
        self.resumed_from = 0
        self.unusable: Sequence[Path] = ()
        self._saved: int | None = None

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_at": self.best_at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        best = state_dict["best"]
        # not where another run's training goes on
        if best is not None and best_path(self.folder, best[0]).exists():
            self.best, self.best_at = best, state_dict.get("best_at", {})

    def best_in(self, checkpoint: dict[str, Any]) -> tuple[int, float] | None:
        """Returns step and value of the best validation up to a checkpoint."""
        return checkpoint.get("callbacks", {}).get(self.state_key, {}).get("best")

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            for path in self.unusable:
                set_aside(path)
            for path in self.folder.glob(".*.ckpt.*"):  # of a save that was killed
                path.unlink(missing_ok=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        step, last = trainer.global_step, trainer.max_steps
        if step == last and validation_due(trainer):
            return  # it is saved behind the validation, since nothing is run behind the last step's checkpoint
        if at_update(trainer, batch_idx) and self.plan.is_planned(step, last):
            self.save(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.state.fn != "fit":
            return
        if self.plan.best is not None:
            self._keep_best(trainer)
        if trainer.global_step == trainer.max_steps:
            self.save(trainer)

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if validation_due(trainer):
            owe_validation(checkpoint["loops"]["fit_loop"])

    def _keep_best(self, trainer: Trainer) -> None:
        assert self.plan.best is not None
        value = validated(trainer, self.plan.best, "checkpoints.best")
        better = operator.lt if self.plan.best_is == "min" else operator.gt
        if math.isfinite(value) and (self.best is None or better(value, self.best[1])):
            self.best = (trainer.global_step, value)
            self._write(trainer, best_path(self.folder, trainer.global_step), whole=False)

    def save(self, trainer: Trainer) -> None:
        """Writes a checkpoint now, unless this step has one, and removes old ones afterwards."""
        step = trainer.global_step
        if self._saved == step:
            return
        if self.best is not None:
            self.best_at[step] = self.best[0]
        self._write(trainer, checkpoint_path(self.folder, step), whole=True)
        self._saved = step
        if trainer.is_global_zero:
            self._prune(trainer.max_steps)

    def _write(self, trainer: Trainer, path: Path, whole: bool) -> None:
        trainer.save_checkpoint(path, weights_only=not whole)
        if trainer.strategy.reduce_boolean_decision(self.files.failure is not None, all=False):
            raise ReproError(self.files.failure or "rank 0 could not write the checkpoint")

    def _prune(self, max_steps: int) -> None:
        """Keeps the newest planned ones, what came after them, and the best at each of these and now."""
        steps = [step_of(path) for path in checkpoints(self.folder)]
        planned = [step for step in steps if self.plan.is_planned(step, max_steps)]
        kept = {*planned[-max(self.plan.keep, self.plan.average_last) :], max(steps)}
        for step in steps:
            if step not in kept:
                remove(checkpoint_path(self.folder, step))
        self.best_at = {step: best for step, best in self.best_at.items() if step in kept}
        for path in best_checkpoints(self.folder):
            if step_of(path) not in self.best_at.values():  # of which the newest is today's
                remove(path)

    def final(self, max_steps: int) -> Sequence[Path]:
        """The checkpoints that make the model to be tested."""
        if self.plan.best is None:
            return [checkpoint_path(self.folder, step) for step in self.plan.averaged(max_steps)]
        if self.best is None:
            raise ReproError(
                f"checkpoints.best: no validation gave a finite number, so {self.plan.best} has no best value; "
                "set trainer.val_check_interval to at most trainer.max_steps"
            )
        return [best_path(self.folder, self.best[0])]


def best_path(folder: Path, step: int) -> Path:
    return checkpoint_path(folder, step).with_name(f"best-{step:08d}.ckpt")


def best_checkpoints(folder: Path) -> list[Path]:
    return checkpoints(folder, "best")
