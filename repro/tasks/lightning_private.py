"""All uses of Lightning's private interface and of attributes without a type; their tests fail when it changes."""

from types import SimpleNamespace
from typing import Any

from lightning.pytorch import Callback, LightningDataModule, LightningModule, Trainer
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher


def trainer_of(module: LightningModule) -> Trainer | None:
    """The trainer of a module; None where it has none, for which the public property raises an error."""
    return module._trainer


def datamodule_of(trainer: Trainer) -> LightningDataModule | None:
    """The datamodule of a trainer; None where it was given loaders, or nothing yet."""
    return trainer.datamodule  # type: ignore[attr-defined]


def callbacks_of(trainer: Trainer) -> list[Callback]:
    """The callbacks of a trainer, the list itself."""
    return trainer.callbacks  # type: ignore[attr-defined]


def install_no_signal_handlers(trainer: Trainer) -> None:
    """Keeps Lightning from handling signals: its handler for TERM communicates between ranks, and can hang there."""
    trainer._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]


def join_ranks(trainer: Trainer) -> None:
    """Starts and joins the ranks, as Lightning does again, without effect, when training begins."""
    launcher = trainer.strategy.launcher
    if isinstance(launcher, _SubprocessScriptLauncher):  # not where one process forks the others to train
        launcher.launch(trainer.strategy.setup_environment)


def end_at(trainer: Trainer, step: int) -> None:
    """Ends training at an update earlier than planned: sets ``trainer.max_steps`` to its number."""
    trainer.fit_loop.epoch_loop.max_steps = step


def owe_validation(fit_loop: dict[str, Any]) -> None:
    """Changes the saved state of Lightning's loops so that a resumed run begins with the validation that is due.

    Otherwise, Lightning skips a validation that was due when a checkpoint was written after a batch, and continues a
    half-finished one without its earlier sums. The state becomes that of a run interrupted in the first batch of its
    validation.
    """
    training = fit_loop["epoch_loop.batch_progress"]
    for count in (training["total"], training["current"]):
        count["completed"] = count["processed"]
    validation = fit_loop["epoch_loop.val_loop.batch_progress"]
    validation["current"]["completed"] = 0  # it counts from the first batch
    for count in (validation["total"], validation["current"]):
        count["processed"] = count["completed"]
        count["ready"] = count["started"] = count["completed"] + 1


def stand_in_trainer(module: LightningModule, **known: object) -> None:
    """Gives a module an object with a few attributes of a Trainer, for a training step without one."""
    module._trainer = SimpleNamespace(**known)  # type: ignore[assignment]
