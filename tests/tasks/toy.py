"""A toy task under a real Trainer, whose sums are known beforehand."""

from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import ProgressBar
from torch import nn
from torch.utils.data import DataLoader

from repro.events import EventLog
from repro.tasks.optim.schedules import Constant
from repro.tasks.task import Task
from repro.training.events import EventLogger

# Losses summed over the tokens of each micro-batch, and how many tokens those are.
BATCHES = [(6.0, 2), (1.0, 1), (8.0, 4), (3.0, 1), (5.0, 5), (2.0, 2), (4.0, 1), (9.0, 3)]


class Toy(Task):
    """Its loss does not depend on its weight, so that sums are known beforehand."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1), torch.optim.SGD, Constant)

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        total, tokens = batch
        sums = {"loss": torch.tensor(total, dtype=torch.float64), "tokens": torch.tensor(tokens)}
        return {"loss": self.net(torch.zeros(1, 1)).sum() * 0.0 + total, "sums": sums}

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", torch.tensor(float(self.global_step)), batch_size=1)


def train(
    callbacks: list[pl.Callback],
    steps: int,
    micro_batches: int = 1,
    task: Task | None = None,
    val_batches: int = 1,
    **settings: Any,
) -> pl.Trainer:
    trainer = pl.Trainer(
        max_steps=steps, accumulate_grad_batches=micro_batches, accelerator="cpu", callbacks=callbacks,
        enable_checkpointing=False, enable_progress_bar=any(isinstance(one, ProgressBar) for one in callbacks),
        enable_model_summary=False, num_sanity_val_steps=0,
        check_val_every_n_epoch=None, **{"logger": False, **settings},
    )  # fmt: skip
    trainer.fit(
        task or Toy(), DataLoader(BATCHES, batch_size=None), DataLoader([0] * val_batches, batch_size=None)
    )
    return trainer


def train_logged(log: EventLog, callbacks: list[pl.Callback], **settings: Any) -> pl.Trainer:
    """Trains a toy whose rows are events."""
    result: list[pl.Trainer] = []

    class Find(pl.Callback):
        def setup(self, trainer: pl.Trainer, *_: Any, **__: Any) -> None:
            result.append(trainer)

    logger = EventLogger(log, lambda: result[0].global_step)
    return train([Find(), *callbacks], logger=logger, **settings)
