"""A training step (forward, loss, backward; no optimiser) and a forward pass of the base Transformer.

8 pairs of 48 tokens, vocabulary 32,768, label smoothing 0.1; a step has dropout 0.1, a forward pass none and no
gradient. Equal weights: the losses of the forward passes must agree. `ours` is forward what a validation does, with its
weights laid out beforehand; `ours, plain` has them as torch does. Then the loss of 2,048 tokens alone with its
gradients, all logits at once and in chunks.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.harness import Workload, size
from benchmarks.workloads import translators
from benchmarks.workloads.translators import BOS, LENGTH, VOCAB, WIDTH
from repro.nn import Vocabulary
from repro.nn.packed import LEAST_STEPS, packed

BATCH, SMOOTHING, TOKENS = size(8), 0.1, size(2048, 2)
LAYOUTS = ExitStack()  # to the end of the process


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Sources, targets going in and targets wanted, ``(B, T)``."""
    ids = torch.randint(3, VOCAB, (3, BATCH, LENGTH), generator=torch.Generator().manual_seed(1))
    return ids[0], torch.cat([torch.full_like(ids[1, :, :1], BOS), ids[2, :, :-1]], 1), ids[2]


def our_loss(model: Any, source: Tensor, target: Tensor, wanted: Tensor) -> Tensor:
    """Sum of the smoothed losses; epsilon such that, as in the peers, the target has its share of it."""
    scores = model.vocabulary.score(model(source, None, target).y, wanted)
    return scores.smoothed(SMOOTHING * (VOCAB - 1) / VOCAB, VOCAB).sum()


def logits_of(name: str, model: Any, source: Tensor, target: Tensor) -> Tensor:
    """Logits ``(B, T, V)`` of a peer."""
    if name == "Marian":
        return model(input_ids=source, decoder_input_ids=target, use_cache=False).logits
    if name == "fairseq":
        return model(source, torch.full((BATCH,), LENGTH), target)[0]
    return model(source, target)


def side(name: str, learn: bool) -> tuple[Callable[[], None], Callable[[None], Any]]:
    """One code."""
    dropout = 0.1 if learn else 0.0
    makers: dict[str, Callable[[float], nn.Module]] = {
        "ours": translators.ours,
        "ours, plain": translators.ours,
        "torch.nn": translators.TorchTransformer,
        "Marian": translators.marian,
        "fairseq": translators.fairseq,
    }
    model = makers[name](dropout).train(learn)
    if name == "ours" and not learn:
        LAYOUTS.enter_context(packed(model.modules(), LEAST_STEPS))
    source, target, wanted = batch()

    def loss() -> Tensor:
        if name.startswith("ours"):
            return our_loss(model, source, target, wanted)
        logits = logits_of(name, model, source, target).flatten(0, 1)
        return cross_entropy(logits, wanted.flatten(), label_smoothing=SMOOTHING, reduction="sum")

    def run(_: None) -> Any:
        if learn:
            return loss().backward()
        with torch.inference_mode():
            return loss()

    return partial(model.zero_grad, set_to_none=True), run


def loss_alone(chunk: int | None) -> Callable[[], Any]:
    """Losses over the vocabulary, and gradients of hidden states and weights."""
    vocabulary, draw = Vocabulary(WIDTH, WIDTH, VOCAB, loss_chunk=chunk), torch.Generator().manual_seed(1)
    hidden = torch.randn(TOKENS, WIDTH, generator=draw, requires_grad=True)
    targets, weight = torch.randint(VOCAB, (TOKENS,), generator=draw), vocabulary.embedding.table.weight
    torch.nn.init.normal_(
        weight, std=WIDTH**-0.5, generator=draw
    )  # larger ones give slow numbers below 1e-38

    def run() -> list[Tensor]:
        nll = vocabulary.nll(hidden, targets)
        return [nll, *torch.autograd.grad(nll.sum(), [hidden, weight])]

    return run


NAMES = ("ours", "torch.nn", "Marian", "fairseq")
VALIDATION = ("ours", "ours, plain", *NAMES[1:])
WORKLOADS = [
    Workload("base Transformer, training step", {n: partial(side, n, True) for n in NAMES}, turns=7),
    Workload(
        "base Transformer, forward", {n: partial(side, n, False) for n in VALIDATION}, tolerance=1e-4, turns=7
    ),
    Workload(
        "loss over 32,768 tokens, with gradients",
        {"ours": partial(loss_alone, None), "loss_chunk 256": partial(loss_alone, 256)},
        tolerance=1e-4,
    ),
]
