"""∞-former: an update of a continuous memory and its attention, forward and backward, beside the released module.

Batch 8, blocks of 1,024 tokens, 512 basis functions, width 300, 6 heads: the constants of `sorting` of
deep-spin/infinite-former. Two changes are made while it is read: the device is the CPU, and the attribute
``share_mask``, which it reads and never sets, is False. `as released` keeps the anomaly detection that it turns on.
Both have the same weights and must give the same outputs; for that, its regression matrices, which it inverts in
float32, are replaced by ours.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Workload, official, size
from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.gaussian import divergence
from repro.nn.attention.continuous.long_term import LongTermMemory
from repro.nn.attention.continuous.regression import fit

D_MODEL, HEADS, BLOCK, BATCH, BASIS = 300, 6, size(1024), size(8), 512
NAMES = {
    "key": "proj_key", "value": "proj_value", "out": "attn_out", "gate": "mask_net", "mean": "mu", "spread": "sigma"
}  # fmt: skip


class Anything(ModuleType):
    """Stands in for a package that the released code imports and does not use here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return object


def released() -> Any:
    """The released module on the CPU."""
    folder = official("infinite-former") / "sorting"
    for name in ("entmax", "matplotlib", "matplotlib.pyplot"):
        sys.modules[name] = Anything(name)
    sys.path.insert(0, str(folder))
    source = (folder / "long_term_attention.py").read_text()
    module: Any = ModuleType("released")
    exec(compile(source.replace("'cuda'", "'cpu'"), "long_term_attention.py", "exec"), vars(module))
    torch.autograd.set_detect_anomaly(False)
    module.LongTermAttention.share_mask = False
    torch.manual_seed(0)
    return module.LongTermAttention(
        head_size=D_MODEL // HEADS, length=BLOCK, target_len=BLOCK, attn_func="softmax", attn_num_basis=BASIS,
        attn_drop=0.0, infinite_memory=True, n_layers=1, n_heads=HEADS, d_model=D_MODEL, mask=True, mask_type="cnn",
        kl_regularizer=True, sigma_0=0.05, mu_0=None,
    )  # fmt: skip


def same_weights() -> tuple[LongTermMemory, Any]:
    """Ours, and the released module, with the same weights and matrices; None where it is not there."""
    signal = ContinuousSignal.sorting(BASIS)
    ours = LongTermMemory(D_MODEL, HEADS, D_MODEL // HEADS, signal)
    try:
        theirs = released()
    except ImportError:
        return ours, None
    given = theirs.state_dict()
    ours.load_state_dict(
        {k: given[k.replace(k.split(".")[0], NAMES[k.split(".")[0]], 1)] for k in ours.state_dict()}
    )
    matrices = fit(signal, BLOCK, torch.float32, torch.device("cpu"))
    theirs.G_inf = torch.cat([matrices.past, matrices.new])
    return ours, theirs


def step(name: str, anomalies: bool = False) -> Callable[[], Tensor]:
    """One update and one attention, with the past given, and their gradients."""
    ours, theirs = same_weights()
    if name != "ours" and theirs is None:
        official("infinite-former")
    draw = torch.Generator().manual_seed(1)
    block, earlier = torch.randn(2, BATCH, BLOCK, D_MODEL, generator=draw)
    query = torch.randn(BATCH, BLOCK, HEADS, D_MODEL // HEADS, generator=draw).requires_grad_()
    past = ours.update(ours.empty(BATCH), earlier, torch.ones(BATCH, dtype=torch.bool), None).detach()

    def mine() -> tuple[Tensor, Tensor]:
        read = ours(ours.update(past, block, torch.zeros(BATCH, dtype=torch.bool), None), query)
        return read.y, divergence(read.mean, read.variance, ours.signal.kl_sigma, None)

    def other() -> tuple[Tensor, Tensor]:
        theirs.B_past = past
        y, kl = theirs(block.transpose(0, 1), query.transpose(0, 1).flatten(2))
        return y.transpose(0, 1), kl

    def run() -> Tensor:
        with torch.autograd.set_detect_anomaly(anomalies):
            y, kl = mine() if name == "ours" else other()
            (y.square().mean() + kl.mean()).backward()
        return y

    return run


WORKLOADS = [
    Workload(
        "∞-former, update and attention",
        {
            "ours": partial(step, "ours"),
            "official": partial(step, "official"),
            "official, as released": partial(step, "official", True),
        },
        turns=5,
    )
]
