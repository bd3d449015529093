"""Logged values besides the curves: norms, waiting for data, memory."""

import time
from collections.abc import Callable

from lightning.pytorch import Callback, LightningModule, Trainer
from torch.nn.utils import get_total_norm

from repro.training.callbacks import Curves
from repro.training.loops import at_update

GIB = 1 << 30


class Observer(Callback):
    """Logs the progress of training at the points of the curves; the record has none of it.

    ``train/grad_norm`` (of the whole update, before clipping) and ``train/param_norm`` (of what is trained, before the
    update); ``train/data_wait``, the share of the time in which a batch was waited for; ``train/peak_memory_gib`` of
    the first rank.

    Only the first rank measures, and only with a logger; updates between two points only read the clock.
    No random number is drawn and no number of the training is touched. It stands behind callbacks that take time,
    and before those that end a run.

    Args:
        curves: the curves that define the points.
        peak_bytes: the most memory in use at once so far.
    """

    def __init__(self, curves: Curves, peak_bytes: Callable[[], int]) -> None:
        self.curves = curves
        self.peak_bytes = peak_bytes
        self._norms: dict[str, float] = {}
        self._seen = curves.latest
        self._since = self._ended = self._waited = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()  # evaluation is neither training nor waiting

    def _begin(self) -> None:
        self._since = self._ended = time.monotonic()
        self._waited = 0.0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._waited += time.monotonic() - self._ended

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Computes norms of the gradients, unscaled and not clipped; they are the same on every rank."""
        if looks(trainer) and self.curves.is_due(trainer, trainer.global_step + 1):
            trained = [p for p in pl_module.parameters() if p.requires_grad]
            grads = [p.grad for p in trained if p.grad is not None]
            self._norms = {
                "train/grad_norm": float(get_total_norm(grads)),
                "train/param_norm": float(get_total_norm([p.detach() for p in trained])),
            }

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if at_update(trainer, batch_idx) and self.curves.latest is not self._seen:
            self._seen = self.curves.latest
            if looks(trainer):
                self._log(trainer)
            self._begin()
        self._ended = time.monotonic()

    def _log(self, trainer: Trainer) -> None:
        elapsed = time.monotonic() - self._since
        values = {
            **self._norms,
            "train/data_wait": self._waited / elapsed if elapsed else 0.0,
            "train/peak_memory_gib": self.peak_bytes() / GIB,
        }
        self._norms = {}
        for logger in trainer.loggers:
            logger.log_metrics(values, step=trainer.global_step)


def looks(trainer: Trainer) -> bool:
    """Whether this process logs."""
    return trainer.is_global_zero and bool(trainer.loggers)
