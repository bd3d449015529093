"""Multi30k of Wu et al. 2021: the committed recipe trains as the authors' fork of fairseq does."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.batches import PairBatch
from repro.nn import CrossAttention, FullAttention
from tests.models import golden_adaptive, golden_weighted
from tests.parity.golden import Golden, check, read
from tests.parity.pairs import overrides
from tests.parity.test_transformer import batches
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "attention-is-all-you-need"
EN_DE = f"{PAPER}/multi30k@en-de"
LONGEST = 25.0  # of their gradients, by default
BEGIN = "The decoder's first input is their end symbol, which the recipe has a symbol of its own for."


def fused(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Their weights with q, k and v of an attention as one matrix and one bias, under our names."""
    result = {}
    for name, value in theirs.items():
        if ".k_proj." in name or ".v_proj." in name:
            continue
        if ".q_proj." not in name:
            result[name] = value
            continue
        parts = [theirs[name.replace("q_proj", f"{part}_proj")] for part in "qkv"]
        result[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    return golden_weighted.both(result)


def trained_as(golden: Golden, **more: Any) -> Trained:
    """The recipe, shrunk, trained on the file's batches."""
    settings = golden.meta["settings"]
    given = overrides(settings) | {"model.schedule.warmup_steps": settings["warmup"]} | more
    task, arguments = make_task(EN_DE, given)
    golden_adaptive.fill(task.module, fused(golden.first_weights))
    return train(task, arguments, batches(golden))


def found(golden: Golden, **more: Any) -> dict[str, float]:
    return differences(trained_as(golden, **more), golden, fused(golden.last_weights))


def valid_loss(trained: Trained, micro_batches: list[PairBatch]) -> Tensor:
    """Computes ``val/loss`` on some batches: the mean of the smoothed loss over all target tokens."""
    task: Any = trained.task.eval()
    with torch.no_grad():
        smooth = [task._losses(batch)[1].sum() for batch in micro_batches]
    return torch.stack(smooth).sum() / sum(batch.target_lengths.sum() for batch in micro_batches)


def test_training_and_validation() -> None:
    golden = read("transformer_multi30k")
    clipped = golden["norm"] > LONGEST
    assert clipped.any()
    assert not clipped.all()
    trained = trained_as(golden)
    met = differences(trained, golden, fused(golden.last_weights))
    met["evaluation"] = difference(valid_loss(trained, batches(golden)[-1]), golden["valid_loss"])
    check(PAPER, golden, met, by_design=[BEGIN])


def test_dropout_is_where_they_have_it() -> None:
    """On the sums of embeddings and on every sublayer's output; not on attention weights or within feed-forwards."""
    task, _ = make_task(EN_DE, {})
    dropped = {
        name.removesuffix(".dropout"): module.p
        for name, module in task.module.named_modules()
        if isinstance(module, nn.Dropout) and module.p
    }
    parts = {"encoder": ("mix", "feed_forward"), "decoder": ("mix", "cross", "feed_forward")}
    sublayers = [
        f"{stack}.layers.{layer}.{part}" for stack in parts for layer in range(4) for part in parts[stack]
    ]
    assert dropped == dict.fromkeys(["dropout", *sublayers], 0.3)
    attentions = [m for m in task.module.modules() if isinstance(m, FullAttention | CrossAttention)]
    assert len(attentions) == 12
    assert all(module.dropout == 0.0 for module in attentions)


@pytest.mark.parametrize(
    ("mistake", "least"),
    [
        ({"model.smoothing_over_all": False}, 1e-6),
        ({"model.optimizer.class_path": "torch.optim.Adam"}, 1e-8),
        ({"trainer.gradient_clip_val": None}, 1e-6),
        ({"model.net.positions.table.first": 1}, 1e-6),
        ({"model.net.blocks.sublayer.eps": 1e-6}, 1e-6),
        ({"model.schedule.first": 0.0}, 1e-8),
    ],
    ids=["smoothing", "adam", "unclipped", "positions", "norms", "rates"],
)
def test_a_mistake_shows(mistake: dict[str, Any], least: float) -> None:
    differing = found(read("transformer_multi30k"), **mistake)
    assert differing["weights"] > least, differing
