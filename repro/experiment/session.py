"""A run under way: what it is made of."""

from dataclasses import dataclass
from pathlib import Path

import lightning.pytorch as pl

from repro.experiment.build import Checkpoints, Parts, build
from repro.experiment.trainer import Stamper, make_trainer
from repro.recipe import Recipe
from repro.record import MAX_CURVE_POINTS
from repro.tasks.callbacks import Curves, Progress, StatusFile
from repro.tasks.saving import Preemption, StepCheckpoints

MODEL_FILE = "model.pt"
RECORD_FILE = "record.json"


@dataclass
class Run:
    """A run under way: its recipe, seed and folder, and the objects built from them."""

    recipe: Recipe
    seed: int
    parts: Parts
    trainer: pl.Trainer
    curves: Curves
    status: StatusFile

    @property
    def folder(self) -> Path:
        return self.recipe.run_dir(self.seed)


def prepare(recipe: Recipe, seed: int) -> Run:
    """Seeds everything and builds task, data and trainer."""
    pl.seed_everything(seed, workers=True, verbose=False)
    parts = build(recipe)
    parts.checkpoints = parts.checkpoints or Checkpoints(every_steps=1000)
    folder = recipe.run_dir(seed)
    if hasattr(parts.data, "seed"):
        parts.data.seed = seed  # type: ignore[union-attr]
    # A point for each that the record keeps, and often enough for whoever watches a long run.
    curves = Curves(every_steps=min(max(1, parts.trainer["max_steps"] // MAX_CURVE_POINTS), 50))
    progress = Progress(curves)
    status = StatusFile(folder / "status.json", curves, progress)
    keep = max(parts.checkpoints.keep, parts.checkpoints.average_last)
    saver = StepCheckpoints(folder / "checkpoints", parts.checkpoints.every_steps, keep, curves)
    around = [curves, progress, status, Stamper(recipe), saver, Preemption(saver, status)]
    trainer = make_trainer(parts.trainer, around, folder)
    return Run(recipe, seed, parts, trainer, curves, status)
