"""A run in progress and its parts."""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import lightning.pytorch as pl
import torch

from repro import mirror
from repro.code.source import Source, source
from repro.errors import UserError
from repro.events import EventLog
from repro.experiment import facts
from repro.experiment.build import Parts, build
from repro.experiment.compiling import compile_training
from repro.experiment.trainer import Stamper, make_trainer
from repro.recipe import Recipe
from repro.record import MAX_CURVE_POINTS
from repro.tasks.evaluated import EvaluatedTask
from repro.tasks.lightning_private import stand_in_trainer
from repro.tasks.optim.schedules import Plateau
from repro.training.callbacks import Curves
from repro.training.checkpoints import DurableIO
from repro.training.cpu import PackedEvaluation, keep_freed_memory
from repro.training.early_stop import EarlyStop
from repro.training.events import Heartbeat
from repro.training.finite import Finite
from repro.training.observe import Observer
from repro.training.progress import Progress
from repro.training.randomness import Randomness
from repro.training.saving import Checkpoints, StepCheckpoints
from repro.training.stop_request import StopRequest
from repro.training.stopping import Stopping
from repro.training.watchdog import Watchdog, stall_limit

MODEL_FILE = "model.pt"
STALLED_S = 5.0  # for W&B, within the time that the watchdog grants


@dataclass
class Run:
    """A run under way: its recipe, seed and folder, and the objects built from them."""

    recipe: Recipe
    seed: int
    parts: Parts
    trainer: pl.Trainer
    curves: Curves
    saver: StepCheckpoints
    events: EventLog
    watchdog: Watchdog
    stamper: Stamper
    source: Source
    early_stop: EarlyStop
    published: Mapping[str, float] = field(default_factory=dict)  # numbers by the measurement's name
    mirror: subprocess.Popen[bytes] | None = None  # W&B's, of rank 0

    @property
    def folder(self) -> Path:
        return self.recipe.run_dir(self.seed)

    @property
    def steps(self) -> int:
        """Optimiser updates of the whole run: fewer than planned once its ``stop`` rule is met."""
        return self.trainer.max_steps

    @property
    def ends_early(self) -> bool:
        """Whether a ``stop`` rule may end the run before its last planned update."""
        return self.early_stop.rule is not None

    def fail(self, message: str, limit_s: float) -> None:
        """Notes in the events why the run fails; W&B's mirror has ``limit_s`` seconds to send it."""
        self.events.fail(message, self.trainer.global_rank)
        mirror.wait(self.mirror, limit_s)


def rehearse(recipe: Recipe, ranks: int) -> None:
    """Checks a run before its job is queued: its settings, its data, and how so many ranks share them.

    The network is on the meta device, the Trainer on a CPU. A store that a run generates is read where it is here.

    Raises:
        UserError: as the run would raise before its first update.
    """
    parts = build(recipe, meta=True)
    here = {"accelerator": "cpu", "devices": 1, "num_nodes": 1, "strategy": "auto"}
    make_trainer(parts.trainer | here, [], recipe.run_dir(0), DurableIO())
    require_validation(parts)
    if not parts.data.require_store():
        return
    parts.data.setup("fit")
    micro_batches = parts.trainer.get("accumulate_grad_batches") or 1
    rank = {"world_size": ranks, "global_rank": 0, "is_global_zero": False}
    stand_in_trainer(parts.task, datamodule=parts.data, accumulate_grad_batches=micro_batches, **rank)
    parts.data.trainer = parts.task.trainer
    parts.task.setup("fit")
    parts.data.plan_epoch(0)


def require_validation(parts: Parts) -> None:
    """Refuses a recipe whose validation is needed and missing, or does not measure a metric that a setting names.

    Raises:
        UserError: names the setting.
    """
    task = parts.task
    rules = {
        "checkpoints.best": parts.checkpoints.best if parts.checkpoints else None,
        "stop.metric": parts.stop.metric if parts.stop else None,
    }
    schedule = task.schedule_maker(task.optimizer_maker([torch.nn.Parameter(torch.zeros(1))]))
    if isinstance(schedule, Plateau):
        rules["model.schedule.metric"] = schedule.metric
    interval, steps = parts.trainer.get("val_check_interval"), parts.trainer["max_steps"]
    skipped = interval is None or interval > steps or parts.trainer.get("limit_val_batches") == 0
    for key, metric in rules.items():
        if metric and skipped:
            raise UserError(
                f"{key} {metric} needs a validation: set trainer.val_check_interval, now {interval}, to at most "
                f"trainer.max_steps, {steps}, and leave trainer.limit_val_batches out"
            )
    known = task.validation_scores if isinstance(task, EvaluatedTask) else None
    for key, metric in rules.items():
        if metric and known and metric not in known:
            raise UserError(f"{key}: {metric!r} is not measured; there is: {', '.join(known)}")


def prepare(recipe: Recipe, seed: int, request: StopRequest | None = None) -> Run:
    """Seeds everything and builds task, data and trainer.

    Args:
        recipe: resolved.
        seed: of everything random.
        request: asks the run to stop.
    """
    keep_freed_memory()
    pl.seed_everything(seed, workers=True, verbose=False)
    parts = build(recipe)
    torch.set_float32_matmul_precision(parts.matmul_precision)
    if parts.compile:
        compile_training(parts.task)
    folder = recipe.run_dir(seed)
    parts.data.seed = seed
    # A point for each that the record keeps, and often enough to follow a long run.
    events = EventLog(folder)
    curves = Curves(min(max(1, parts.trainer.get("max_steps", -1) // MAX_CURVE_POINTS), 50), events)
    files = DurableIO()
    saver = StepCheckpoints(folder / "checkpoints", parts.checkpoints or Checkpoints(every_steps=1000), files)
    watchdog = Watchdog(stall_limit(), lambda message: run.fail(message, STALLED_S))
    stamper, ending = Stamper(recipe, seed), EarlyStop(parts.stop, curves)
    around = [
        PackedEvaluation(),
        watchdog,
        Finite(),
        curves,
        ending,
        *([] if parts.trainer.get("enable_progress_bar") is False else [Progress(curves)]),
        Heartbeat(events),
        stamper,
        Randomness(),
        saver,
        Observer(curves, facts.peak_bytes),
        Stopping(request or StopRequest(), saver, events),
    ]
    trainer = make_trainer(parts.trainer, around, folder, files)
    require_validation(parts)
    run = Run(recipe, seed, parts, trainer, curves, saver, events, watchdog, stamper, source(), ending)
    return run
