"""Folding trained shortcuts into the weights around them: plain post-norm but for the first branch."""

import copy
from itertools import pairwise
from typing import TypeVar

import torch
from torch import nn

from repro.nn.attention.full import CrossAttention, FullAttention
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.layers.shortcut import shortcut_of, sublayers_of
from repro.nn.layers.stack import ResidualStack
from repro.nn.layers.sublayer import Sublayer, WeightedShortcut

_Net = TypeVar("_Net", bound=nn.Module)
# The projection through which each kind of body reads the sublayer's input; a memory is read through others.
READERS = {FullAttention: "qkv", CrossAttention: "q", FeedForward: "inner"}


def fold(net: _Net) -> _Net:
    """A copy of a network that computes the same without weighted shortcuts, but for the first branch of each stack.

    The norm before a sublayer gives ``x * omega`` in place of ``x``: its gain and bias take omega up. What the body
    reads is divided by it on the input side of its weights: queries, keys and values of self-attention, queries only of
    cross-attention, the first matrix of a feed-forward layer. A stack's last output and what others read of it stay.

    The first branch reads embeddings. Its omega stays where it is, since the table of vectors also belongs to the other
    stack and, where it is tied, to the output, and positions have no weights.

    Args:
        net: any network; left as it is.

    Raises:
        ValueError: a body whose readers are not known, no norm with gain and bias in front, weights that two sublayers
            share, or an omega of 0.

    Source: Liu et al. 2020, section 5 ("reparameterized into the original Transformer"); derived here.
    """
    folded = copy.deepcopy(net)
    taken: set[int] = set()
    for module in folded.modules():
        if isinstance(module, ResidualStack):
            for before, sublayer in pairwise(sublayers_of(module)):
                if isinstance(sublayer.shortcut, WeightedShortcut):
                    _fold(before, sublayer, taken)
    return folded


@torch.no_grad()
def _fold(before: Sublayer, sublayer: Sublayer, taken: set[int]) -> None:
    """Moves the omega of a sublayer into the norm of the one before and into its body."""
    omega, norm, reader = shortcut_of(sublayer).omega, before.norm_out, _reader(sublayer)
    if not isinstance(norm, nn.LayerNorm) or norm.weight is None or norm.bias is None:
        raise ValueError(
            f"no norm with gain and bias comes before {type(sublayer.body).__name__} to fold into"
        )
    if bool((omega == 0).any()):
        raise ValueError("an omega of 0 cannot be folded: what the body reads would be divided by it")
    for parameter in (reader.weight, norm.weight, norm.bias):
        if id(parameter) in taken:
            raise ValueError("two sublayers share weights, so that no omega can be folded into them")
        taken.add(id(parameter))
    reader.weight.div_(omega)
    norm.weight.mul_(omega)
    norm.bias.mul_(omega)
    sublayer.shortcut = nn.Identity()


def _reader(sublayer: Sublayer) -> nn.Linear:
    """The module that reads the input of a sublayer, besides its shortcut."""
    kind = type(sublayer.body)
    if kind not in READERS or not isinstance(sublayer.norm_in, nn.Identity):
        raise ValueError(f"{kind.__name__} cannot be folded: it is not in READERS, or has an input norm")
    reader = getattr(sublayer.body, READERS[kind])
    assert isinstance(reader, nn.Linear)
    return reader
