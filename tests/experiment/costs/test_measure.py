"""Measured updates: what is drawn, what is compared, and what a second call goes on with. Times are not tested."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.errors import UserError
from repro.experiment.costs import measure
from repro.experiment.costs.batches import BatchSize, batches
from repro.experiment.costs.estimate import Cost, cost
from repro.experiment.costs.measure import drawn, measure_all, updates, variants
from repro.experiment.costs.measured import FILE, read_rows, shape_of
from repro.experiment.costs.roofline import UPDATE_S, gpu_named
from repro.recipe import Recipe, experiments, load_recipe
from tests.experiment.meta_recipes import CPU, small
from tests.experiment.test_meta import CONFIGS, built
from tests.workshop import call

COPY = "linear-transformer/copy@linear"
KINDS = (
    "attention-is-all-you-need/base", "transformer-xl/wt103-standard", "infinity-former/sorting",
    "linear-transformer/wsj", "linear-transformer/mnist", "frozen-pretrained-transformer/listops@random",
)  # fmt: skip
Count = Callable[[Recipe], Cost]


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    monkeypatch.setenv("REPRO_DATA", str(tmp_path / "none"))  # nothing is read
    monkeypatch.setattr(measure, "LONGEST_S", 0.0)
    eager = [one for one in variants(CPU) if not one.compiled]
    monkeypatch.setattr(measure, "variants", lambda _: eager)


@pytest.mark.parametrize("name", KINDS)
def test_drawn_batches_train(name: str, sizes: Path) -> None:
    experiment = name if "@" in name else next(n for n in experiments() if n.partition("@")[0] == name)
    recipe = small(experiment, "paper", sizes)
    for variant in measure.variants(CPU):
        loss = updates(recipe, BatchSize(4, 8, 9), 2, variant, CPU)()
        assert loss.isfinite(), variant.name
    parts = built(recipe)
    (first, *_) = (
        drawn(one, parts) for one in batches(parts.data, recipe.config["data"], BatchSize(4, 8, 9), CPU)
    )
    tensors = [one for one in torch.utils._pytree.tree_leaves(first) if isinstance(one, torch.Tensor)]
    assert any(one.unique().numel() > 3 for one in tensors)


def recipes() -> list[Recipe]:
    return [load_recipe(COPY, "cpu"), load_recipe("frozen-pretrained-transformer/bit-xor@random", "cpu")]


def test_a_second_call_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    counted: list[str] = []

    def count(recipe: Recipe) -> Cost:
        counted.append(recipe.experiment)
        return cost(recipe)

    walk = measure_all(recipes(), CPU, count, float("inf"))
    first = next(walk)
    assert first is not None
    assert (first["variant"], first["seconds"][0] > 0, first["mfu"]) == ("float32", True, None)
    rows = json.loads((tmp_path / FILE).read_text())
    rows[0].pop("seconds")  # as if it had been killed while it measured
    (tmp_path / FILE).write_text(json.dumps(rows))
    assert list(measure_all(recipes(), CPU, count, 0.0)) == [None] * 4, "no time is left"
    assert len(counted) == 1
    result = [row for row in measure_all(recipes(), CPU, count, float("inf")) if row]
    assert [row["variant"] for row in result] == ["float32", "16 bits", "16 bits", "float32"]
    assert result[-1]["experiment"] == COPY, "what did not end is measured last"
    assert all(row["loss_difference"] < 0.05 for row in result if "loss_difference" in row)
    assert len(read_rows()) == 4
    assert list(measure_all(recipes(), CPU, count, float("inf"))) == []


def test_an_error_is_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RuntimeError("no kernel\nfor this")

    monkeypatch.setattr(measure, "updates", fail)
    assert [row and row["error"] for row in measure_all(recipes()[:1], CPU, cost, float("inf"))] == [
        "no kernel"
    ] * 2


def test_losses_are_compared_without_dropout() -> None:
    """Neither that of the recipe nor that which the constructor of the body has where the recipe names none."""
    recipe = load_recipe("frozen-pretrained-transformer/bit-memory@random", "cpu")
    assert "dropout" not in json.dumps(recipe.config["model"]["init_args"]["net"]["init_args"]["body"])
    for dropout in (False, True):
        losses = []
        for seed in (1, 2):
            update = updates(recipe, BatchSize(4, 24), 1, variants(CPU)[0], CPU, dropout)
            torch.manual_seed(seed)  # of what dropout draws
            losses.append((float(update()), float(update())))
        assert (losses[0] != losses[1]) is dropout


def test_hours_follow_from_measured_updates(tmp_path: Path) -> None:
    recipe, gpu = recipes()[0], gpu_named("H100")
    modelled = cost(recipe).gpu_hours(gpu)
    row = {
        "device": "NVIDIA H100 80GB HBM3",
        "shape": shape_of(recipe),
        "variant": "float32",
        "seconds": [2.0],
    }
    (tmp_path / FILE).write_text(json.dumps([row]))
    assert cost(recipe).gpu_hours(gpu) == pytest.approx(cost(recipe).updates * (2.0 + UPDATE_S) / 3600)
    assert cost(recipe).gpu_hours(gpu) != modelled
    assert cost(recipe).gpu_hours(gpu_named("A100")) != cost(recipe).gpu_hours(gpu)
    (tmp_path / FILE).write_text("[3]")
    with pytest.raises(UserError, match="damaged"):
        cost(recipe).gpu_hours(gpu)


def test_the_command_says_what_is_left() -> None:
    result = call("cost", COPY, "--scale", "cpu", "--measure")
    assert "16 bits" in result.out
    assert "ms an update" in result.out
    assert result.out.endswith("all measured\n")
    call("cost", COPY, "--scale", "cpu", "--measure", "--json").refused("--json")
