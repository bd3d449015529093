"""The Trainer of a run: Lightning, with its automatic choices made explicit."""

import logging
import math
import warnings
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.plugins import CheckpointIO
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from repro.data.core.datamodule import DataModule
from repro.errors import UserError, at_least
from repro.experiment import checkpoint
from repro.experiment.compiling import eager_layers
from repro.recipe import Recipe
from repro.tasks.lightning_private import datamodule_of, install_no_signal_handlers

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
    ".*was called before the ``update``.*",  # a rank without a batch of its own
    ".*functools.lru_cache.*",  # tables of positions, which compiled layers make anew
    ".*sync_dist=True.*",  # tasks reduce by themselves, exactly: every rank logs the same value
)
IN_CHILDREN = ("_spawn", "_fork", "_notebook")  # ends of the names of strategies
SHARDING = ("fsdp", "deepspeed", "modelparallel", "model_parallel")
# Arguments of Lightning's Trainer under which a record is true: updates are counted, splits scored whole.
SUPPORTED = frozenset({
    "accelerator", "strategy", "devices", "num_nodes", "precision", "sync_batchnorm", "deterministic", "benchmark",
    "max_steps", "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "val_check_interval",
    "callbacks", "plugins", "profiler", "detect_anomaly", "log_every_n_steps", "enable_progress_bar",
})  # fmt: skip
# Of these, what LightningCLI must not change either: a split that is not scored whole ends in an error.
ALWAYS = (
    "fast_dev_run", "overfit_batches", "limit_val_batches", "limit_test_batches", "accumulate_grad_batches",
    "gradient_clip_val",
)  # fmt: skip
INSTEAD = {
    "logger": "`repro run --logger csv` or `tensorboard` adds one of Lightning's",
    "max_time": "trainer.max_steps or `stop` ends a run",
    "max_epochs": "trainer.max_steps or `stop` ends a run",
    "fast_dev_run": "--trainer.max_steps 2 tries a recipe",
    "limit_train_batches": "choose smaller data",
    "overfit_batches": "choose smaller data",
    "limit_val_batches": "a split is scored whole; 0 skips validation",
    "limit_test_batches": "a split is scored whole; choose smaller data",
}
SUPPORTED_CALLBACKS = (pl.callbacks.ModelSummary,)  # which changes no training


def make_trainer(
    arguments: dict[str, Any], callbacks: list[pl.Callback], folder: Path, files: CheckpointIO
) -> pl.Trainer:
    """A Trainer whose validation interval counts updates, and that neither shards nor handles signals by itself.

    Args:
        arguments: the recipe's ``trainer`` section.
        callbacks: added to the recipe's own.
        folder: of the run.
        files: how checkpoints are written and read.

    Raises:
        UserError: arguments that are not supported or do not go together, or a strategy that shards the model.
    """
    settings = dict(arguments)
    if "max_steps" not in settings:
        raise UserError("the recipe has no section trainer; trainer.max_steps is the number of updates")
    refuse_unsupported(settings)
    refuse_strategies(settings.get("strategy"))
    settings["callbacks"] = [*_listed(settings.get("callbacks")), *callbacks]
    settings |= interval_in_updates(settings)
    settings["plugins"] = [*_listed(settings.get("plugins")), files]
    if SLURMEnvironment.detect():  # Lightning's own requeue saves inside the handler, and can hang there
        settings["plugins"].append(SLURMEnvironment(auto_requeue=False))
    settings |= {
        "use_distributed_sampler": False, "num_sanity_val_steps": 0,
        "logger": False, "enable_checkpointing": False, "enable_model_summary": False,
        "default_root_dir": str(folder),
    }  # fmt: skip
    try:
        trainer = pl.Trainer(**settings)
    except (MisconfigurationException, ModuleNotFoundError) as error:
        raise UserError(
            f"trainer: {str(error).splitlines()[0].rstrip('.!')}; trainer.accelerator is "
            f"{settings.get('accelerator', 'auto')}; `repro doctor` shows what this machine has"
        ) from error
    except (ValueError, TypeError, RuntimeError) as error:
        raise UserError(f"trainer: {str(error).splitlines()[0]}") from error
    install_no_signal_handlers(trainer)  # repro.training.stop_request handles signals
    return trainer


def interval_in_updates(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the Trainer under which an interval of validations counts updates, across epochs.

    Lightning counts micro-batches, and within one epoch unless ``check_val_every_n_epoch`` is None.
    """
    interval, batches = settings.get("val_check_interval"), settings.get("accumulate_grad_batches") or 1
    count = {"val_check_interval": interval * batches} if isinstance(interval, int) else {}
    return {"check_val_every_n_epoch": None, **count}


def _listed(value: Any) -> list[Any]:
    """Several objects, or one that Lightning takes by itself, or none."""
    return [*value] if isinstance(value, list | tuple) else [] if value is None else [value]


def refuse_unsupported(settings: dict[str, Any]) -> None:
    """Refuses arguments and callbacks under which a record would not describe its run.

    A limit of time or a callback that ends training leaves fewer updates than the record counts; a limit on training
    batches cuts the last update of an epoch short; averaged weights are validated while the raw ones are tested.

    Raises:
        UserError: names the argument or callback, with what takes its place.
    """
    defaults = {name: p.default for name, p in signature(pl.Trainer).parameters.items()}
    for name, value in settings.items():
        skipped = name == "limit_val_batches" and value == 0
        if name in defaults and name not in SUPPORTED and value not in (defaults[name], None) and not skipped:
            remedy = INSTEAD.get(name, "leave it out")
            raise UserError(f"trainer.{name} is not supported, given {value!r}: {remedy}")
    at_least(1, **{"trainer.accumulate_grad_batches": settings.get("accumulate_grad_batches")})
    interval, clip = settings.get("val_check_interval"), settings.get("gradient_clip_val")
    if interval is not None and not (type(interval) is int and interval >= 1):
        raise UserError(f"trainer.val_check_interval is a number of updates, at least 1, not {interval!r}")
    if clip is not None and not 0 <= clip < math.inf:
        raise UserError(f"trainer.gradient_clip_val must be at least 0 and finite, not {clip}")
    for callback in _listed(settings.get("callbacks")):
        bases = {base for base in type(callback).mro() if base.__module__.startswith("lightning.")}
        if bases - {*pl.Callback.mro()} and not isinstance(callback, SUPPORTED_CALLBACKS):
            raise UserError(
                f"trainer.callbacks: {type(callback).__name__} is not supported; `stop` ends training early, "
                "`checkpoints` saves, averages and chooses the best"
            )


def refuse_strategies(strategy: object) -> None:
    """Refuses strategies that share one model's weights out among ranks, or whose ranks are children of this process.

    Gradient clipping and the search for what is not finite read whole gradients, checkpoints and their averages are
    whole models in one file, and initial values of shortcuts are measured on one rank: with shards each of these would
    be wrong without a word. No recipe needs shards (docs/cost.md).

    Raises:
        UserError: it is one.
    """
    name = strategy if isinstance(strategy, str) else type(strategy).__name__
    if name.endswith(IN_CHILDREN):
        raise UserError(
            f"trainer.strategy: {name} is not supported: its ranks are children, whose curves and counts are lost; "
            "use ddp"
        )
    if name.lower().startswith(SHARDING):
        raise UserError(
            f"trainer.strategy: {name} is not supported: a checkpoint is a whole model, and every recipe fits GPUs of "
            "80 GB without shards; use ddp, and trainer.accumulate_grad_batches where a batch does not fit "
            "(`repro cost` prints the number of parts)"
        )


class Stamper(pl.Callback):
    """Writes into every checkpoint what run it belongs to, and what made it.

    A final model has no maker, so that its bytes are those of weights and configuration.

    Attributes:
        origin: the run whose weights this one began with, and their hash; None where it began anew.
        maker: code, packages and device of this attempt, by :func:`repro.record.made_by`.
        eager_before: what ``eager_layers`` returned at the checkpoint that this attempt began from.
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.signature = recipe.signature
        self.seed = seed
        self.origin: dict[str, str] | None = None
        self.maker: dict[str, str] = {}
        self.eager_before: list[str] = []

    def eager_layers(self, task: pl.LightningModule) -> list[str]:
        """The deviations of :func:`repro.experiment.compiling.eager_layers`, of all attempts."""
        return sorted({*self.eager_before, *eager_layers(task)})

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint_: dict[str, Any]
    ) -> None:
        data = datamodule_of(trainer)
        assert isinstance(data, DataModule)
        mark = checkpoint.stamp(self.signature, vocabulary_hash(data), self.origin)
        attempt = {"seed": self.seed, "made_by": self.maker, "eager_layers": self.eager_layers(pl_module)}
        checkpoint_[checkpoint.STAMP] = mark | attempt


def vocabulary_hash(data: DataModule) -> str | None:
    """SHA-256 of the tokeniser a datamodule uses, or None where it has none."""
    return None if data.tokenizer is None else data.tokenizer.sha256


def quiet() -> None:
    """Keeps Lightning's tips and known-harmless warnings out of the terminal."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for pattern in HARMLESS:
        warnings.filterwarnings("ignore", pattern)
