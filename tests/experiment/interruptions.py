"""Runs one experiment to its end or to an interruption: what forks.py asks of a rank for test_resume.py and others."""

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import lightning.pytorch as pl

from repro.experiment import run as run_module
from repro.experiment import session
from repro.recipe import load_recipe
from repro.training import checkpoints
from tests.workshop import BITS, COMPILED, STICKY, STREAM, TALK, TINY

EPOCH = 7  # updates in an epoch of the recipes below
SETTINGS = {
    "trainer.max_steps": 17, "trainer.val_check_interval": 4, "trainer.accumulate_grad_batches": 2,
    "checkpoints.every_steps": 3,
}  # fmt: skip
# The recipes of tests/workshop.py, and what each needs for that length of an epoch.
RECIPES: dict[str, dict[str, Any]] = {
    TINY: {"data.batch_tokens": 1200, "data.eval_batch_tokens": 200},
    STREAM: {},
    COMPILED: {},
    STICKY: {},
    TALK: {},
    BITS: {},
}
POINTS = (
    "before the first step", "after the first step", "in mid-epoch", "in the last batch of an epoch",
    "at the end of an epoch", "in mid-accumulation", "during validation", "during a save",
)  # fmt: skip


def settings(experiment: str, ranks: int, workers: int) -> list[tuple[str, Any]]:
    """Overrides of a recipe: dropout stays on."""
    devices = {"trainer.devices": ranks, "data.num_workers": workers}
    return list(
        (
            SETTINGS | RECIPES[experiment] | devices | ({"trainer.strategy": "ddp"} if ranks > 1 else {})
        ).items()
    )


class Interrupt(pl.Callback):
    """Sends this process signals at a point of training, and writes down which examples came in which step."""

    def __init__(self, point: str, signals: list[str], order: Path) -> None:
        self.point = point
        self.signals = signals
        self.order = order

    def at(self, point: str, when: bool = True) -> None:
        if when and point == self.point:
            for name in self.signals:
                os.kill(os.getpid(), getattr(signal, name))

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        self.at("before the first step")

    def on_train_batch_start(self, trainer: pl.Trainer, task: Any, batch: Any, batch_idx: int) -> None:
        place = [trainer.global_step, trainer.global_rank, batch_idx % 2]
        with self.order.open("a") as file:
            which = batch.ids.tolist() if hasattr(batch, "ids") else batch.indices.tolist()
            file.write(json.dumps([place, which]) + "\n")
        self.at("in mid-epoch", trainer.global_step == EPOCH + 3)
        self.at("in the last batch of an epoch", trainer.global_step == EPOCH - 1 and batch_idx % 2 == 1)
        self.at("step 8", trainer.global_step == 8)
        self.at("step 10", trainer.global_step == 10)

    def on_train_batch_end(
        self, trainer: pl.Trainer, task: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.at("after the first step", trainer.global_step == 1 and batch_idx % 2 == 1)
        self.at("in mid-accumulation", trainer.global_step == 4 and batch_idx % 2 == 0)
        self.at("step 12", trainer.global_step == 12 and batch_idx % 2 == 1)

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.at("at the end of an epoch", trainer.current_epoch == 0)

    def on_validation_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.at("during validation", trainer.global_step == 8)

    def on_test_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.at("during the test")


class Poison(pl.Callback):
    """Makes the output of a mixer NaN in one step, or the gradient of one of its parameters infinite."""

    def __init__(self, module: str, step: int, what: str) -> None:
        self.module = module
        self.step = step
        self.what = what

    def on_train_start(self, trainer: pl.Trainer, task: pl.LightningModule) -> None:
        def spoil(module: Any, given: Any, output: Any) -> Any:
            return output._replace(y=output.y * float("nan")) if trainer.global_step == self.step else None

        def spoil_gradient(gradient: Any) -> Any:
            return gradient * float("inf") if trainer.global_step == self.step else None

        chosen = task.get_submodule(self.module)
        if self.what == "output":
            chosen.register_forward_hook(spoil)
        else:
            next(chosen.parameters()).register_hook(spoil_gradient)


def main(asked: dict[str, Any], rank: int) -> None:
    """One rank of one attempt, as :meth:`tests.experiment.runner.Runner.attempt` describes it."""
    mine = asked["only"] in (None, rank)
    signals = asked["signals"] if mine else []
    tell = Interrupt(asked["point"], signals, Path(asked["env"]["REPRO_RUNS"]) / "order.jsonl")
    more = [tell, *([Poison(*asked["poison"])] if asked["poison"] and mine else [])]
    session.MAX_CURVE_POINTS = 4  # so that points of the curves lie between interruptions
    make, sync = session.make_trainer, os.fsync
    session.make_trainer = lambda given, calls, *rest: make(given, [*calls, *more], *rest)

    def fsync(
        descriptor: int,
    ) -> None:  # the first file of the save at step 6: its bytes are there, its name is not
        tell.at("during a save", "step-00000006" in os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    checkpoints.os.fsync = fsync  # type: ignore[attr-defined]
    digest = hashlib.file_digest

    def verified(file: Any, name: str) -> Any:
        with (Path(asked["env"]["REPRO_RUNS"]) / "verified.jsonl").open("a") as log:
            log.write(json.dumps([rank, Path(file.name).name]) + "\n")
        return digest(file, name)

    checkpoints.hashlib.file_digest = verified  # type: ignore[attr-defined]
    if asked["env"].get("OTHER_CODE") == str(rank):
        run_module.made_by = lambda facts: {"code": "other"}
    experiment = asked["experiment"]
    given = settings(experiment, asked["ranks"], asked["workers"])
    run_module.run(load_recipe(experiment, "cpu", given), 1, "repro run")
