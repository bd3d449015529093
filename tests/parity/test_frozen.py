"""Frozen Pretrained Transformer: Bit Memory and ListOps train as kzl/universal-computation does."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import ExampleBatch, Examples
from repro.models.pretrained import TOKENS, translate
from tests.models import golden_adaptive
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, differences, make_task, train

PAPER = "frozen-pretrained-transformer"
TASKS = ["bit-memory", "listops"]
BODY = "sequence_model."
OTHERS = {
    "in_net.0.weight": "input.proj.weight",
    "in_net.0.bias": "input.proj.bias",
    "in_net.weight": "input.table.weight",
    "out_net.0.weight": "head.proj.weight",
    "out_net.0.bias": "head.proj.bias",
}


def ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights under our names; the table of tokens of their GPT-2 is not used."""
    body = {name.removeprefix(BODY): value for name, value in theirs.items() if name.startswith(BODY)}
    named = {f"body.{name}": value for name, value in translate("gpt2", body).items() if name != TOKENS}
    return named | {mine: theirs[name] for name, mine in OTHERS.items() if name in theirs}


def overrides(settings: dict[str, Any], task: str) -> dict[str, Any]:
    """The overrides that shrink a recipe to a file's settings."""
    net = "model.net"
    shrunk = {
        f"{net}.body.d_model": settings["n_embd"],
        f"{net}.body.n_layers": settings["n_layer"],
        f"{net}.body.n_heads": settings["n_head"],
        f"{net}.body.max_length": settings["n_positions"],
        f"{net}.body.dropout": 0.0,
    }
    if task == "listops":
        return shrunk
    patch = settings["patch"]
    return shrunk | {
        f"{net}.input.size": patch,
        f"{net}.input.dropout": 0.0,
        f"{net}.n_read": settings["bits"] // patch,
        f"{net}.per_token": patch,
    }


def batches(golden: Golden, task: str) -> list[list[ExampleBatch]]:
    """For each update its micro-batches."""
    settings = golden.meta["settings"]
    x, y, rows = golden["x"], golden["y"], settings["micro_batch"]
    if task == "bit-memory":
        x = x.flatten(2).unflatten(2, (-1, settings["patch"]))
        y = (y > 0).long()  # bits of -1 and +1
    else:
        y = y[..., None]
    per_update, scored = settings["batch"] // rows, settings["batch"] * y.shape[-1]
    micro = [
        ExampleBatch(Examples(inputs, targets), torch.arange(rows), scored)
        for inputs, targets in zip(x, y, strict=True)
    ]
    return [micro[first : first + per_update] for first in range(0, len(micro), per_update)]


def trained_as(golden: Golden, task: str, **more: Any) -> Trained:
    """The point ``random`` of a recipe, shrunk, trained on a file's batches; ``clip`` replaces the recipe's."""
    clip = {"gradient_clip_val": more.pop("clip")} if "clip" in more else {}
    settings = overrides(golden.meta["settings"], task)
    built, arguments = make_task(f"{PAPER}/{task}@random", settings | more)
    golden_adaptive.fill(built.module, ours(golden.first_weights))
    return train(built, arguments | clip, batches(golden, task))


@pytest.mark.parametrize("task", TASKS)
def test_training(task: str) -> None:
    golden = read(f"frozen_{task}")
    trained = trained_as(golden, task)
    assert len(golden.last_weights) == len(golden.meta["trained"])
    check(PAPER, golden, differences(trained, golden, ours(golden.first_weights | golden.last_weights)))


@pytest.mark.parametrize("task", TASKS)
def test_all_else_stays_bit_equal(task: str) -> None:
    golden = read(f"frozen_{task}")
    trained = trained_as(golden, task)
    learns = {name for name, p in trained.task.module.named_parameters() if p.requires_grad}
    assert len(learns) == len(golden.meta["trained"])
    for name, value in ours(golden.first_weights).items():
        assert torch.equal(trained.weights[name], value) != (name in learns), name


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "mistake",
    [
        {"model.optimizer.eps": 1e-4},
        {"clip": 0.1},
        {"model.net.trained": ["input", "output", "norms"]},
        {"model.schedule": {"class_path": "repro.tasks.LinearDecay", "init_args": {"steps": 100}}},
    ],
    ids=["epsilon", "clipping", "frozen positions", "schedule"],
)
def test_a_mistake_shows(task: str, mistake: dict[str, Any]) -> None:
    golden = read(f"frozen_{task}")
    trained = trained_as(golden, task, **mistake)
    result = differences(trained, golden, ours(golden.first_weights | golden.last_weights))
    assert result["weights"] > 1e-5, result


def test_no_clipping_shows_where_gradients_exceed_1() -> None:
    """Those of Bit Memory do not; its gradients are clipped to 0.1 in the test above."""
    assert not bool((read("frozen_bit-memory")["norm"] > 1).any())
    golden = read("frozen_listops")
    trained = trained_as(golden, "listops", clip=None)
    assert differences(trained, golden, ours(golden.first_weights | golden.last_weights))["weights"] > 1e-5
