"""A committed recipe, shrunk by overrides only, trained through its task and a Lightning Trainer in float64."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.plugins import TorchCheckpointIO
from torch import Tensor
from torch.utils.data import DataLoader

from repro.batches import Batch
from repro.experiment.build import AnyTask, build_task
from repro.experiment.trainer import make_trainer, quiet
from repro.recipe import load_recipe
from tests.parity.golden import Golden
from tests.parity.report import keep_curve

Steps = Sequence[Sequence[Batch]]


@dataclass
class Trained:
    """A training run.

    Attributes:
        task: after the last update.
        loss: of each update as it is minimised, ``(N,)``.
        norm: length of the whole gradient before clipping, ``(N,)``.
        lr: learning rate of each update and parameter group, ``(N, G)``.
    """

    task: AnyTask
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    rates: list[list[float]] = field(default_factory=list)

    @property
    def loss(self) -> Tensor:
        return torch.tensor(self.losses, dtype=torch.float64)

    @property
    def norm(self) -> Tensor:
        return torch.tensor(self.norms, dtype=torch.float64)

    @property
    def lr(self) -> Tensor:
        return torch.tensor(self.rates, dtype=torch.float64)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The network's parameters by name; a tied one under its first name."""
        return {name: p.detach() for name, p in self.task.module.named_parameters()}


class _Recorder(pl.Callback):
    """Notes loss, gradient norm and rates of every update; losses are those that ``training_step`` returns."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained
        self.micro_batches: list[float] = []

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        gradients = [p.grad for p in pl_module.parameters() if p.grad is not None]
        self.trained.norms.append(float(torch.stack([g.norm() for g in gradients]).norm()))
        self.trained.rates.append([float(group["lr"]) for group in optimizer.param_groups])
        self.trained.losses.append(sum(self.micro_batches) / len(self.micro_batches))
        self.micro_batches.clear()


def make_task(
    experiment: str, overrides: dict[str, Any], scale: str = "paper"
) -> tuple[AnyTask, dict[str, Any]]:
    """The float64 task of a shrunk recipe, and the recipe's ``trainer`` section."""
    recipe = load_recipe(experiment, scale, list(overrides.items()))
    return build_task(recipe).double(), dict(recipe.sections["trainer"])


def train(task: AnyTask, arguments: dict[str, Any], steps: Steps) -> Trained:
    """Trains on given batches.

    Args:
        task: with the weights to begin with, float64.
        arguments: the recipe's ``trainer`` section: clipping is taken from it.
        steps: for each update its micro-batches, as many for each.
    """
    quiet()
    trained = Trained(task)
    recorder = _Recorder(trained)
    settings = {key: value for key, value in arguments.items() if key != "val_check_interval"} | {
        "max_steps": len(steps), "precision": "64-true", "accelerator": "cpu", "devices": 1,
        "accumulate_grad_batches": len(steps[0]), "limit_val_batches": 0, "enable_progress_bar": False,
    }  # fmt: skip
    step = task.training_step

    def recorded(batch: Batch, batch_idx: int) -> Any:
        result = step(batch, batch_idx)
        recorder.micro_batches.append(float(result["loss"].detach()))
        return result

    task.training_step = recorded  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(settings, [recorder], Path(folder), TorchCheckpointIO())
        batches = [batch for micro_batches in steps for batch in micro_batches]
        trainer.fit(task, DataLoader(batches, batch_size=None, collate_fn=lambda batch: batch))
    task.training_step = step  # type: ignore[method-assign]
    return trained


def difference(ours: Tensor, theirs: Tensor) -> float:
    """The largest absolute difference over max(1, the largest absolute value of theirs)."""
    ours, theirs = ours.detach().double(), theirs.detach().double()
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float((ours - theirs).abs().max()) / max(1.0, float(theirs.abs().max()))


def largest(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference over all parameters, each of which must be named by both."""
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    return max(difference(ours[name], theirs[name]) for name in ours)


def differences(trained: Trained, golden: Golden, last: dict[str, Tensor]) -> dict[str, float]:
    """Differences of losses, gradient norms, rates and final weights.

    Args:
        trained: by ours.
        golden: by theirs.
        last: their final weights under our names, tied ones once.
    """
    keep_curve(golden.path, golden["loss"], trained.loss)
    rates = golden["lr"] if golden["lr"].dim() == 2 else golden["lr"][:, None]
    return {
        "losses": difference(trained.loss, golden["loss"]),
        "norms": difference(trained.norm, golden["norm"]),
        "rates": difference(trained.lr[:, : rates.shape[1]], rates),
        "weights": largest(trained.weights, last),
    }
