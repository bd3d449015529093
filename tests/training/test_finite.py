"""NaN and infinity in one process; several ranks are in tests/experiment/test_watchdogs.py."""

from dataclasses import dataclass
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from torch import Tensor, nn

from repro.errors import ReproError
from repro.training.finite import Finite, first_bad_module
from tests.tasks import toy
from tests.tasks.toy import BATCHES, train


def test_a_sound_run_is_left_alone() -> None:
    assert train([Finite()], steps=8, val_check_interval=8).global_step == 8


@pytest.mark.parametrize(("micro_batches", "step"), [(1, 3), (2, 2)])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_loss_that_is_not_finite_stops_before_the_update(
    monkeypatch: pytest.MonkeyPatch, value: float, micro_batches: int, step: int
) -> None:
    """Its gradient is finite here: only the loss tells."""
    monkeypatch.setattr(toy, "BATCHES", [*BATCHES[:2], (value, 1), *BATCHES[3:]])
    message = rf"step {step} is not finite, nothing was updated: rank 0: the loss is {value}, first in the loss itself"
    with pytest.raises(ReproError, match=message):
        train([Finite()], steps=4, micro_batches=micro_batches, val_check_interval=8)


def test_a_gradient_that_is_not_finite_is_named() -> None:
    class Spoil(pl.Callback):
        def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
            pl_module.net.weight.register_hook(
                lambda gradient: gradient + float("inf") if trainer.global_step == 4 else None
            )

    with pytest.raises(ReproError, match=r"step 5.*the loss.*net\.weight"):
        train([Spoil(), Finite()], steps=8, val_check_interval=8)


@dataclass(frozen=True)
class Box:
    """An output as mixers have it."""

    y: Tensor


class Chain(pl.LightningModule):
    """Three layers, of which the second divides by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Identity()
        self.third = nn.Linear(2, 2)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        nested = self.second((None, {"y": [torch.tensor(1), Box(self.first(batch) / 0)]}))
        return self.third(nested[1]["y"][1].y).sum()


def test_the_first_module_that_went_wrong_is_named() -> None:
    task = Chain()
    assert first_bad_module(task, torch.ones(1, 2)) == "second (Identity)"
    assert not any(module._forward_hooks for module in task.modules()), "nothing is left behind"
    with torch.no_grad():
        task.third.bias.fill_(float("nan"))
    assert first_bad_module(task, torch.ones(1, 2)) == "parameter third.bias"
