"""Uses of Lightning beyond its public interface: each test fails where a new version changes it."""

import signal

import lightning.pytorch as pl
import pytest
from torch.utils.data import DataLoader

from repro.tasks.lightning_private import (
    callbacks_of,
    datamodule_of,
    install_no_signal_handlers,
    trainer_of,
)
from tests.tasks.toy import BATCHES, Toy, train


class HandlerOfTerm(pl.Callback):
    """Looks, during training, at who handles TERM."""

    def __init__(self, refuse: bool) -> None:
        self.refuse = refuse
        self.found: object = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if self.refuse:
            install_no_signal_handlers(trainer)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.found = signal.getsignal(signal.SIGTERM)


@pytest.mark.parametrize("refuse", [True, False])
def test_lightning_handles_term_unless_it_is_kept_from_it(refuse: bool) -> None:
    before, look = signal.getsignal(signal.SIGTERM), HandlerOfTerm(refuse)
    train([look], steps=1, val_check_interval=8)
    assert (look.found == before) == refuse


def test_a_module_without_a_trainer_has_none() -> None:
    module = Toy()
    assert trainer_of(module) is None
    trainer = train([], steps=1, val_check_interval=8)
    assert trainer_of(trainer.lightning_module) is trainer


class Batches(pl.LightningDataModule):
    """The toy's batches."""

    def train_dataloader(self) -> DataLoader[tuple[float, int]]:
        return DataLoader(BATCHES, batch_size=None)

    def evaluate_with(self, *_: object) -> None: ...

    def expected(self, *_: object) -> dict[str, int]:
        return {}


def test_a_trainer_has_its_callbacks_and_its_datamodule() -> None:
    callback, data = pl.Callback(), Batches()
    trainer = train([callback], steps=1, val_check_interval=8)
    assert callback in callbacks_of(trainer)
    assert datamodule_of(trainer) is None
    trainer = pl.Trainer(max_steps=1, accelerator="cpu", barebones=True)
    trainer.fit(Toy(), datamodule=data)
    assert datamodule_of(trainer) is data
