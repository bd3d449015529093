"""Logged values besides the curves: norms, speed against the hardware's, waiting for data, memory."""

import time
from collections.abc import Callable
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.nn.utils import get_total_norm

from repro.tasks.costs.flops import FlopCounter, peak_flops
from repro.training.callbacks import Curves
from repro.training.loops import at_update

PASSES = 3  # a forward pass, and a backward pass that takes twice as much
GIB = 1 << 30


class Observer(Callback):
    """Logs the progress of training at the points of the curves; the record has none of it.

    ``train/grad_norm`` (of the whole update, before clipping) and ``train/param_norm`` (of what is trained, before the
    update); ``train/tokens_per_s_per_device``; ``train/model_flops_per_s`` over all devices, and ``train/mfu``, its
    share of what they can do at most, where that is known; ``train/data_wait``, the share of the time in which a batch
    was waited for; ``train/peak_memory_gib`` of the first rank.

    Model FLOPs are three times those of the forward pass of the first micro-batch of the run, by target token.
    Only the first rank measures, and only with a logger; updates between two points only read the clock.
    No random number is drawn and no number of the training is touched. It stands behind callbacks that take time,
    and before those that end a run.

    Args:
        curves: the curves that define the points.
        peak_bytes: the most memory in use at once so far.

    Attributes:
        flops_per_token: None before they are known.

    Source: model FLOPs utilisation is that of Chowdhery et al. 2022, appendix B.
    Deviation: FLOPs are counted as they are computed, not by a formula from the number of parameters.
    """

    def __init__(self, curves: Curves, peak_bytes: Callable[[], int]) -> None:
        self.curves = curves
        self.peak_bytes = peak_bytes
        self.flops_per_token: float | None = None
        self._counter: FlopCounter | None = None
        self._forward = 0  # FLOPs of the micro-batch under way
        self._norms: dict[str, float] = {}
        self._seen = curves.latest
        self._since = self._ended = self._waited = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"flops_per_token": self.flops_per_token}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """A resumed run continues the counts: while it counts, compiled layers run eagerly, with other rounding."""
        self.flops_per_token = state_dict["flops_per_token"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin()  # evaluation is neither training nor waiting

    def _begin(self) -> None:
        self._since = self._ended = time.monotonic()
        self._waited = 0.0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._waited += time.monotonic() - self._ended
        if self.flops_per_token is None and looks(trainer):
            self._counter = FlopCounter()
            self._counter.__enter__()  # until the backward pass begins

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        self._stop_counting()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop_counting()

    def _stop_counting(self) -> None:
        counter, self._counter = self._counter, None
        if counter is not None:
            counter.__exit__(None, None, None)
            self._forward = counter.total

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
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: object, batch_idx: int
    ) -> None:
        self._stop_counting()
        if self._forward:
            tokens = float(outputs["sums"]["tokens"])
            self.flops_per_token = PASSES * self._forward / tokens if tokens else None
            self._forward = 0
        if at_update(trainer, batch_idx) and self.curves.latest is not self._seen:
            self._seen = self.curves.latest
            if looks(trainer):
                self._log(trainer)
            self._begin()
        self._ended = time.monotonic()

    def _log(self, trainer: Trainer) -> None:
        speed = self._seen["train/tokens_per_s"]
        values = {**self._norms, "train/tokens_per_s_per_device": speed / trainer.world_size}
        if self.flops_per_token is not None:
            values["train/model_flops_per_s"] = speed * self.flops_per_token
            most = peak_of(trainer)
            if most is not None:
                values["train/mfu"] = values["train/model_flops_per_s"] / most
        elapsed = time.monotonic() - self._since
        values["train/data_wait"] = self._waited / elapsed if elapsed else 0.0
        values["train/peak_memory_gib"] = self.peak_bytes() / GIB
        self._norms = {}
        for logger in trainer.loggers:
            logger.log_metrics(values, step=trainer.global_step)


def looks(trainer: Trainer) -> bool:
    """Whether this process logs."""
    return trainer.is_global_zero and bool(trainer.loggers)


def peak_of(trainer: Trainer) -> float | None:
    """The peak of all devices of a run, in floating-point operations a second; None where not known."""
    device = trainer.strategy.root_device
    if device.type != "cuda":
        return None
    tf32 = torch.get_float32_matmul_precision() != "highest"
    most = peak_flops(torch.cuda.get_device_name(device), str(trainer.precision), tf32)
    return None if most is None else most * trainer.world_size
