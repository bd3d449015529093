"""Shortformer: a training step with the memory of the block before, a long block, single tokens over a growing memory.

6 layers, width 512, blocks and memory of 128, batch 4 (long: 3,072, batch 1), no dropout, no optimiser. The authors'
fork of fairseq (ofirpress/shortformer) has our weights, and losses and logits must agree. It imports once
``numpy.float`` and ``numpy.int`` exist; a stand-in offers as much of a dictionary as its model asks for.
"""

import contextlib
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Workload, official, size
from repro.nn.mixer import detach
from tests.models import golden_infused

PADDING, WIDTH, D_FF, HEADS, LAYERS, VOCAB = 1, 512, 2048, 8, 6, 204
BATCH, LENGTH, TOKENS, LONG = size(4), size(128), size(64), size(3072)


class Ours:
    """This library, with the official code's weights where that is there."""

    def __init__(self, single: bool, length: int) -> None:
        sizes = {
            "d_model": WIDTH,
            "ff": D_FF,
            "heads": HEADS,
            "layers": LAYERS,
            "V": VOCAB,
            "final_norm": True,
        }
        self.model: Any = golden_infused.build(sizes, length).float()
        with contextlib.suppress(ImportError):
            self.model.load_state_dict(golden_infused.ours(Official(single, length).model.state_dict()))
        self.state: Any = None

    def start(self) -> None:
        self.state = None

    def logits(self, ids: Tensor) -> Tensor:
        """Of the next block ``(B, T)``."""
        given = self.model.init_state(len(ids)) if self.state is None else self.state
        hidden, state, *_ = self.model(ids, given)
        self.state = detach(state)
        return self.model.vocabulary.logits(hidden)

    def next(self, ids: Tensor, first: bool) -> Tensor:
        """Logits ``(B, V)`` behind the last of ids ``(B, T)``; after the first call only that one is new."""
        if first:
            self.state = self.model.init_state(len(ids), capacity=1_000_000)
        hidden, self.state, *_ = self.model(ids if first else ids[:, -1:], self.state)
        return self.model.vocabulary.logits(hidden[:, -1])


class Words:
    """As much of fairseq's dictionary as its model asks for."""

    def __len__(self) -> int:
        return VOCAB

    def pad(self) -> int:
        return PADDING


class Official:
    """The authors' fork, which keeps its memory on its layers."""

    def __init__(self, single: bool, length: int) -> None:
        for kind in (float, int):
            setattr(np, kind.__name__, kind)
        sys.path.insert(0, str(official("shortformer")))
        from fairseq.models.transformer_lm import TransformerLanguageModel

        sizes = Namespace(
            decoder_embed_dim=WIDTH, decoder_ffn_embed_dim=D_FF, decoder_layers=LAYERS, decoder_attention_heads=HEADS,
            dropout=0.0, share_decoder_input_output_embed=True, tokens_per_sample=length, tokens_from_prev=length,
            max_tokens=length, sliding_inf=1 if single else -1,
        )  # fmt: skip
        words = Namespace(source_dictionary=Words(), target_dictionary=Words())
        self.model: Any = TransformerLanguageModel.build_model(sizes, words)
        draw = torch.Generator().manual_seed(2)
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, std=0.02, generator=draw)
        self.model.train(not single)
        self.length = length

    def start(self) -> None:
        for layer in self.model.decoder.layers:
            layer.prev_out = None

    def logits(self, ids: Tensor) -> Tensor:
        return self.model(ids)[0]

    def next(self, ids: Tensor, first: bool) -> Tensor:
        if first:
            self.model.decoder.no_mask_counter = 0
            self.model.decoder.to_see = self.length
        return self.model(ids)[0][:, -1]


SIDES: dict[str, Callable[[bool, int], Any]] = {"ours": Ours, "official": Official}


def text(batch: int = BATCH, length: int = LENGTH) -> Tensor:
    """Ids ``(B, 2 * length + 1)``."""
    draw = torch.Generator().manual_seed(1)
    return torch.randint(PADDING + 3, VOCAB, (batch, 2 * length + 1), generator=draw)


def training(name: str) -> tuple[Callable[[], None], Callable[[None], Tensor]]:
    """The second block of a stream."""
    side, ids = SIDES[name](False, LENGTH), text()

    def prepare() -> None:
        side.model.zero_grad(set_to_none=True)
        side.start()
        with torch.no_grad():
            side.logits(ids[:, :LENGTH])

    def run(_: None) -> Tensor:
        logits = side.logits(ids[:, LENGTH : 2 * LENGTH])
        loss = cross_entropy(logits.flatten(0, 1), ids[:, LENGTH + 1 :].flatten())
        loss.backward()
        return loss

    return prepare, run


def evaluation(name: str) -> tuple[Callable[[], None], Callable[[None], Tensor]]:
    """A long block behind one of its length."""
    side, ids = SIDES[name](False, LONG), text(1, LONG)

    def prepare() -> None:
        side.start()
        with torch.inference_mode():
            side.logits(ids[:, :LONG])

    def run(_: None) -> Tensor:
        with torch.inference_mode():
            return side.logits(ids[:, LONG : 2 * LONG])

    return prepare, run


def generation(name: str) -> tuple[Callable[[], None], Callable[[None], Tensor]]:
    """Single tokens behind a first block."""
    side, ids = SIDES[name](True, LENGTH), text()
    side.model.eval()

    def prepare() -> None:
        with torch.inference_mode():
            side.next(ids[:, :LENGTH], True)

    def run(_: None) -> Tensor:
        with torch.inference_mode():
            ends = range(LENGTH + 1, LENGTH + 1 + TOKENS)
            return torch.stack([side.next(ids[:, end - LENGTH : end], False) for end in ends])

    return prepare, run


WORKLOADS = [
    Workload("Shortformer, training step", {n: partial(training, n) for n in SIDES}, tolerance=1e-4),
    Workload("Shortformer, 3,072 tokens behind 3,072", {n: partial(evaluation, n) for n in SIDES}),
    Workload("Shortformer, generation", {n: partial(generation, n) for n in SIDES}, "ms a token", TOKENS),
]
