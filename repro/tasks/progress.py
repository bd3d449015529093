"""Where Lightning's loops stand, as far as checkpoints need to know."""

from typing import Any

from lightning.pytorch import Trainer


def at_update(trainer: Trainer, batch_idx: int) -> bool:
    """Whether the micro-batch that just ended completed an optimiser update."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


def validation_due(trainer: Trainer) -> bool:
    """Whether a validation follows the update that just ended, or is under way behind it."""
    every = trainer.val_check_batch  # micro-batches
    if not trainer.enable_validation or not isinstance(every, int):
        return False
    return trainer.global_step * trainer.accumulate_grad_batches % every == 0


def owe_validation(fit_loop: dict[str, Any]) -> None:
    """Changes the saved state of Lightning's loops so that a resumed run begins with the validation that is due.

    Left alone, Lightning takes a validation for done that was due when a checkpoint was written behind a batch, and
    continues one that was half done without what it had gathered. The state becomes that of a run interrupted in the
    first batch of its validation.
    """
    training = fit_loop["epoch_loop.batch_progress"]
    for count in (training["total"], training["current"]):
        count["completed"] = count["processed"]
    validation = fit_loop["epoch_loop.val_loop.batch_progress"]
    validation["current"]["completed"] = 0  # it counts from the first batch
    for count in (validation["total"], validation["current"]):
        count["processed"] = count["completed"]
        count["ready"] = count["started"] = count["completed"] + 1
