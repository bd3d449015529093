"""Transformer-XL: the committed recipes train as kimiyoung/transformer-xl does, and evaluate as its eval.py."""

from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import StreamBatch
from tests.models import golden_adaptive, golden_relative
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, differences, make_task, train

PAPER = "transformer-xl"
WT103, LM1B = "transformer-xl_wt103", "transformer-xl_lm1b"
RECIPES = {WT103: "transformer-xl/wt103-standard", LM1B: "transformer-xl/lm1b@base"}


def sizes(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that give a recipe a file's sizes, rate and schedule, and take its dropout away."""
    net, mixer = "model.net", "model.net.blocks.mixers.0"
    return {
        "model.schedule.steps": settings["max_step"],
        "model.optimizer.lr": settings["lr"],
        f"{net}.d_model": settings["d_model"],
        f"{net}.n_layers": settings["n_layer"],
        f"{net}.dropout": 0.0,
        f"{net}.final_dropout": 0.0,
        f"{net}.vocabulary.size": settings["n_token"],
        f"{net}.vocabulary.cutoffs": settings["cutoffs"],
        f"{mixer}.n_heads": settings["n_head"],
        f"{mixer}.d_head": settings["d_head"],
        f"{net}.blocks.feed_forward.d_ff": settings["d_inner"],
        f"{net}.blocks.feed_forward.dropout": 0.0,
        f"{net}.blocks.sublayer.dropout": 0.0,
    }


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink a recipe with a memory to a file's settings."""
    mixer, evaluation = "model.net.blocks.mixers.0", settings["eval"]
    clamp_len = evaluation["clamp_len"]
    warmup = {"model.schedule.warmup_steps": settings["warmup"]} if settings["warmup"] else {}
    return (
        sizes(settings)
        | warmup
        | {
            f"{mixer}.mem_len": settings["mem_len"],
            f"{mixer}.position_dropout": 0.0,
            "model.protocol.seq_len": evaluation["tgt_len"],
            "model.protocol.mem_len": evaluation["mem_len"],
            "model.protocol.clamp_len": None if clamp_len < 0 else clamp_len,
        }
    )


def stream(ids: Tensor, length: int, updates: int) -> list[list[StreamBatch]]:
    """Segments of a stream ``(time, rows)``; the memory is emptied before the first only."""
    steps = []
    for update in range(updates):
        at, rows = update * length, ids.shape[1]
        inputs, targets = ids[at : at + length].T, ids[at + 1 : at + length + 1].T
        batch = StreamBatch(inputs, targets, None, torch.arange(rows), update == 0, 0, targets.numel())
        steps.append([batch])
    return steps


def evaluated(trained: Trained, ids: Tensor) -> float:
    """Mean loss over a stream ``(time, rows)`` by the recipe's test protocol."""
    task: Any = trained.task.eval()
    protocol, total, scored = task.protocols[""], 0.0, 0
    with torch.no_grad():
        for at in range(0, len(ids) - 1, protocol.seq_len):
            inputs, targets = (
                ids[at : min(at + protocol.seq_len, len(ids) - 1)].T,
                ids[at + 1 : at + 1 + protocol.seq_len].T,
            )
            batch = StreamBatch(
                inputs, targets, None, torch.arange(ids.shape[1]), at == 0, 0, targets.numel()
            )
            hidden = task._read(batch, protocol).flatten(0, 1)
            total += float(task.net.vocabulary.nll(hidden, targets.flatten()).sum())
            scored += targets.numel()
    return total / scored


def trained_as(golden: Golden, **more: Any) -> Trained:
    """A file's recipe, shrunk, trained on its stream."""
    task, arguments = make_task(RECIPES[golden.name], overrides(golden.meta["settings"]) | more)
    settings = golden.meta["settings"]
    golden_adaptive.fill(task.module, golden_relative.ours(golden.first_weights, settings))
    return train(task, arguments, stream(golden["ids"], settings["tgt_len"], golden.updates))


@pytest.mark.parametrize("name", list(RECIPES))
def test_training_and_evaluation(name: str) -> None:
    golden = read(name)
    trained = trained_as(golden)
    result = differences(trained, golden, golden_relative.ours(golden.last_weights, golden.meta["settings"]))
    score = abs(evaluated(trained, golden["eval_ids"]) - float(golden["eval_loss"]))
    check(PAPER, golden, {**result, "evaluation": score})


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        (WT103, {"model.schedule.steps": 15}),
        (WT103, {"model.optimizer.eps": 1e-4}),
        (WT103, {"model.net.blocks.mixers.0.mem_len": 0}),
        (LM1B, {"model.schedule.peak_first": False}),
        (LM1B, {"model.schedule.warmup_steps": 5}),
        (LM1B, {"model.net.blocks.mixers.0.mem_len": 0}),
    ],
    ids=["schedule", "epsilon", "memory", "lm1b-first-rate", "lm1b-warmup", "lm1b-memory"],
)
def test_a_mistake_shows(name: str, mistake: dict[str, Any]) -> None:
    golden = read(name)
    result = differences(
        trained_as(golden, **mistake),
        golden,
        golden_relative.ours(golden.last_weights, golden.meta["settings"]),
    )
    assert result["weights"] > 1e-5, result
