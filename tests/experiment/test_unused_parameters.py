"""Data-parallel training waits for the gradient of every parameter: each step of every shape must give one to all.

So no recipe needs ``find_unused_parameters``, which looks through the graph of every step.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from repro.recipe import recipe_files
from tests.experiment.meta_recipes import small, training_batches
from tests.experiment.test_meta import CONFIGS, SHAPES, built


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))  # nothing is read


def without_gradient(run: tuple[str, str], sizes: Path, planted: bool = False) -> Iterator[list[str]]:
    """For each step the trained parameters that got no gradient."""
    recipe = small(*run, sizes)
    parts = built(recipe)
    task: Any = parts.task.train()
    if planted:
        task.module.register_parameter("planted", nn.Parameter(torch.zeros(1)))
    for number, batch in enumerate(training_batches(parts, recipe)):
        task.zero_grad()
        task.training_step(batch, number)["loss"].backward()
        yield [name for name, p in task.named_parameters() if p.requires_grad and p.grad is None]


@pytest.mark.parametrize("alike", SHAPES, ids=[f"{'-'.join(alike[0])}-{len(alike)}" for alike in SHAPES])
def test_every_trained_parameter_gets_a_gradient_in_every_step(
    alike: list[tuple[str, str]], sizes: Path
) -> None:
    steps = list(without_gradient(alike[0], sizes))
    assert steps
    assert not any(steps), steps


def test_control_an_unused_parameter_shows(sizes: Path) -> None:
    assert next(without_gradient(SHAPES[0][0], sizes, planted=True)) == ["net.planted"]


def test_no_recipe_asks_for_it() -> None:
    for path in recipe_files().values():
        assert "find_unused" not in path.read_text(), path
