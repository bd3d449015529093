"""The recipe of nanoGPT's characters of Shakespeare trains as karpathy/nanoGPT does."""

import re
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import StreamBatch
from repro.tasks import DecayedMatrices
from tests.models import golden_adaptive
from tests.parity.golden import Golden, check, read
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "attention-is-all-you-need"
NAMES = {
    r"transformer\.wte": "vocabulary.embedding.table",
    r"transformer\.wpe": "positions.table.table",
    r"transformer\.ln_f": "stack.final_norm",
    r"transformer\.h\.(\d+)\.ln_1": r"stack.layers.\1.mix.norm_in",
    r"transformer\.h\.(\d+)\.ln_2": r"stack.layers.\1.feed_forward.norm_in",
    r"transformer\.h\.(\d+)\.attn\.c_attn": r"stack.layers.\1.mix.body.qkv",
    r"transformer\.h\.(\d+)\.attn\.c_proj": r"stack.layers.\1.mix.body.out",
    r"transformer\.h\.(\d+)\.mlp\.c_fc": r"stack.layers.\1.feed_forward.body.inner",
    r"transformer\.h\.(\d+)\.mlp\.c_proj": r"stack.layers.\1.feed_forward.body.outer",
}


def our_name(theirs: str) -> str:
    module, _, leaf = theirs.rpartition(".")
    pattern = next(pattern for pattern in NAMES if re.fullmatch(pattern, module))
    return f"{re.sub(pattern, NAMES[pattern], module)}.{leaf}"


def ours(theirs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights under our names."""
    return {our_name(name): weight for name, weight in theirs.items()}


def overrides(settings: dict[str, Any]) -> dict[str, Any]:
    """The overrides that shrink the recipe to the file's settings."""
    net, schedule = "model.net", "model.schedule"
    return {
        f"{net}.d_model": settings["n_embd"],
        f"{net}.n_layers": settings["n_layer"],
        f"{net}.vocabulary.size": settings["vocab_size"],
        f"{net}.positions.table.max_length": settings["block_size"],
        f"{net}.blocks.mixers.0.n_heads": settings["n_head"],
        f"{net}.blocks.feed_forward.d_ff": 4 * settings["n_embd"],
        "model.protocol.seq_len": settings["block_size"],
        "model.protocol.stride": settings["block_size"],
        "model.protocols.sampled.seq_len": settings["block_size"],
        "model.optimizer.optimizer.lr": settings["learning_rate"],
        f"{schedule}.steps": settings["lr_decay_iters"],
        f"{schedule}.warmup_steps": settings["warmup_iters"],
        f"{schedule}.first": 1 / (settings["warmup_iters"] + 1),
        f"{schedule}.last": settings["min_lr"] / settings["learning_rate"],
    }


def batch(ids: Tensor, targets: Tensor) -> StreamBatch:
    return StreamBatch(ids, targets, None, torch.arange(len(ids)), True, 0, targets.numel())


def trained_as(golden: Golden, **more: Any) -> Trained:
    """The small point of the recipe, shrunk, trained on the file's batches."""
    task, arguments = make_task(f"{PAPER}/shakespeare@l4-d128", overrides(golden.meta["settings"]) | more)
    golden_adaptive.fill(task.module, ours(golden.first_weights))
    return train(task, arguments, [[batch(*pair)] for pair in zip(golden["x"], golden["y"], strict=True)])


def found(golden: Golden, **more: Any) -> dict[str, float]:
    return differences(trained_as(golden, **more), golden, ours(golden.last_weights))


def evaluated(trained: Trained, golden: Golden) -> Tensor:
    """Mean loss of a batch after the last update."""
    net: Any = trained.task.eval().net  # type: ignore[union-attr]
    with torch.no_grad():
        loss: Tensor = net.vocabulary.nll(net(golden["eval_x"]).y, golden["eval_y"]).mean()
    return loss


def test_training_and_evaluation() -> None:
    golden = read("transformer_nanogpt")
    trained = trained_as(golden)
    compared = differences(trained, golden, ours(golden.last_weights))
    check(
        PAPER, golden, compared | {"evaluation": difference(evaluated(trained, golden), golden["eval_loss"])}
    )


@pytest.mark.parametrize(
    "mistake",
    [
        {"model.optimizer.optimizer.weight_decay": 0.0},
        {"model.optimizer.optimizer.betas": [0.9, 0.95]},
        {
            "model.net.blocks.feed_forward.activation": {
                "class_path": "torch.nn.GELU",
                "init_args": {"approximate": "tanh"},
            }
        },
        {"model.schedule.first": 0.0},
        {"trainer.gradient_clip_val": 0.0},
    ],
    ids=["decay", "betas", "activation", "first-rate", "clipping"],
)
def test_a_mistake_shows(mistake: dict[str, Any]) -> None:
    assert found(read("transformer_nanogpt"), **mistake)["weights"] > 1e-6


def test_decayed_norms_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DecayedMatrices, "groups", lambda maker, named: [{"params": list(named.values())}])
    assert found(read("transformer_nanogpt"))["weights"] > 1e-6
