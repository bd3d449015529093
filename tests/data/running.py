"""Helpers of tests of datamodules: a rank's place, equality of batches, short trainings under a real Trainer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.data import DataModule

Module = TypeVar("Module", bound=DataModule)


def placed(module: Module, rank: int = 0, world: int = 1, micro_batches: int = 1) -> Module:
    """Gives a datamodule a trainer's place without a trainer."""
    place = {"global_rank": rank, "world_size": world, "accumulate_grad_batches": micro_batches}
    module.trainer = SimpleNamespace(**place, current_epoch=0, state=SimpleNamespace(fn="fit"))
    return module


def same(ours: Any, theirs: Any) -> bool:
    """Whether two batches hold the same values, in tensors and beside them."""
    if isinstance(ours, tuple):
        return type(ours) is type(theirs) and all(same(a, b) for a, b in zip(ours, theirs, strict=True))
    return torch.equal(ours, theirs) if isinstance(ours, torch.Tensor) else bool(ours == theirs)


class Recorder(LightningModule):
    """Remembers every batch of training in ``seen`` and of validation in ``evaluated``."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.read = read
        self.seen: list[Any] = []
        self.evaluated: list[Any] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        self.seen.append(self.read(batch))
        return self.weight.sum()

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.evaluated.append(self.read(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAt(Callback):
    """Saves a checkpoint at one hook, the first time ``count`` batches have been seen."""

    def __init__(self, count: int, path: Path, hook: str = "on_train_batch_end") -> None:
        self.count, self.path = count, path
        self.at: int | None = None
        setattr(self, hook, self._save)

    def _save(self, trainer: Trainer, module: Recorder, *_: Any) -> None:
        if self.at is None and len(module.seen) >= self.count:
            self.at = len(module.seen)
            trainer.save_checkpoint(self.path)


def train(
    data: DataModule,
    read: Callable[[Any], Any],
    callbacks: Sequence[Callback] = (),
    resume: Path | None = None,
    **limits: Any,
) -> Recorder:
    """Trains a recorder on the data.

    Args:
        data: a fresh datamodule.
        read: what is remembered of a batch.
        callbacks: of the trainer.
        resume: checkpoint to go on from.
        limits: settings of the trainer that end the training or shape its steps.
    """
    module = Recorder(read)
    trainer = Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, num_sanity_val_steps=0, callbacks=list(callbacks), **limits,
    )  # fmt: skip
    trainer.fit(module, data, ckpt_path=resume, weights_only=False)
    return module
