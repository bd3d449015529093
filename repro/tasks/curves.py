"""The training curves of the run that a task belongs to."""

from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer

from repro.tasks.lightning_private import callbacks_of


@runtime_checkable
class TrainingCurves(Protocol):
    """A callback with curves, ``{"train/loss": [[step, value], ...]}``, and the number of target tokens so far."""

    curves: dict[str, list[list[float]]]
    tokens: int


def curves_of(trainer: Trainer) -> TrainingCurves | None:
    """The curves of a run, if it keeps any."""
    return next((one for one in callbacks_of(trainer) if isinstance(one, TrainingCurves)), None)
