"""Transformer-XL: a training step, a segment of evaluation and single tokens, behind a full memory.

6 layers, width 512, segment and memory of 256, batch 4, no dropout, no optimiser. The authors' PyTorch code
(kimiyoung/transformer-xl) has our weights, and losses must agree; it imports once its masks are boolean and
``torch.version.cuda`` is a text, both changed in memory. x-transformers has rotary positions and ``max_mem_len``:
another model of the same size.
"""

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Workload, official, size
from repro.nn.mixer import detach
from tests.models import golden_adaptive, golden_relative

VOCAB, BATCH, LENGTH, TOKENS = 204, size(4), size(256), size(16)
OPTIONS: dict[str, Any] = {
    "d_model": 512, "d_inner": 2048, "n_head": 8, "d_head": 64, "n_layer": 6, "n_token": VOCAB, "tgt_len": LENGTH,
    "mem_len": LENGTH, "dropout": 0.0, "dropatt": 0.0, "ext_len": 0, "clamp_len": -1,
}  # fmt: skip


class Ours:
    """This library, with the official code's weights where that is there and sizes are not ``other`` ones."""

    def __init__(self, **other: Any) -> None:
        self.model: Any = golden_relative.build(OPTIONS | other).float()
        if other:
            return
        try:
            theirs = {name: value.detach() for name, value in Official().model.named_parameters()}
            golden_adaptive.fill(self.model, golden_relative.ours(theirs, {}))
        except ImportError:
            pass

    def start(self, kept: bool) -> Any:
        return self.model.init_state(BATCH, 1_000_000 if kept else None)

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Mean loss of the next tokens ``(B, T)``, and the state."""
        hidden, state, *_ = self.model(ids, state)
        return self.model.vocabulary.nll(hidden, targets).mean(), detach(state)


class Official:
    """The authors' model: time first, memory as a list."""

    def __init__(self) -> None:
        folder = official("transformer-xl") / "pytorch"
        sys.path.insert(0, str(folder / "utils"))
        given, torch.version.cuda = torch.version.cuda, torch.version.cuda or "12.0"
        module: Any = ModuleType("mem_transformer")
        text = (folder / "mem_transformer.py").read_text().replace(".byte()", ".bool()")
        exec(compile(text, "mem_transformer.py", "exec"), module.__dict__)
        torch.version.cuda = given
        self.model: Any = module.MemTransformerLM(**OPTIONS)
        draw = torch.Generator().manual_seed(2)
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, std=0.02, generator=draw)

    def start(self, kept: bool) -> Any:
        return ()

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        self.model.reset_length(ids.shape[1], 0, LENGTH)
        loss, *state = self.model(ids.T.contiguous(), targets.T.contiguous(), *state)
        return loss.mean(), state


class XTransformers:
    """x-transformers with its own memory."""

    def __init__(self, fused: bool) -> None:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(
            dim=512, depth=6, heads=8, attn_dim_head=64, ff_mult=4, rotary_pos_emb=True, attn_flash=fused
        )
        self.model: Any = TransformerWrapper(
            num_tokens=VOCAB, max_seq_len=LENGTH, max_mem_len=LENGTH, attn_layers=layers, tie_embedding=True
        )

    def start(self, kept: bool) -> Any:
        return None

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self.model(ids, mems=state, return_mems=True)
        return cross_entropy(logits.flatten(0, 1), targets.flatten()), state


SIDES: dict[str, Callable[[], Any]] = {
    "ours": Ours,
    "official": Official,
    "x-transformers": partial(XTransformers, False),
    "x-transformers, fused": partial(XTransformers, True),
}


def turn(name: str, learn: bool, tokens: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """One side's turn."""
    return turn_of(SIDES[name](), learn, tokens)


def turn_of(side: Any, learn: bool, tokens: int) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """A segment behind a full memory, or single tokens of it."""
    side.model.train(learn)
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(VOCAB, (BATCH, 2 * LENGTH + 1), generator=draw)

    def prepare() -> Any:
        side.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            return side.loss(ids[:, :LENGTH], ids[:, 1 : LENGTH + 1], side.start(not learn))[1]

    def run(state: Any) -> list[Tensor]:
        size, losses = (1, []) if tokens else (LENGTH, [])
        with torch.set_grad_enabled(learn):
            for at in range(LENGTH, LENGTH + (tokens or 1)):
                loss, state = side.loss(ids[:, at : at + size], ids[:, at + 1 : at + 1 + size], state)
                losses.append(loss)
        if learn:
            losses[0].backward()
        return losses

    return prepare, run


def workload(what: str, learn: bool, tokens: int, unit: str = "ms") -> Workload:
    """One of the three."""
    sides = {name: partial(turn, name, learn, tokens) for name in SIDES}
    return Workload(f"Transformer-XL, {what}", sides, unit, tokens or 1, 1e-4, ("official",), turns=7)


WORKLOADS = [
    workload("training step", True, 0),
    workload("evaluation", False, 0),
    workload("generation", False, TOKENS, "ms a token"),
]
