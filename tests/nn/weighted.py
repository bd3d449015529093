"""Encoder-decoders with weighted shortcuts and random weights, in float64, and sentences of different lengths."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from repro.models import EncoderDecoder
from repro.nn import Blocks, CrossAttention, FeedForward, FullAttention, Vocabulary, WeightedPostNorm
from tests.nn.mixers import randomise

D, SIZE = 8, 13
SOURCE = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 2, 0, 0], [4, 4, 0, 0, 0]])
LENGTHS = torch.tensor([5, 3, 2])
TARGET = torch.tensor([[1, 5, 6, 7], [1, 8, 0, 0], [1, 9, 11, 0]])
TARGET_LENGTHS = torch.tensor([4, 2, 3])


def blocks(dropout: float = 0.0, **more: Any) -> Blocks:
    given: dict[str, Any] = {
        "mixers": [partial(FullAttention, n_heads=2)],
        "cross": partial(CrossAttention, n_heads=2),
        "feed_forward": partial(FeedForward, d_ff=12),
        "sublayer": partial(WeightedPostNorm, dropout=dropout),
    }
    return Blocks(**given | more)


def network(layers: int = 3, dropout: float = 0.0, omegas: bool = True, **more: Any) -> EncoderDecoder:
    """A network whose every weight, bias, gain and omega is random; without ``omegas`` these are ones."""
    torch.manual_seed(0)
    vocabulary = partial(Vocabulary, size=SIZE)
    net = EncoderDecoder(D, layers, layers, vocabulary, blocks(dropout, **more), dropout=dropout).double()
    randomise(net)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.endswith("omega"):
                nn.init.uniform_(parameter, 0.5, 3.0) if omegas else nn.init.ones_(parameter)
    return net


def run(net: Any) -> Tensor:
    """Hidden states ``(B, T, D)`` of the sentences."""
    result: Tensor = net(SOURCE, LENGTHS, TARGET, TARGET_LENGTHS).y
    return result
