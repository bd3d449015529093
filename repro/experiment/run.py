"""Runs one experiment with one seed: fit (or resume), average, test, record."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from repro import tracking
from repro.errors import Preempted, ReproError, UserError
from repro.experiment import checkpoint
from repro.experiment.recording import record
from repro.experiment.session import MODEL_FILE, RECORD_FILE, Run, prepare
from repro.experiment.trainer import quiet, vocabulary_hash
from repro.recipe import Recipe
from repro.record import RunRecord, write_atomic
from repro.tasks.saving import checkpoint_path, checkpoints


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
        current = prepare(recipe, seed)
        resume = ready(current)
        logger = None
        if current.trainer.is_global_zero:
            text = yaml.safe_dump(recipe.config, sort_keys=False, allow_unicode=True)
            write_atomic(folder / "config.yaml", text.encode())
            logger = tracking.logger(recipe, seed, folder)
        current.trainer.loggers = [logger] if logger is not None else []
        with reported(current, logger):
            fit(current, resume)
            digest = test(current)
            return record(current, command, digest, logger)


def ready(current: Run) -> Path | None:
    """Opens and checks the data, and the newest checkpoint where there is one; writes nothing.

    Returns:
        The checkpoint to go on from, or None. Curves of a run that is trained but not tested are restored here,
        since nothing is left to train.

    Raises:
        UserError: a missing or corrupt store, a damaged checkpoint or one of another run.
    """
    data: Any = current.parts.data
    data.prepare_data()
    data.setup("fit")
    found = checkpoints(current.folder / "checkpoints")
    if not found:
        return None
    loaded = checkpoint.read(found[-1])
    checkpoint.check_stamp(found[-1], loaded, current.recipe.signature, vocabulary_hash(data))
    step = loaded["global_step"]
    if current.trainer.is_global_zero:
        print(f"resuming from step {step}")
    if step >= current.trainer.max_steps:
        current.curves.load_state_dict(loaded["callbacks"][current.curves.state_key])
    return found[-1]


def fit(current: Run, resume: Path | None) -> None:
    """Trains to the last step, from a checkpoint where one is given; nothing where that is the last."""
    if resume is not None and resume == checkpoint_path(resume.parent, current.trainer.max_steps):
        return
    task, data = current.parts.task, current.parts.data
    current.trainer.fit(task, datamodule=data, ckpt_path=resume, weights_only=True)


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


def finished_record(folder: Path) -> RunRecord | None:
    """The record of a run that is done, or None."""
    path = folder / RECORD_FILE
    return RunRecord.from_json(path.read_text(encoding="utf-8"), str(path)) if path.exists() else None


@contextlib.contextmanager
def reported(current: Run, logger: Any) -> Iterator[None]:
    """Says in the status file how a run ended that did not end well."""
    try:
        yield
    except Preempted:  # it has said so itself
        tracking.finish(logger)
        raise
    except SystemExit as stop:  # what Lightning makes of Ctrl-C
        raise KeyboardInterrupt from stop
    except BaseException:
        if current.trainer.is_global_zero:
            with contextlib.suppress(ReproError):
                current.status.write("failed", step=current.trainer.global_step)
        raise


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
        try:
            yield
        finally:
            _drop_if_empty(folder)


def _drop_if_empty(folder: Path) -> None:
    """Removes a run's folder that holds nothing but its lock: a run that was refused leaves nothing."""
    if [path.name for path in folder.iterdir()] == [".lock"]:
        (folder / ".lock").unlink()
        for path in (folder, *folder.parents):
            try:
                path.rmdir()
            except OSError:
                return
