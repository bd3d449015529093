"""Shortformer: the committed recipe trains in stages as the authors' fork of fairseq does, and evaluates as it."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import StreamBatch
from tests.models import golden_adaptive, golden_infused
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER, NAME = "shortformer", "shortformer_staged"
UNUSED_CLUSTERS = (
    "A cluster that no token of a batch belongs to has no gradient in fairseq, and its velocity rests; ours is zero, "
    "and the velocity goes on. In these batches every cluster has a token."
)


def ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights under our names."""
    return golden_infused.ours(theirs, golden_infused.adaptive_names(3))


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink the recipe to the file's settings."""
    net, last = "model.net", settings["stages"][-1][1]
    return {
        "model.schedule.steps": settings["warmup"] + settings["period"],
        "model.schedule.warmup_steps": settings["warmup"],
        f"{net}.d_model": settings["d_model"],
        f"{net}.n_layers": settings["layers"],
        f"{net}.dropout": 0.0,
        f"{net}.vocabulary.size": settings["V"],
        f"{net}.vocabulary.cutoffs": settings["cutoffs"],
        f"{net}.vocabulary.dropout": 0.0,
        f"{net}.vocabulary.tail_dropout": 0.0,
        f"{net}.blocks.mixers.0.n_heads": settings["heads"],
        f"{net}.blocks.mixers.0.dropout": 0.0,
        f"{net}.blocks.feed_forward.d_ff": settings["ff"],
        f"{net}.blocks.feed_forward.dropout": 0.0,
        f"{net}.blocks.sublayer.dropout": 0.0,
        "model.protocol.seq_len": last,
        "model.protocol.mem_len": last,
    }


def blocks(ids: Tensor, lengths: Sequence[int], keep: bool = True) -> list[list[StreamBatch]]:
    """Blocks of a stream ``(rows, time)``; the memory is emptied before the first, or before each."""
    steps, at = [], 0
    for length in lengths:
        inputs, targets = ids[:, at : at + length], ids[:, at + 1 : at + length + 1]
        batch = StreamBatch(
            inputs, targets, None, torch.arange(len(ids)), at == 0 or not keep, 0, targets.numel()
        )
        steps.append([batch])
        at += length
    return steps


def trained_as(golden: Golden, keep: bool = True, **more: Any) -> Trained:
    """The recipe, shrunk, trained on the file's stages, in one run as the recipe's stages are."""
    settings = golden.meta["settings"]
    task, arguments = make_task("shortformer/shortformer@stage1-l128", overrides(settings) | more)
    golden_adaptive.fill(task.module, ours(golden.first_weights))
    steps = []
    for stage, (updates, length) in enumerate(settings["stages"]):
        steps += blocks(golden[f"stage{stage}/ids"], [length] * updates, keep)
    return train(task, arguments, steps)


def likelihoods(trained: Trained, ids: Tensor, lengths: Sequence[int]) -> Tensor:
    """Negative log-likelihoods ``(1, T)`` of a stream that is read in blocks, by the recipe's test protocol."""
    task: Any = trained.task.eval()
    result = []
    with torch.no_grad():
        for (batch,) in blocks(ids, lengths):
            result.append(task.net.vocabulary.nll(task._read(batch, task.protocols[""]), batch.targets))
    return torch.cat(result, dim=1)


def test_stages_and_both_evaluations() -> None:
    golden = read(NAME)
    trained, length = trained_as(golden), golden.meta["settings"]["stages"][-1][1]
    ids, count = golden["eval_ids"], golden["eval_nll"].shape[1]
    by_block = likelihoods(trained, ids, [length] * (count // length))
    one_by_one = likelihoods(trained, ids, [length] + [1] * (count - length))
    scores = [difference(by_block, golden["eval_nll"]), difference(one_by_one, golden["single_nll"])]
    result = differences(trained, golden, ours(golden.last_weights))
    check(PAPER, golden, {**result, "evaluation": max(scores)}, by_design=[UNUSED_CLUSTERS])


@pytest.mark.parametrize(
    "mistake",
    [
        {"keep": False},
        {"model.memory_as_input": False},
        {"model.schedule.warmup_steps": 4},
        {"model.optimizer.nesterov": False},
        {"trainer.gradient_clip_val": 0.2},
    ],
    ids=["no-memory", "memory-of-stages", "warmup", "nesterov", "clipping"],
)
def test_a_mistake_shows(mistake: dict[str, Any]) -> None:
    golden = read(NAME)
    result = differences(trained_as(golden, **mistake), golden, ours(golden.last_weights))
    assert result["weights"] > 1e-5, result
