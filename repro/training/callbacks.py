"""The curves of training."""

import time
from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from repro import events
from repro.errors import ReproError
from repro.events import EventLog
from repro.record import CurvePoint, thin
from repro.tasks.ranks import gather_objects, sum_over_ranks
from repro.training.loops import at_update, validation_due


class Curves(Callback):
    """Adds up training sums over micro-batches and ranks, logs them, and keeps every curve for the record.

    Args:
        every_steps: optimiser updates between two points of the training curves.
        log: the run's events, which hold the curves; a checkpoint holds how long their file was.

    Attributes:
        curves: ``{"train/loss": [[step, value], ...], "val/...": ...}``.
        source: the events that a loaded checkpoint belongs to: of this run, or of one that it continues.
        validated_again: the step of another run's checkpoint, if this run makes its validation again.
        known: the lines of it that the checkpoint knew.
        tokens: target tokens trained on so far, over all ranks.
        seconds: wall time in training so far, over all restarts.
    """

    def __init__(self, every_steps: int = 10, log: EventLog | None = None) -> None:
        self.every_steps = every_steps
        self.events = log  # `log` is a name of Lightning's
        self.source = None if log is None else log.path
        self.validated_again: int | None = None
        self.known = b""
        self.curves: events.Curves = {}
        self.tokens = 0
        self._began = time.monotonic()
        self._earlier_s = 0.0
        self.latest: dict[str, float] = {}
        self._lr = 0.0  # of the latest update
        self._sums: dict[str, Tensor | float] = {}
        self._since = 0.0
        self._pending: dict[str, Any] = {"sums": [], "seconds": 0.0}

    def state_dict(self) -> dict[str, Any]:
        pending = {"sums": [], "seconds": 0.0}  # on_save_checkpoint gathers those of all ranks
        return {"events": 0, "tokens": self.tokens, "wall_seconds": self.wall_seconds, "pending": pending}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if "curves" in state_dict:  # of a version before there were events
            self.known = events.from_curves(state_dict["curves"])
        elif self.events is not None and self.source is not None:
            self.known = events.prefix(self.source, state_dict["events"])
            if self.source != self.events.path:
                self.known = events.only_metrics(self.known, self.validated_again)
        self.curves = events.curves(events.decode(self.known))
        self.tokens = state_dict["tokens"]
        self._earlier_s = state_dict["wall_seconds"]
        self._pending = state_dict["pending"]

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Keeps the sums since the last point, of each rank, and the place in the events."""
        local = {name: float(value) for name, value in self._sums.items()}
        state = checkpoint["callbacks"][self.state_key]
        state["pending"] = {"sums": gather_objects(local), "seconds": time.monotonic() - self._since}
        if self.events is not None:
            failure = ""
            try:
                if trainer.is_global_zero:
                    self.events.sync()
            except ReproError as error:
                failure = str(error)
            if trainer.strategy.reduce_boolean_decision(bool(failure), all=False):
                raise ReproError(failure or "rank 0 could not write the run's events")
            state["events"] = self.events.size

    @property
    def wall_seconds(self) -> float:
        return self._earlier_s + time.monotonic() - self._began

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        pending = self._pending["sums"]
        own = pending[trainer.global_rank :: trainer.world_size]  # one, unless the number of ranks changed
        self._sums = {
            name: torch.tensor(
                sum(sums.get(name, 0.0) for sums in own), dtype=torch.float64, device=pl_module.device
            )
            for name in sorted({name for sums in pending for name in sums})  # the same names on every rank
        }
        self._since = time.monotonic() - self._pending["seconds"]

    def on_before_optimizer_step(
        self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer
    ) -> None:
        self._lr = optimizer.param_groups[0]["lr"]  # the schedule moves on before the batch ends

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: object, batch_idx: int
    ) -> None:
        for name, value in outputs["sums"].items():
            value = value.double() if isinstance(value, Tensor) else value
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        if at_update(trainer, batch_idx) and self.is_due(trainer, trainer.global_step):
            # before the checkpoint of this step: a resumed run does not repeat it
            self.point(trainer, pl_module)

    def is_due(self, trainer: Trainer, step: int) -> bool:
        """Whether an update ends in a point of the curves."""
        return step % self.every_steps == 0 or step == trainer.max_steps or validation_due(trainer, step)

    def point(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Adds up what came since the last point."""
        if not self._sums:
            return
        names = sorted(self._sums)
        double = partial(torch.as_tensor, dtype=torch.float64, device=pl_module.device)
        sums = sum_over_ranks(torch.stack([double(self._sums[name]) for name in names])).tolist()
        totals = dict(zip(names, sums, strict=True))
        self._sums = {}
        now = time.monotonic()
        elapsed, self._since = now - self._since, now
        tokens = totals.pop("tokens")
        self.tokens += round(tokens)
        # Sums over no targets stay 0.
        self.latest = {f"train/{name}": value / (tokens or 1) for name, value in totals.items()}
        self.latest["train/tokens_per_s"] = tokens / elapsed
        self.latest["train/lr"] = self._lr
        self._keep(trainer.global_step, self.latest)
        for logger in trainer.loggers:
            logger.log_metrics({**self.latest, "trainer/tokens": self.tokens}, step=trainer.global_step)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._since = time.monotonic()  # evaluation does not slow training down
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        scores = {k: float(v) for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
        self._keep(trainer.global_step, scores)

    def _keep(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self.curves.setdefault(name, []).append([step, value])

    def thinned(self) -> dict[str, list[CurvePoint]]:
        """The curves with at most 200 points each, six digits each."""
        return {
            name: [(int(step), float(f"{value:.6g}")) for step, value in thin(points)]
            for name, points in sorted(self.curves.items())
        }
