"""Stopping when asked to, in one process; several are in tests/experiment/test_signals.py."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
from torch.utils.data import DataLoader, IterableDataset

from repro.errors import EXIT_INTERRUPTED, EXIT_REQUEUE, Preempted
from repro.events import EVENTS_FILE, EventLog, last_state
from repro.events import read as read_events
from repro.training.callbacks import Curves
from repro.training.checkpoints import DurableIO, checkpoints, read
from repro.training.saving import Checkpoints, StepCheckpoints
from repro.training.stop_request import StopRequest
from repro.training.stopping import Stopping
from tests.tasks.toy import Toy, train


class Send(pl.Callback):
    """Sends this process a signal when an update begins, or in a validation."""

    def __init__(self, step: int, number: int, validating: bool = False) -> None:
        self.step = step
        self.number = number
        self.validating = validating

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step and not self.validating:
            os.kill(os.getpid(), self.number)

    def on_validation_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step and self.validating:
            os.kill(os.getpid(), self.number)


def stopped(folder: Path, send: Send, steps: int = 8, resumed_from: int = 0, **settings: Any) -> None:
    """Trains a toy that is asked to stop, as a run would, with handlers from the beginning."""
    files, curves = DurableIO(), Curves(every_steps=100)
    saver = StepCheckpoints(folder, Checkpoints(100), files)
    saver.resumed_from = resumed_from
    with StopRequest() as request:
        around = [curves, saver, Stopping(request, saver, EventLog(folder)), send]
        train(around, steps=steps, plugins=[files], **{"val_check_interval": 8, **settings})


@pytest.mark.parametrize(
    ("number", "state", "code"),
    [
        (signal.SIGUSR1, "requeue", EXIT_REQUEUE),
        (signal.SIGTERM, "requeue", EXIT_REQUEUE),
        (signal.SIGINT, "stopped", EXIT_INTERRUPTED),
    ],
)
def test_a_signal_saves_at_the_end_of_the_update(tmp_path: Path, number: int, state: str, code: int) -> None:
    with pytest.raises(Preempted, match="step 3") as caught:
        stopped(tmp_path, Send(2, number))
    assert caught.value.exit_code == code
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000003.ckpt"]
    assert read(checkpoints(tmp_path)[0])["callbacks"]["Curves"]["pending"]["sums"][0]["tokens"] == 7
    assert last_state(read_events(tmp_path / EVENTS_FILE))["state"] == state


def test_a_signal_between_micro_batches_waits_for_the_update(tmp_path: Path) -> None:
    with pytest.raises(Preempted, match="step 2"):
        stopped(tmp_path, Send(1, signal.SIGUSR1), steps=4, micro_batches=2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000002.ckpt"]


def test_a_signal_in_the_last_update_lets_training_finish(tmp_path: Path) -> None:
    stopped(tmp_path, Send(7, signal.SIGUSR1), val_check_interval=5)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000008.ckpt"]


def test_a_signal_in_validation_saves_the_state_before_it(tmp_path: Path) -> None:
    with pytest.raises(Preempted, match="step 4"):
        stopped(tmp_path, Send(4, signal.SIGUSR1, validating=True), val_check_interval=4)
    loops = read(checkpoints(tmp_path)[0])["loops"]["fit_loop"]
    assert loops["epoch_loop.val_loop.batch_progress"]["current"]["processed"] == 0


def test_a_signal_in_the_validation_where_it_began_writes_no_checkpoint_again(tmp_path: Path) -> None:
    with pytest.raises(Preempted, match="in the validation of step 4, where it began"):
        stopped(tmp_path, Send(4, signal.SIGUSR1, validating=True), resumed_from=4, val_check_interval=4)
    assert checkpoints(tmp_path) == []


class Unknown(IterableDataset[int]):
    """Two batches, and no length: Lightning counts infinitely many."""

    def __iter__(self) -> Iterator[int]:
        yield from (0, 1)


def test_a_validation_of_unknown_length_runs(tmp_path: Path) -> None:
    files = DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(100), files)
    with StopRequest() as request:
        trainer = pl.Trainer(
            callbacks=[Stopping(request, saver, EventLog(tmp_path))], accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        (result,) = trainer.validate(Toy(), DataLoader(Unknown()), verbose=False)
    assert result == {"val/loss": 0.0}


def test_a_signal_in_the_last_validation_leaves_that_to_be_repeated(tmp_path: Path) -> None:
    with pytest.raises(Preempted, match="in the last validation"):
        stopped(tmp_path, Send(8, signal.SIGUSR1, validating=True))
    assert checkpoints(tmp_path) == [], "a checkpoint of the last step would end training without it"
