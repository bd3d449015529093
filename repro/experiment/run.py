"""Runs one experiment with one seed: fit (or resume), average, test, record."""

import contextlib
import fcntl
import hashlib
import logging
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import yaml
from lightning.pytorch.plugins.environments import SLURMEnvironment

from repro import tracking
from repro.errors import Preempted, ReproError, UserError
from repro.experiment import checkpoint, facts
from repro.experiment.build import Checkpoints, Parts, build
from repro.paths import results_dir
from repro.recipe import Recipe, signature_hash
from repro.record import RunRecord, write_atomic, write_record
from repro.tasks.callbacks import Curves, Progress, StatusFile
from repro.tasks.saving import Preemption, StepCheckpoints, checkpoints

MODEL_FILE = "model.pt"
RECORD_FILE = "record.json"
# Warnings of Lightning and torch about things that are meant to be so.
HARMLESS = (
    ".*does not have many workers.*",
    ".*`srun` command is available.*",
    ".*LeafSpec.*",
    ".*isinstance.treespec.*",
    ".*litlogger.*",
    ".*lr_scheduler.step.*",
    ".*dataloader.*",
    ".*smaller than the logging interval.*",
)


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


def run(recipe: Recipe, seed: int, command: str) -> RunRecord:
    """Trains, tests and records; a run that was interrupted goes on, one that is done is only read.

    Args:
        recipe: resolved, overrides included.
        seed: of everything random.
        command: as typed, for the record.

    Raises:
        UserError: a recipe that cannot be built, a missing store, a folder in use or not writable.
    """
    folder = recipe.run_dir(seed)
    done = finished_record(folder)
    if done is not None:
        return done
    quiet()
    with claimed(folder):
        began = time.monotonic()
        current = prepare(recipe, seed)
        if current.trainer.is_global_zero:
            text = yaml.safe_dump(recipe.config, sort_keys=False, allow_unicode=True)
            write_atomic(folder / "config.yaml", text.encode())
        logger = tracking.logger(recipe, seed, folder) if current.trainer.is_global_zero else None
        current.trainer.loggers = [logger] if logger is not None else []
        try:
            fit(current)
            digest = test(current)
            return record(current, command, digest, time.monotonic() - began, logger)
        except Preempted:
            tracking.finish(logger)
            raise
        except SystemExit as stop:  # what Lightning makes of Ctrl-C
            raise KeyboardInterrupt from stop
        except BaseException:
            if current.trainer.is_global_zero:
                with contextlib.suppress(ReproError):
                    current.status.write("failed", step=current.trainer.global_step)
            raise


def prepare(recipe: Recipe, seed: int) -> Run:
    """Seeds everything and builds task, data and trainer."""
    pl.seed_everything(seed, workers=True, verbose=False)
    parts = build(recipe)
    parts.checkpoints = parts.checkpoints or Checkpoints(every_steps=1000)
    folder = recipe.run_dir(seed)
    if hasattr(parts.data, "seed"):
        parts.data.seed = seed  # type: ignore[union-attr]
    curves = Curves(every_steps=max(1, parts.trainer["max_steps"] // 200))
    progress = Progress(curves)
    status = StatusFile(folder / "status.json", curves, progress)
    keep = max(parts.checkpoints.keep, parts.checkpoints.average_last)
    saver = StepCheckpoints(folder / "checkpoints", parts.checkpoints.every_steps, keep, curves)
    around = [curves, progress, status, Stamper(recipe), saver, Preemption(saver, status)]
    trainer = make_trainer(parts.trainer, around, folder)
    return Run(recipe, seed, parts, trainer, curves, status)


def make_trainer(arguments: dict[str, Any], callbacks: list[pl.Callback], folder: Path) -> pl.Trainer:
    """A Trainer whose validation interval counts optimiser updates and that shards nothing by itself."""
    given = dict(arguments)
    if given.get("max_steps", -1) < 1:
        raise UserError("trainer.max_steps must be a positive number of optimiser updates")
    given["callbacks"] = [*(given.get("callbacks") or []), *callbacks]
    if isinstance(given.get("val_check_interval"), int):
        given["val_check_interval"] *= given.get("accumulate_grad_batches") or 1
    if (
        SLURMEnvironment.detect()
    ):  # Lightning's own requeue saves inside the signal handler, and can hang there
        given["plugins"] = [*(given.get("plugins") or []), SLURMEnvironment(auto_requeue=False)]
    given |= {
        "check_val_every_n_epoch": None, "use_distributed_sampler": False, "num_sanity_val_steps": 0,
        "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "default_root_dir": str(folder),
    }  # fmt: skip
    try:
        return pl.Trainer(**given)
    except (ValueError, RuntimeError) as error:
        raise UserError(f"trainer: {str(error).splitlines()[0]}") from error


class Stamper(pl.Callback):
    """Writes the run's signature and its vocabulary's hash into every checkpoint."""

    def __init__(self, recipe: Recipe) -> None:
        self.signature = recipe.signature

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint_: dict[str, Any]
    ) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        checkpoint_[checkpoint.STAMP] = checkpoint.stamp(self.signature, vocabulary_hash(data))


def vocabulary_hash(data: Any) -> str | None:
    """SHA-256 of the tokeniser a datamodule uses, or None where it has none."""
    tokenizer = getattr(data, "tokenizer", None)
    return None if tokenizer is None else str(tokenizer.sha256)


def fit(current: Run) -> None:
    """Trains to the last step, from the newest checkpoint where there is one."""
    found = checkpoints(current.folder / "checkpoints")
    resume = found[-1] if found else None
    current.parts.data.prepare_data()  # type: ignore[union-attr]
    current.parts.data.setup("fit")  # type: ignore[union-attr]
    if resume is not None:
        loaded = checkpoint.read(resume)
        data_hash = vocabulary_hash(current.parts.data)
        checkpoint.check_stamp(resume, loaded, current.recipe.signature, data_hash)
        print(f"resuming from step {loaded['global_step']}")
        if loaded["global_step"] >= current.trainer.max_steps:
            current.curves.load_state_dict(loaded["callbacks"][current.curves.state_key])
            return
    current.trainer.fit(
        current.parts.task, datamodule=current.parts.data, ckpt_path=resume, weights_only=True
    )


def test(current: Run) -> str | None:
    """Averages the last checkpoints, writes the final model, tests it; returns the model file's SHA-256."""
    assert current.parts.checkpoints is not None
    last = checkpoints(current.folder / "checkpoints")[-current.parts.checkpoints.average_last :]
    weights = checkpoint.average(last)
    current.parts.task.load_state_dict(weights)
    digest = None
    if current.trainer.is_global_zero:
        current.status.write("testing", step=current.trainer.max_steps)
        data = current.parts.data
        tokenizer = getattr(data, "tokenizer", None)
        if tokenizer is not None:
            tokenizer.save(current.folder / f"tokenizer{tokenizer.suffix}")
        mark = checkpoint.stamp(current.recipe.signature, vocabulary_hash(data))
        digest = checkpoint.write_model(current.folder / MODEL_FILE, weights, current.recipe.config, mark)
    current.trainer.test(current.parts.task, datamodule=current.parts.data, verbose=False)
    return digest


def record(current: Run, command: str, digest: str | None, wall: float, logger: Any) -> RunRecord:
    """Assembles the record of a run that was just tested; rank 0 writes it, last."""
    task, data, trainer = current.parts.task, current.parts.data, current.trainer
    outputs = task.outputs()
    head, dirty = facts.commit()
    cards = trainer.num_devices * trainer.num_nodes if torch.cuda.is_available() else 0
    made = RunRecord(
        experiment=current.recipe.experiment,
        scale=current.recipe.scale,
        seed=current.seed,
        run_id=current.recipe.run_id(current.seed),
        command=command,
        config=current.recipe.config,
        config_hash=signature_hash(current.recipe.signature),
        commit=head,
        dirty=dirty,
        versions=facts.versions(),
        hardware=facts.hardware(trainer.num_devices, trainer.num_nodes),
        precision=str(trainer.precision),
        data={"name": data.store_name, "manifest_sha256": data.manifest_sha256, "counts": data.counts},  # type: ignore[union-attr]
        parameters=sum(p.numel() for p in task.parameters()),
        steps=trainer.max_steps,
        tokens=current.curves.tokens,
        wall_seconds=round(wall, 1),
        gpu_hours=round(current.curves.seconds / 3600 * cards, 4),
        peak_bytes=facts.peak_bytes(),
        metrics=task.measurements(),
        curves=current.curves.thinned(),
        checkpoint_sha256=digest,
        outputs_sha256=sha256_text(outputs),
        finished=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        wandb_url=None,
        deviations=list(current.recipe.config.get("deviations") or []),
    )
    if trainer.is_global_zero:
        made.wandb_url = close_tracking(logger, made, task)
        write_record(made, results_dir() / "runs", outputs)
        write_atomic(current.folder / RECORD_FILE, (made.to_json() + "\n").encode())
        current.status.write("done", step=trainer.max_steps)
    return made


def close_tracking(logger: Any, made: RunRecord, task: Any) -> str | None:
    """Puts final metrics and sample translations on W&B; returns the run's address."""
    if logger is None:
        return None
    with contextlib.suppress(Exception):
        logger.log_metrics({m.name: m.value for m in made.metrics}, step=made.steps)
        columns, rows = task.samples()
        logger.log_table("samples", columns=columns, data=rows)
    return tracking.finish(logger)


def sha256_text(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def finished_record(folder: Path) -> RunRecord | None:
    """The record of a run that is done, or None."""
    path = folder / RECORD_FILE
    return RunRecord.from_json(path.read_text(encoding="utf-8"), str(path)) if path.exists() else None


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Holds a run's folder: two processes never write one run. Ranks of one job share their leader's claim."""
    if int(os.environ.get("LOCAL_RANK") or os.environ.get("SLURM_PROCID") or 0) > 0:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / ".lock", "w")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror}; set REPRO_RUNS to a folder you can write to"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError(
                f"{folder} is being run by another process; wait for it, or use another seed"
            ) from None
        yield


def quiet() -> None:
    """Keeps Lightning's tips and known-harmless warnings out of the terminal."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for pattern in HARMLESS:
        warnings.filterwarnings("ignore", pattern)
