"""Records kept of training while it runs: curves and a status file."""

import contextlib
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from repro.errors import ReproError
from repro.record import thin, write_atomic
from repro.training.loops import at_update, validation_due
from repro.training.progress import Progress


class Curves(Callback):
    """Adds up training sums over micro-batches and ranks, logs them, and keeps every curve for the record.

    Args:
        every_steps: optimiser updates between two points of the training curves.

    Attributes:
        curves: ``{"train/loss": [[step, value], ...], "val/...": ...}``.
        tokens: target tokens trained on so far, over all ranks.
        seconds: wall time in training so far, over all restarts.
    """

    def __init__(self, every_steps: int = 10) -> None:
        self.every_steps = every_steps
        self.curves: dict[str, list[list[float]]] = {}
        self.tokens = 0
        self._began = time.monotonic()
        self._earlier_s = 0.0
        self.latest: dict[str, float] = {}
        self._lr = 0.0  # of the latest update
        self._sums: dict[str, Tensor | float] = {}
        self._since = 0.0
        self._pending: dict[str, Any] = {"sums": [], "seconds": 0.0}

    def state_dict(self) -> dict[str, Any]:
        state = {"curves": self.curves, "tokens": self.tokens, "wall_seconds": self.wall_seconds}
        return {
            **state,
            "pending": {"sums": [], "seconds": 0.0},
        }  # on_save_checkpoint asks all ranks for theirs

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.curves = state_dict["curves"]
        self.tokens = state_dict["tokens"]
        self._earlier_s = state_dict["wall_seconds"]
        self._pending = state_dict["pending"]

    def on_save_checkpoint(self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Keeps the sums since the last point, of each rank: a resumed run draws the same curves."""
        local = {name: float(value) for name, value in self._sums.items()}
        checkpoint["callbacks"][self.state_key]["pending"] = {
            "sums": pl_module.gather_objects(local),
            "seconds": time.monotonic() - self._since,
        }

    @property
    def wall_seconds(self) -> float:
        return self._earlier_s + time.monotonic() - self._began

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        pending = self._pending["sums"]
        mine = pending[trainer.global_rank :: trainer.world_size]  # one, unless the number of ranks changed
        self._sums = {
            name: torch.tensor(
                sum(sums.get(name, 0.0) for sums in mine), dtype=torch.float64, device=pl_module.device
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
        if not at_update(trainer, batch_idx):
            return
        step = trainer.global_step
        if step % self.every_steps == 0 or step == trainer.max_steps or validation_due(trainer):
            self.point(
                trainer, pl_module
            )  # before the checkpoint of this step: a resumed run does not repeat it

    def point(self, trainer: Trainer, pl_module: Any) -> None:
        """Adds up what came since the last point."""
        if not self._sums:
            return
        names = sorted(self._sums)
        double = partial(torch.as_tensor, dtype=torch.float64, device=pl_module.device)
        sums = pl_module.sum_over_ranks(torch.stack([double(self._sums[name]) for name in names])).tolist()
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
            points = self.curves.setdefault(name, [])
            if points and points[-1][0] >= step:  # a step repeated after a crash: the last value counts
                points[:] = [point for point in points if point[0] < step]
            points.append([step, value])

    def thinned(self) -> dict[str, list[list[float]]]:
        """The curves with at most 200 points each, six digits each."""
        return {
            name: [[int(step), float(f"{value:.6g}")] for step, value in thin(points)]
            for name, points in sorted(self.curves.items())
        }


class StatusFile(Callback):
    """Keeps ``status.json`` in the run folder: state, step, loss, tokens/s, seconds left, attempt, job, W&B address.

    Args:
        path: the file.
        curves: where loss and speed come from.
        progress: where the time left comes from.
        every_s: seconds between two writes.

    Attributes:
        facts: what stays the same while this process runs; written with each state.

    Raises:
        ReproError: at the run's beginning, the file cannot be written. Later, that is said once and the run goes on.
    """

    def __init__(self, path: Path, curves: Curves, progress: Progress, every_s: float = 10.0) -> None:
        self.path = path
        self.curves = curves
        self.progress = progress
        self.every_s = every_s
        self.facts: dict[str, Any] = {}
        self._written = 0.0
        self._said = False
        self._began = float(os.environ.get("REPRO_BEGAN") or 0)  # the job, seconds since 1970; 0 outside one

    def begin(self, resumed_from: int) -> None:
        """Counts this start of the run and writes it to the file."""
        earlier = read_status(self.path)
        self.facts = {
            "attempt": int(earlier.get("attempt", 0)) + 1,
            "resumed_from": resumed_from,
            "job": slurm_job(),
            "wandb_url": None,
        }
        self._write("starting", step=resumed_from)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: object, batch: object, batch_idx: int
    ) -> None:
        if trainer.global_step > self.facts.get("resumed_from", 0):
            self._note_startup()
            self._began = 0
        if trainer.is_global_zero and time.monotonic() - self._written > self.every_s:
            seconds = self.progress.seconds_left(trainer.global_step, trainer.max_steps)
            self.write(
                "training", step=trainer.global_step, max_steps=trainer.max_steps, seconds_left=round(seconds)
            )

    def write(self, state: str, **values: object) -> None:
        """Writes the state with the latest figures; where that fails, says so on stderr, once."""
        try:
            self._write(state, **values)
        except ReproError as error:
            if not self._said:
                self._said = True
                with contextlib.suppress(OSError):  # stderr may be a file on the same disk
                    print(f"the status is not up to date, the run goes on: {error}", file=sys.stderr)

    def _write(self, state: str, **values: object) -> None:
        if state in ("starting", "requeue"):
            self._note_startup()
        self._written = time.monotonic()
        body = {**self.facts, "tokens": self.curves.tokens, **self.curves.latest, **values}
        self._put(state, body)

    def _note_startup(self) -> None:
        """Keeps how long this attempt has taken so far without a step."""
        if self._began:
            self.facts["startup_s"] = round(time.time() - self._began)

    def fail(self, message: str) -> None:
        """Writes why the run failed; any rank may. The first message is kept, as it is nearest to the cause."""
        status = read_status(self.path)
        if status.get("state") != "failed":
            self._put("failed", {**status, "message": " ".join(message.split())[:500]})

    def _put(self, state: str, body: dict[str, Any]) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {**body, "state": state, "updated": now}
        write_atomic(self.path, (json.dumps(body, indent=1) + "\n").encode())


def read_status(path: Path) -> dict[str, Any]:
    """The content of a status file; empty where there is none or it cannot be read."""
    try:
        status = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) else {}


def slurm_job() -> str | None:
    """The Slurm job of this process, ``<array>_<task>`` or a plain id; None outside Slurm."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")
