"""On a GPU, a training step of every shape of a recipe has the loss and gradients it has on the CPU. Else skipped."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

if not torch.cuda.is_available():
    pytest.skip("needs a GPU", allow_module_level=True)

from repro.batches import Batch
from repro.experiment.build import Parts
from repro.experiment.costs import batches
from repro.recipe import Recipe
from tests.experiment.meta_recipes import small, training_batches
from tests.experiment.test_meta import SHAPES, built

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
# Relative error of a gradient in float32, over the norm of all gradients.
TOLERANCE = 1e-4


@pytest.fixture(params=SHAPES, ids=[f"{'-'.join(alike[0])}-{len(alike)}" for alike in SHAPES])
def recipe(
    request: pytest.FixtureRequest, sizes: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Recipe:
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))
    monkeypatch.setattr(batches, "ids", random_bits)
    return small(*request.param[0], sizes)


def random_bits(device: torch.device, *shape: int) -> Tensor:
    """Ids 0 and 1, the same on every device."""
    return torch.randint(0, 2, shape).to(device)


def step(parts: Parts, recipe: Recipe, device: torch.device, train: bool) -> tuple[list[float], list[Tensor]]:
    """Losses and the sums of gradients of a step, on the CPU."""
    task: Any = copy.deepcopy(parts.task).to(device).train(train)
    for module in task.modules():
        if isinstance(module, nn.RNNBase) and not train:
            module.train()  # cuDNN has a backward pass in training only
            module.dropout = 0.0
    task._trainer = parts.task._trainer
    torch.manual_seed(3)
    losses = []
    batches: list[Batch] = training_batches(parts, recipe, device)
    for number, batch in enumerate(batches):
        loss = task.training_step(batch, number)["loss"]
        loss.backward()
        losses.append(float(loss.detach()))
    return losses, [p.grad.cpu() for p in task.parameters() if p.grad is not None]


def test_a_step_without_dropout_equals_that_of_the_cpu(recipe: Recipe) -> None:
    torch.manual_seed(1)
    parts = built(recipe)
    expected, gradients = step(parts, recipe, CPU, train=False)
    losses, result = step(parts, recipe, CUDA, train=False)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert len(result) == len(gradients)
    norm = sum(float(g.norm()) ** 2 for g in gradients) ** 0.5
    for one, other in zip(result, gradients, strict=True):
        assert float((one - other).norm()) <= TOLERANCE * norm


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_a_step_of_training_is_finite(recipe: Recipe, precision: torch.dtype) -> None:
    torch.manual_seed(1)
    parts = built(recipe)
    with torch.autocast("cuda", precision, enabled=precision is not torch.float32):
        losses, gradients = step(parts, recipe, CUDA, train=True)
    assert torch.tensor(losses).isfinite().all()
    assert gradients
    assert all(bool(one.isfinite().all()) for one in gradients)
