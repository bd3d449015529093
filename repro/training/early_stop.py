"""Ending training early, where a validation metric has been good enough often enough."""

from dataclasses import dataclass

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.tasks.lightning_private import end_at
from repro.training.callbacks import Curves
from repro.training.loops import validated


@dataclass
class StopRule:
    """The recipe's ``stop`` section; ``trainer.max_steps`` bounds a training that never meets it.

    Args:
        metric: a validation metric where more is better, like ``val/accuracy``.
        at_least: the value that is good enough.
        validations: how many validations in a row must reach it.

    Raises:
        ValueError: fewer than one validation.
    """

    metric: str
    at_least: float
    validations: int = 1

    def __post_init__(self) -> None:
        if self.validations < 1:
            raise ValueError(f"stop.validations must be at least 1, not {self.validations}")


class EarlyStop(Callback):
    """Makes the update of the validation that meets the rule the run's last.

    It reads the kept curves and has no state of its own. Callbacks that act on the last update come after it.

    Args:
        rule: when to end; None never does.
        curves: in which validations are kept.

    Raises:
        ReproError: the metric is not measured.
    """

    def __init__(self, rule: StopRule | None, curves: Curves) -> None:
        self.rule = rule
        self.curves = curves

    @property
    def met(self) -> bool:
        """Whether the latest validations meet the rule."""
        if self.rule is None:
            return False
        latest = self.curves.curves.get(self.rule.metric, [])[-self.rule.validations :]
        return len(latest) == self.rule.validations and all(
            value >= self.rule.at_least for _, value in latest
        )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.rule is None or trainer.state.fn != "fit":
            return
        validated(trainer, self.rule.metric, "stop.metric")
        if self.met:
            end_at(trainer, trainer.global_step)
