"""Every mixer, listed once. One entry in ``MIXERS`` joins the three laws and the state tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from repro.nn import (
    CompressedMemory,
    CompressiveAttention,
    ContinuousMemory,
    ContinuousSignal,
    ConvolutionCompression,
    FeedForward,
    FullAttention,
    Hashing,
    InfusedAttention,
    LearnedPositions,
    LinearAttention,
    LocalAttention,
    LSHAttention,
    MaxCompression,
    MeanCompression,
    NormedLSTM,
    RelativeAttention,
    ShawAttention,
)
from repro.nn.laws import difference, even_takes, feed, gradients, randomise, valid
from tests.nn import (
    reference,
    reference_compressed,
    reference_compressive,
    reference_continuous,
    reference_infused,
    reference_linear,
    reference_lsh,
    reference_recurrent,
    reference_relative,
)

__all__ = [
    "CAUSAL",
    "DIRECTIONS",
    "D_MODEL",
    "MIXERS",
    "build",
    "difference",
    "even_takes",
    "feed",
    "gradients",
    "valid",
]
D_MODEL = 12
SIGNAL = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, ridge=0.3)


class Reference(Protocol):
    """A naive loop; see :func:`tests.nn.reference.self_attention`."""

    def __call__(
        self, mixer: Any, x: Tensor, causal: bool, lengths: Tensor | None, past: Sequence[Tensor] | None
    ) -> Tensor: ...


@dataclass(frozen=True)
class Case:
    """A mixer and what it must equal.

    Attributes:
        make: maker of the mixer, ``D_MODEL`` wide, without dropout.
        reference: the naive loop.
        directions: values of ``Layout.causal`` it is made for.
        carries_gradient: False for a mixer that detaches its memory by definition (outputs still obey law I).
    """

    make: Callable[[], nn.Module]
    reference: Reference
    directions: tuple[bool, ...] = (True, False)
    carries_gradient: bool = True


class TwoSided(nn.Module):
    """Features of twice the width."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.sigmoid(), (-x).exp()], dim=-1)


MIXERS = {
    "full": Case(lambda: FullAttention(D_MODEL, 3), reference.self_attention),
    "full, narrow keys": Case(
        lambda: FullAttention(D_MODEL, 2, d_head=3, d_value=5), reference.self_attention
    ),
    "full, no bias": Case(lambda: FullAttention(D_MODEL, 4, bias=False), reference.self_attention),
    # Memories that just hold what the laws feed: nothing is cut.
    "infused": Case(lambda: InfusedAttention(D_MODEL, 3, mem_len=10), reference_infused.infused),
    "infused, learned table": Case(
        lambda: InfusedAttention(
            D_MODEL, 2, d_head=5, mem_len=10, bias=False, table=lambda width: LearnedPositions(width, 63)
        ),
        reference_infused.infused,
    ),
    "infused, no positions": Case(
        lambda: InfusedAttention(D_MODEL, 4, mem_len=10, table=None), reference_infused.infused
    ),
    "relative": Case(
        lambda: RelativeAttention(D_MODEL, 3, mem_len=20), reference_relative.relative, directions=(True,)
    ),
    "relative, narrow": Case(
        lambda: RelativeAttention(D_MODEL, 2, d_head=5, mem_len=20, shared_biases=False),
        reference_relative.relative,
        directions=(True,),
    ),
    "continuous, single tokens": Case(
        lambda: ContinuousMemory(D_MODEL, lambda d: InfusedAttention(d, 3, mem_len=4), 1, SIGNAL),
        reference_continuous.continuous,
        directions=(True,),
    ),
    "continuous, sticky": Case(
        lambda: ContinuousMemory(
            D_MODEL, lambda d: RelativeAttention(d, 2, mem_len=5), 1, replace(SIGNAL, bins=7)
        ),
        reference_continuous.continuous,
        directions=(True,),
    ),
    "compressive": Case(
        lambda: CompressiveAttention(D_MODEL, 3, 20, 4, partial(ConvolutionCompression, rate=3)),
        reference_compressive.covering,
        directions=(True,),
    ),
    "compressive, mean, narrow": Case(
        lambda: CompressiveAttention(
            D_MODEL, 2, 20, 3, partial(MeanCompression, rate=2), d_head=5, shared_biases=False
        ),
        reference_compressive.covering,
        directions=(True,),
    ),
    "compressive, max": Case(
        lambda: CompressiveAttention(D_MODEL, 2, 20, 3, partial(MaxCompression, rate=4)),
        reference_compressive.covering,
        directions=(True,),
    ),
    # Blocks of one token, so that every call ends where a block ends; the rest is in test_attention_compressed.py.
    "compressed, single tokens": Case(
        lambda: CompressedMemory(
            D_MODEL, lambda d: FullAttention(d, 3), 1, 4, partial(ConvolutionCompression, rate=1)
        ),
        reference_compressed.compressed,
        directions=(True,),
    ),
    # Some of the distances lie beyond the table.
    "shaw": Case(
        lambda: ShawAttention(D_MODEL, 3, max_distance=9, mem_len=20),
        reference_relative.shaw,
        directions=(True,),
    ),
    "linear": Case(lambda: LinearAttention(D_MODEL, 3), reference_linear.linear),
    "linear, narrow, chunks of 4": Case(
        lambda: LinearAttention(D_MODEL, 2, d_head=3, d_value=5, chunk=4, eps=0.1), reference_linear.linear
    ),
    "linear, other features, chunks of 1": Case(
        lambda: LinearAttention(D_MODEL, 4, bias=False, feature_map=TwoSided, chunk=1),
        reference_linear.linear,
    ),
    # One chunk covers everything, and every output depends on its own token; the rest is in test_attention_lsh.py.
    "lsh, unit keys": Case(
        lambda: LSHAttention(
            D_MODEL, 2, Hashing(2, across_buckets=True, see_self=True), d_head=5, d_value=3, bias=True
        ),
        reference_lsh.covering,
    ),
    "lsh, plain keys": Case(
        lambda: LSHAttention(D_MODEL, 2, Hashing(0, unit_keys=False, see_self=True)), reference_lsh.covering
    ),
    "local": Case(lambda: LocalAttention(D_MODEL, 3, chunk=4, bias=True), reference_lsh.local),
    "local, wide": Case(
        lambda: LocalAttention(D_MODEL, 2, chunk=3, before=2, after=1, d_head=5), reference_lsh.local
    ),
    # Without causality it has no state; see test_attention_local.py.
    "local, wrapped": Case(
        lambda: LocalAttention(D_MODEL, 3, chunk=4, after=1, wrap=True),
        reference_lsh.local,
        directions=(True,),
    ),
    "lstm": Case(lambda: NormedLSTM(D_MODEL), reference_recurrent.lstm, directions=(True,)),
    "feed-forward": Case(lambda: FeedForward(D_MODEL, 20), reference.feed_forward),
    "feed-forward, no bias": Case(lambda: FeedForward(D_MODEL, 7, bias=False), reference.feed_forward),
}
DIRECTIONS = [(name, causal) for name, case in MIXERS.items() for causal in case.directions]
CAUSAL = [name for name, case in MIXERS.items() if True in case.directions]


def build(name: str, seed: int = 0) -> nn.Module:
    """The mixer of that name in float64, every weight and bias random, so that a forgotten term shows."""
    torch.manual_seed(seed)
    return randomise(MIXERS[name].make().double().eval())
