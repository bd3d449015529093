"""The training curves of the run that a task belongs to, and the scores of its latest validation."""

from typing import Protocol, runtime_checkable

from lightning.pytorch import Trainer

from repro.errors import UserError
from repro.tasks.lightning_private import callbacks_of


@runtime_checkable
class TrainingCurves(Protocol):
    """A callback with curves, ``{"train/loss": [[step, value], ...]}``, and the number of target tokens so far."""

    curves: dict[str, list[list[float]]]
    tokens: int


def curves_of(trainer: Trainer) -> TrainingCurves | None:
    """The curves of a run, if it keeps any."""
    return next((one for one in callbacks_of(trainer) if isinstance(one, TrainingCurves)), None)


def validated(trainer: Trainer, metric: str, setting: str) -> float:
    """Returns a score of the latest validation.

    Args:
        trainer: behind a validation.
        metric: its name.
        setting: of the recipe, which names the metric.

    Raises:
        UserError: it was not measured.
    """
    if metric not in trainer.callback_metrics:
        names = ", ".join(sorted(name for name in trainer.callback_metrics if name.startswith("val/")))
        raise UserError(f"{setting}: {metric!r} is not measured; there is: {names}")
    return float(trainer.callback_metrics[metric])
