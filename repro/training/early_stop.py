"""Ending training early, by a validation metric: it is good enough, or no longer improves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lightning.pytorch import Callback, LightningModule, Trainer

from repro.tasks.curves import validated
from repro.tasks.lightning_private import end_at
from repro.training.callbacks import Curves


@dataclass
class StopRule:
    """The recipe's ``stop`` section; ``trainer.max_steps`` bounds a training that never meets it.

    Training ends where the metric is good enough (``at_least``), or where it no longer improves (``patience``).

    Args:
        metric: a validation metric; more is better with ``at_least``, less with ``patience``.
        at_least: the value that is good enough.
        validations: how many validations in a row must reach it.
        patience: validations in a row without a new smallest value.

    Raises:
        ValueError: not exactly one of ``at_least`` and ``patience``, a number of validations below 1, or several beside
            ``patience``.

    Source of ``patience``: fairseq, ``should_stop_early``.
    """

    metric: str
    at_least: float | None = None
    validations: int = 1
    patience: int | None = None

    def __post_init__(self) -> None:
        if (self.at_least is None) == (self.patience is None):
            raise ValueError("stop needs one of at_least and patience")
        if self.patience is not None and self.validations != 1:
            raise ValueError(
                f"stop.validations {self.validations} goes with at_least; leave it out beside patience"
            )
        for name, value in (("validations", self.validations), ("patience", self.patience)):
            if value is not None and value < 1:
                raise ValueError(f"stop.{name} must be at least 1, not {value}")

    def is_met(self, values: Sequence[float]) -> bool:
        """Whether training ends after these validations, oldest first."""
        if self.patience is not None:
            finite = [value if math.isfinite(value) else math.inf for value in values]
            best = min(range(len(finite)), key=finite.__getitem__, default=0)  # the first of equal values
            return len(values) - 1 - best >= self.patience
        least, latest = self.at_least, values[-self.validations :]
        return least is not None and len(latest) == self.validations and all(one >= least for one in latest)


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
    def is_met(self) -> bool:
        """Whether the latest validations meet the rule."""
        if self.rule is None:
            return False
        return self.rule.is_met([value for _, value in self.curves.curves.get(self.rule.metric, [])])

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.rule is None or trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        validated(trainer, self.rule.metric, "stop.metric")
        if self.is_met:
            end_at(trainer, trainer.global_step)
