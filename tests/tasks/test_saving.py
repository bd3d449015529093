"""Checkpoints, and stopping when asked to."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch

from repro.errors import EXIT_INTERRUPTED, EXIT_REQUEUE, Preempted
from repro.tasks.callbacks import Curves, Progress, StatusFile
from repro.tasks.saving import Preemption, StepCheckpoints, checkpoints
from tests.tasks.toy import BATCHES, train


def test_checkpoints_come_every_n_updates_and_at_the_end(tmp_path: Path) -> None:
    curves = Curves(every_steps=5)
    train([curves, StepCheckpoints(tmp_path, 3, 2, curves)], steps=8, val_check_interval=8)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000006.ckpt", "step-00000008.ckpt"]
    loaded = torch.load(tmp_path / "step-00000008.ckpt", weights_only=True)
    assert loaded["global_step"] == 8
    callbacks = loaded["callbacks"]["Curves"]
    assert callbacks["tokens"] == sum(tokens for _, tokens in BATCHES), "a checkpoint loses no token"
    assert [step for step, _ in callbacks["curves"]["train/loss"]] == [3, 5, 6, 8]


class Send(pl.Callback):
    """Sends this process a signal when an update begins."""

    def __init__(self, step: int, number: int) -> None:
        self.step = step
        self.number = number

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(
    ("number", "state", "code"),
    [
        (signal.SIGUSR1, "requeue", EXIT_REQUEUE),
        (signal.SIGTERM, "requeue", EXIT_REQUEUE),
        (signal.SIGINT, "stopped", EXIT_INTERRUPTED),
    ],
)
def test_a_signal_saves_at_the_end_of_the_update(tmp_path: Path, number: int, state: str, code: int) -> None:
    curves = Curves(every_steps=100)
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves))
    saver = StepCheckpoints(tmp_path, 100, 2, curves)
    before = signal.getsignal(number)
    with pytest.raises(Preempted, match="saved at step 3") as caught:
        train([curves, saver, Preemption(saver, status), Send(2, number)], steps=8, val_check_interval=8)
    assert caught.value.exit_code == code
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000003.ckpt"]
    assert torch.load(checkpoints(tmp_path)[0], weights_only=True)["callbacks"]["Curves"]["tokens"] == 7
    assert json.loads((tmp_path / "status.json").read_text())["state"] == state
    assert signal.getsignal(number) is before


def test_a_signal_in_the_last_update_lets_the_run_finish(tmp_path: Path) -> None:
    curves = Curves()
    saver = StepCheckpoints(tmp_path, 100, 2, curves)
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves))
    asked = Preemption(saver, status)
    train([curves, saver, asked, Send(7, signal.SIGUSR1)], steps=8, val_check_interval=8)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-00000008.ckpt"]
