"""Frozen Pretrained Transformers: an update on Bit Memory, and a pass without gradient, beside the authors' code.

GPT-2 small, random and frozen, batch 4 of 120 tokens. An update is forward, loss, backward, clipping and Adam over what
is trained, with dropout 0.1; a pass has none, and its outputs must agree. The authors' code (kzl/universal-computation)
takes its body from `transformers`, whose attention is fused (`sdpa`) or spelled out (`eager`); it asks for pretrained
weights even where random ones are wanted, and is given random ones.
"""

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Workload, official, size
from repro.data.sets.puzzles.bits import BitMemoryData
from repro.models import Classifier, Gpt2
from repro.nn import VectorEmbedding

BATCH, PATCH, READ, LAYERS = size(4), 50, 20, 12


def theirs(dropout: float, attention: str) -> nn.Module:
    """The authors' network around a random body."""
    sys.path.insert(0, str(official("universal-computation")))
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        n_layer=LAYERS, attn_pdrop=dropout, embd_pdrop=dropout, resid_pdrop=dropout, use_cache=False
    )
    config._attn_implementation = attention
    GPT2Model.from_pretrained = classmethod(lambda cls, name: cls(config))  # type: ignore[method-assign]
    from universal_computation.fpt import FPT

    torch.manual_seed(0)
    return FPT(PATCH, 2 * PATCH, dropout=dropout)


def ours(dropout: float) -> Classifier:
    """This library's network, with the weights of theirs where that is there."""
    layer = partial(VectorEmbedding, size=PATCH, dropout=dropout)
    net = Classifier(
        layer,
        Gpt2(n_layers=LAYERS, dropout=dropout),
        2,
        READ,
        PATCH,
        ["input", "output", "norms", "positions"],
    )
    with contextlib.suppress(ImportError):
        copy_weights(theirs(dropout, "sdpa"), net)
    return net


def copy_weights(given_by: nn.Module, net: Classifier) -> None:
    """Gives ours the weights of theirs."""
    given = given_by.state_dict()
    found = {
        "input.proj": "in_net.0",
        "head.proj": "out_net.0",
        "body.stack.final_norm": "sequence_model.ln_f",
    }
    for i in range(LAYERS):
        layer, block = f"body.stack.layers.{i}", f"sequence_model.h.{i}"
        for mine, name in (
            ("mix.norm_in", "ln_1"), ("mix.body.qkv", "attn.c_attn"), ("mix.body.out", "attn.c_proj"),
            ("feed_forward.norm_in", "ln_2"), ("feed_forward.body.inner", "mlp.c_fc"),
            ("feed_forward.body.outer", "mlp.c_proj"),
        ):  # fmt: skip
            found[f"{layer}.{mine}"] = f"{block}.{name}"
    state = {"body.positions.table.table.weight": given["sequence_model.wpe.weight"]}
    for mine, name in found.items():
        for part in ("weight", "bias"):
            value = given[f"{name}.{part}"]
            state[f"{mine}.{part}"] = value.T if part == "weight" and ".c_" in name else value
    net.load_state_dict(state)


def side(name: str, learn: bool) -> Callable[[], Any]:
    """One code: an update or a pass."""
    dropout = 0.1 if learn else 0.0
    net: Any = ours(dropout) if name == "ours" else theirs(dropout, name.split()[-1])
    net.train(learn)
    examples = BitMemoryData(BATCH).examples("train", np.arange(BATCH), 0)
    given = examples.inputs if name == "ours" else examples.inputs.reshape(BATCH, 6, -1)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=1e-3)

    def update() -> None:
        optimizer.zero_grad()
        cross_entropy(net(given).reshape(-1, 2), examples.targets.flatten()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

    def read() -> Tensor:
        with torch.inference_mode():
            return net(given).reshape(BATCH, -1, 2)

    return update if learn else read


NAMES = ("ours", "official, sdpa", "official, eager")
WORKLOADS = [
    Workload("frozen GPT-2, update", {n: partial(side, n, True) for n in NAMES}),
    Workload("frozen GPT-2, forward", {n: partial(side, n, False) for n in NAMES}, tolerance=1e-3),
]
