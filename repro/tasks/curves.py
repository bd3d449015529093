"""The training curves of the run that a task belongs to."""

from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer


@runtime_checkable
class TrainingCurves(Protocol):
    """A callback with curves, ``{"train/loss": [[step, value], ...]}``, and the number of target tokens so far."""

    curves: dict[str, list[list[float]]]
    tokens: int


def curves_of(trainer: Trainer) -> TrainingCurves | None:
    """The curves of a run, if it keeps any."""
    callbacks: list[object] = trainer.callbacks  # type: ignore[attr-defined]
    return next((callback for callback in callbacks if isinstance(callback, TrainingCurves)), None)
