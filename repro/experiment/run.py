"""Runs one experiment with one seed: fit (or resume), average, test, record."""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import torch
import yaml
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from repro import mirror
from repro.errors import Preempted, ReproError, UserError
from repro.events import EVENTS_FILE
from repro.experiment import checkpoint
from repro.experiment.checkpoint import Resume, find
from repro.experiment.initial_weights import begin_from, go_on_from
from repro.experiment.recording import first_event, is_trial, known_at_start, record
from repro.experiment.session import MODEL_FILE, Run, prepare
from repro.experiment.trainer import make_trainer, quiet, vocabulary_hash
from repro.files import is_leader, lock
from repro.ledger import seeds_line
from repro.ledger import start as note_start
from repro.paths import results_dir
from repro.recipe import Recipe
from repro.record import RunRecord, finished_record, made_by, write_atomic
from repro.seeds import TUNING
from repro.tasks.lightning_private import end_at, join_ranks
from repro.tasks.ranks import by_rank_0, together
from repro.training.callbacks import Curves
from repro.training.checkpoints import DurableIO, await_files, checkpoints, lighten, step_of
from repro.training.events import EventLogger
from repro.training.finite import Finite
from repro.training.stop_request import StopRequest
from repro.training.watchdog import stall_limit

BRIEFLY_S = 0.25  # how long a run waits for its folder; `repro status` holds it during a check
LOGGERS: dict[str, Callable[..., Logger]] = {
    "csv": CSVLogger, "tensorboard": partial(TensorBoardLogger, flush_secs=1),
}  # fmt: skip
IN_JOB_S = 300.0  # in a Slurm job: a dying attempt may hold it, and a task that is refused fails for good


def run(
    recipe: Recipe,
    seed: int,
    command: str,
    request: StopRequest | None = None,
    published: Mapping[str, float] | None = None,
    accept_changes: bool = False,
    keep: bool = True,
    logger: str = "",
) -> RunRecord:
    """Trains, tests and records; resumes an interrupted run; of a finished one, only reads the record.

    Args:
        recipe: resolved, overrides included.
        seed: of everything random.
        command: as typed, for the record.
        request: asks the run to stop; None makes one.
        published: published numbers by the measurement's name; shown on W&B next to ours.
        accept_changes: whether to resume with other code, packages or another device; see :attr:`RunRecord.mixed`.
        keep: whether the record is added to the results; a trial's need not be.
        logger: ``csv`` or ``tensorboard``: Lightning's logger, which also writes the curves into the run's folder.

    Raises:
        UserError: a recipe that cannot be built, a missing store, a folder in use or not writable; or a run that may be
            judged, with ``keep`` False.
        Preempted: it was asked to stop, has saved, and has reported this on stderr.
        ReproError: it failed for another reason; the last checkpoint is intact.
    """
    folder = recipe.run_dir(seed)
    done = finished_record(folder)
    if done is not None:
        return done
    quiet()
    with contextlib.nullcontext(request) if request else StopRequest() as stop, claimed(folder):
        current = prepare(recipe, seed, stop)
        done = finished_record(folder) if current.trainer.world_size == 1 else None
        if done is not None:  # another process had the folder until now
            return done
        resume = ready(current, accept_changes)
        if not (keep or is_trial(current)):
            raise UserError(
                f"seed {seed} has no record yet and may be judged, so it is recorded; --no-record goes with a seed "
                f"from {TUNING} on, with other settings, or with a run that has a record"
            )
        with reported(current):
            current.published = published or {}
            start(current, resume, logger)
            with current.watchdog:  # not over what follows, where ranks wait for rank 0, and it for W&B
                fit(current, resume)
                digest = test(current)
            result = record(current, command, digest, keep)
            if current.trainer.is_global_zero:
                saver = current.saver
                with contextlib.suppress(ReproError):  # the run is recorded
                    for path in checkpoints(saver.folder)[: -saver.plan.keep]:  # only averaged
                        lighten(path)
            leave(current)
            return result


def smoke(recipe: Recipe, seed: int) -> tuple[list[float], float]:
    """Trains two updates from random weights, without validation and test; writes no run folder and no record.

    Returns:
        The losses, and target tokens a second in the second update.

    Raises:
        UserError: a recipe that cannot be built, or a missing store.
    """
    quiet()
    parts = prepare(recipe, seed).parts
    curves = Curves(every_steps=1)
    arguments = {**parts.trainer, "max_steps": 2, "limit_val_batches": 0, "enable_progress_bar": False}
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(arguments, [Finite(), curves], Path(folder), DurableIO())
        trainer.fit(parts.task, datamodule=parts.data)
    part()
    return [loss for _, loss in curves.curves["train/loss"]], curves.latest["train/tokens_per_s"]


def ready(current: Run, accept_changes: bool = False) -> Resume:
    """Opens and checks the data, and finds where to resume; writes nothing.

    Rank 0 looks for the checkpoint and verifies it; all ranks use it or refuse it together.

    Raises:
        UserError: a missing or corrupt store, weights that do not fit, or a checkpoint of another run or of other code.
    """
    data = current.parts.data
    data.prepare_data()
    data.setup("fit")
    join_ranks(current.trainer)
    resume = by_rank_0(lambda: find(current.saver, current.steps, current.ends_early))
    current.stamper.maker = made_by(known_at_start(current))
    current.saver.resumed_from, current.saver.unusable = resume.step, [*resume.damaged, *resume.later]
    if resume.path is None:
        task, vocabulary = current.parts.task, vocabulary_hash(data)
        current.stamper.origin = begin_from(current.recipe, current.seed, task, vocabulary)
        if current.recipe.start_with != "everything":
            return resume
        path = by_rank_0(lambda: go_on_from(current))
        current.saver.resumed_from = step_of(path)
        current.curves.source = path.parent.parent / EVENTS_FILE
        settings = current.parts.trainer  # Lightning's own interval is known only in training
        every = settings.get("val_check_interval") or 1
        if step_of(path) % every == 0 and settings.get("limit_val_batches") != 0:
            current.curves.validated_again = step_of(path)
        states = checkpoint.read(path, mmap=True)["callbacks"]
        current.curves.load_state_dict(states[current.curves.state_key])
        return replace(resume, path=path, step=step_of(path))
    await_files([resume.path])
    loaded = together(partial(accepted, current, resume.path, accept_changes))
    current.stamper.origin = loaded[checkpoint.STAMP].get("origin")
    current.stamper.eager_before = loaded[checkpoint.STAMP].get("eager_layers", [])
    if current.early_stop.is_met:
        end_at(current.trainer, resume.step)
    if resume.step >= current.steps:  # nothing is left to train, so Lightning will not load it
        current.saver.load_state_dict(loaded["callbacks"][current.saver.state_key])
    return resume


def accepted(current: Run, path: Path, accept_changes: bool) -> dict[str, Any]:
    """Reads a checkpoint without its tensors, and the curves up to it.

    Raises:
        UserError: it is not of this run, or of other code and ``accept_changes`` is False.
    """
    loaded = checkpoint.read(path, mmap=True)
    vocabulary = vocabulary_hash(current.parts.data)
    checkpoint.check_stamp(path, loaded, current.recipe.signature, vocabulary, current.seed)
    current.curves.load_state_dict(loaded["callbacks"][current.curves.state_key])
    if not accept_changes:
        checkpoint.refuse_changes(path, loaded[checkpoint.STAMP].get("made_by", {}), current.stamper.maker)
    return loaded


def start(current: Run, resume: Resume, logger: str = "") -> None:
    """Rank 0 reports where the run begins: in the ledger, if it may be judged, the terminal, its folder, and on W&B.

    Raises:
        UserError, ReproError: a file cannot be written.
    """
    trainer, recipe = current.trainer, current.recipe
    if not trainer.is_global_zero:
        return
    if not is_trial(current):
        seeds = seeds_line(*recipe.seeds_declaration) if recipe.scale == "paper" else None
        facts = (recipe.run_id(current.seed), recipe.config_hash, current.source.commit, seeds)
        note_start(results_dir() / "runs", *facts, anew=resume.path is None)
    for note in current.parts.task.notes:
        print(note, file=sys.stderr)
    for path, wrong in resume.damaged.items():
        print(f"{path.name} is damaged ({wrong}): set aside", file=sys.stderr)
    if resume.path is not None:
        print(f"resuming from step {resume.step}", flush=True)
    elif resume.damaged:
        print("no valid checkpoint is left: starting from step 0", file=sys.stderr)
    text = yaml.safe_dump(current.recipe.config, sort_keys=False, allow_unicode=True)
    write_atomic(current.folder / "config.yaml", text.encode())
    if (tokenizer := current.parts.data.tokenizer) is not None:
        tokenizer.save(current.folder / f"tokenizer{tokenizer.suffix}")
    current.events.begin(current.curves.known, resume.step, first_event(current))
    others = [LOGGERS[logger](current.folder, name=logger)] if logger else []
    trainer.loggers = [EventLogger(current.events, lambda: max(trainer.global_step, resume.step), others)]
    current.mirror = mirror.start(current.folder)


def fit(current: Run, resume: Resume) -> None:
    """Trains to the last step, from a checkpoint if there is one; does nothing if that is the last step.

    Raises:
        UserError: training ended before.
    """
    if resume.step >= current.steps:
        return
    task, data = current.parts.task, current.parts.data
    current.trainer.fit(task, datamodule=data, ckpt_path=resume.path, weights_only=True)
    if current.trainer.global_step < current.steps:
        raise UserError(
            f"training ended after {current.trainer.global_step} of {current.steps} updates: a callback of "
            "trainer.callbacks ended it; leave that to trainer.max_steps or `stop`"
        )


def test(current: Run) -> str | None:
    """Averages the last checkpoints, writes the final model, tests it; returns the model file's SHA-256."""
    paths = current.saver.final(current.steps)
    if not current.trainer.is_global_zero:
        await_files(paths)
    weights = checkpoint.average(paths)
    current.parts.task.load_state_dict(weights)
    digest = None
    if current.trainer.is_global_zero:
        current.events.append("state", current.steps, {"state": "testing"})
        data = current.parts.data
        mark = checkpoint.stamp(current.recipe.signature, vocabulary_hash(data), current.stamper.origin)
        digest = checkpoint.write_model(current.folder / MODEL_FILE, weights, current.recipe.config, mark)
    current.trainer.test(current.parts.task, datamodule=current.parts.data, verbose=False)
    return digest


def leave(current: Run) -> None:
    """Waits for W&B's mirror, where it would end with this process, and ends the process group."""
    mirror.wait(current.mirror)
    part()


def part() -> None:
    """Ends the process group, all ranks together.

    A rank that leaves while others use their connections, or whose connections are torn down by the interpreter's
    exit, may end in an abort; under Slurm that would kill rank 0 before it has written the record.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


@contextlib.contextmanager
def reported(current: Run) -> Iterator[None]:
    """Notes in the events how an unsuccessful run ended."""
    try:
        yield
    except Preempted as stop:  # in the events already
        if str(stop):  # of one rank; reported now, since srun kills it once another has left
            print(f"repro: {stop}", file=sys.stderr, flush=True)
        leave(current)
        raise type(stop)() from stop
    except SystemExit as stop:  # raised by Lightning on Ctrl-C
        raise KeyboardInterrupt from stop
    except BaseException as error:
        current.fail(str(error) or type(error).__name__, mirror.FAILED_S)
        raise


@contextlib.contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Locks a run's folder, so that two processes never write one run. Ranks of a job share their leader's lock."""
    if not is_leader():
        yield
        return
    with _lock_of(folder) as file:
        _CLAIMS.add(file)
        try:
            yield
        finally:
            _CLAIMS.discard(file)
            _drop_if_empty(folder)


def _lock_of(folder: Path) -> IO[str]:
    """Opens and locks the lock of a run's folder, again if a refused run has removed it meanwhile."""
    path = folder / ".lock"
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = open(path, "w")  # noqa: SIM115 - closed by the caller
        except OSError as error:
            raise UserError(
                f"cannot write {folder}: {error.strerror}; set REPRO_RUNS to a folder you can write to"
            ) from None
        if not _locked(file):
            file.close()
            raise UserError(f"{folder} is being run by another process; wait for it, or use another seed")
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(file.fileno())):
                return file
        file.close()


def _locked(file: IO[str]) -> bool:
    """Takes a lock where the system has locks. Waits for it, in a Slurm job for minutes, and reports the wait."""
    in_job = bool(os.environ.get("SLURM_JOB_ID"))
    patience_s = min(IN_JOB_S, stall_limit() / 2) if in_job else BRIEFLY_S  # other ranks wait for this one
    end, is_reported = time.monotonic() + patience_s, not in_job
    while True:
        if lock(file):
            return True
        if time.monotonic() > end:
            return False
        if not is_reported:
            print(f"{file.name} is held by another process: waiting {patience_s:.0f} s", file=sys.stderr)
            is_reported = True
        time.sleep(0.05)


# A loader worker may outlive a killed run by seconds, and must not hold its folder meanwhile.
_CLAIMS: set[IO[str]] = set()
os.register_at_fork(after_in_child=lambda: [file.close() for file in _CLAIMS])


def _drop_if_empty(folder: Path) -> None:
    """Removes a run's folder that holds only its lock: a refused run leaves nothing."""
    if [path.name for path in folder.iterdir()] == [".lock"]:
        (folder / ".lock").unlink()
        with contextlib.suppress(OSError):
            os.removedirs(folder)
