"""Position of Lightning's training loop."""

from lightning.pytorch import Trainer


def at_update(trainer: Trainer, batch_idx: int) -> bool:
    """Whether the micro-batch that just ended completed an optimiser update."""
    return (batch_idx + 1) % trainer.accumulate_grad_batches == 0


def validation_due(trainer: Trainer, step: int | None = None) -> bool:
    """Whether a validation follows an update, by default the one that just ended, or is under way behind it."""
    every = trainer.val_check_batch  # micro-batches
    if not trainer.enable_validation or not isinstance(every, int):
        return False
    step = trainer.global_step if step is None else step
    return step * trainer.accumulate_grad_batches % every == 0
