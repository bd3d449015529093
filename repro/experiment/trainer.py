"""The Trainer of a run: Lightning, with its automatic choices made explicit."""

import logging
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
from lightning.pytorch.plugins import CheckpointIO
from lightning.pytorch.plugins.environments import SLURMEnvironment
from lightning.pytorch.utilities.exceptions import MisconfigurationException

from repro.data.core.datamodule import DataModule
from repro.errors import UserError
from repro.experiment import checkpoint
from repro.recipe import Recipe
from repro.tasks.lightning_private import install_no_signal_handlers

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
SHARDING = ("fsdp", "deepspeed", "modelparallel", "model_parallel")


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
        UserError: arguments that do not go together, or a strategy that shards the model.
    """
    settings = dict(arguments)
    if settings.get("max_steps", -1) < 1:
        steps = settings.get("max_steps")
        raise UserError(f"trainer.max_steps must be at least 1 optimiser update, not {steps}")
    refuse_sharding(settings.get("strategy"))
    settings["callbacks"] = [*(settings.get("callbacks") or []), *callbacks]
    if isinstance(settings.get("val_check_interval"), int):
        settings["val_check_interval"] *= settings.get("accumulate_grad_batches") or 1
    settings["plugins"] = [*(settings.get("plugins") or []), files]
    if SLURMEnvironment.detect():  # Lightning's own requeue saves inside the handler, and can hang there
        settings["plugins"].append(SLURMEnvironment(auto_requeue=False))
    settings |= {
        "check_val_every_n_epoch": None, "use_distributed_sampler": False, "num_sanity_val_steps": 0,
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
    except (ValueError, RuntimeError) as error:
        raise UserError(f"trainer: {str(error).splitlines()[0]}") from error
    install_no_signal_handlers(trainer)  # repro.stop handles signals
    return trainer


def refuse_sharding(strategy: object) -> None:
    """Refuses strategies that share one model's weights out among ranks.

    Gradient clipping and the search for what is not finite read whole gradients, checkpoints and their averages are
    whole models in one file, and initial values of shortcuts are measured on one rank: with shards each of these would
    be wrong without a word. No recipe needs shards (docs/cost.md).

    Raises:
        UserError: it is one.
    """
    name = strategy if isinstance(strategy, str) else type(strategy).__name__
    if name.lower().startswith(SHARDING):
        raise UserError(
            f"trainer.strategy: {name} is not supported: a checkpoint is a whole model, and every recipe fits GPUs of "
            "80 GB without shards; use ddp, and trainer.accumulate_grad_batches where a batch does not fit "
            "(`repro cost` says in how many parts)"
        )


class Stamper(pl.Callback):
    """Writes into every checkpoint what run it belongs to.

    Attributes:
        origin: the run whose weights this one began with, and their hash; None where it began anew.
    """

    def __init__(self, recipe: Recipe) -> None:
        self.signature = recipe.signature
        self.origin: dict[str, str] | None = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint_: dict[str, Any]
    ) -> None:
        data = trainer.datamodule  # type: ignore[attr-defined]
        checkpoint_[checkpoint.STAMP] = checkpoint.stamp(self.signature, vocabulary_hash(data), self.origin)


def vocabulary_hash(data: DataModule) -> str | None:
    """SHA-256 of the tokeniser a datamodule uses, or None where it has none."""
    return None if data.tokenizer is None else data.tokenizer.sha256


def quiet() -> None:
    """Keeps Lightning's tips and known-harmless warnings out of the terminal."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    for pattern in HARMLESS:
        warnings.filterwarnings("ignore", pattern)
