"""A run's events as a logger of Lightning's, and its signs of life."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers.logger import Logger

from repro.events import EventLog

HEARTBEAT_S = 30.0


class EventLogger(Logger):
    """Writes each logged row as an event, whose kind is the prefix of its names; for rank 0.

    Args:
        events: the run's.
        step: gives the number of updates so far. Lightning's own is one too small in a validation.
        others: loggers that are given each row, too, and save it at once.
    """

    name, version = "events", ""

    def __init__(self, events: EventLog, step: Callable[[], int], others: Sequence[Logger] = ()) -> None:
        super().__init__()
        self.events = events
        self.step = step
        self.others = others

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        row = {name: value.item() if hasattr(value, "item") else value for name, value in metrics.items()}
        kind = next((name.partition("/")[0] for name in row if name != "trainer/tokens"), "train")
        self.events.append(kind, self.step(), row)
        for other in self.others:
            other.log_metrics(row, self.step())
            other.save()

    def finalize(self, status: str) -> None:
        for other in self.others:
            other.finalize(status)

    def log_hyperparams(self, params: object, *_: object, **__: object) -> None:
        """Does nothing: the run's first event and ``config.yaml`` hold the configuration."""


class Heartbeat(Callback):
    """Writes that the run trains at its first update, then whenever nothing else was written for a while.

    Args:
        events: the run's.
        every_s: seconds without an event.
    """

    def __init__(self, events: EventLog, every_s: float = HEARTBEAT_S) -> None:
        self.events = events
        self.every_s = every_s
        self._last_step: int | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last_step = trainer.global_step

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        first = self._last_step is not None and trainer.global_step > self._last_step
        self._beat(trainer, "training", first)
        if first:
            self._last_step = None

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._beat(trainer, "training")

    def on_test_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._beat(trainer, "testing")

    def _beat(self, trainer: Trainer, state: str, now: bool = False) -> None:
        if trainer.is_global_zero and (now or time.monotonic() - self.events.written > self.every_s):
            self.events.append("state", trainer.global_step, {"state": state})
