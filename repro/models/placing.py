"""The places of a pretrained body's tensors in a network that contains more than the body."""

import re

import torch
from torch import Tensor, nn

from repro.models.decoder_lm import DecoderLM
from repro.nn.attention.full import FullAttention
from repro.nn.layers.feed_forward import FeedForward
from repro.nn.vocabularies.vocabulary import Vocabulary


def layer_of(name: str) -> int:
    """The number of the layer that one of our tensors belongs to; -1 outside of layers."""
    match = re.match(r"stack\.layers\.(\d+)\.", name)
    return int(match[1]) if match else -1


def short_term(mixer: nn.Module) -> FullAttention:
    """The attention that pretrained weights are for: a mixer, or the short-term mixer inside it.

    Raises:
        ValueError: it is no :class:`FullAttention`.
    """
    short = getattr(mixer, "short", mixer)
    if not isinstance(short, FullAttention):
        raise ValueError(f"pretrained weights are for FullAttention, not {type(short).__name__}")
    return short


def placed(name: str, mixers: list[nn.Module]) -> str:
    """The name of a body's tensor where some mixers are inside memories."""
    layer = layer_of(name)
    wrapped = layer >= 0 and short_term(mixers[layer]) is not mixers[layer]
    return name.replace(".mix.body.", ".mix.body.short.") if wrapped else name


def memories(mixers: list[nn.Module]) -> list[str]:
    """Names of tensors that belong to memories around the attention."""
    return [
        f"stack.layers.{layer}.mix.body.{name}"
        for layer, mixer in enumerate(mixers)
        if short_term(mixer) is not mixer
        for name in mixer.state_dict()
        if not name.startswith("short.")
    ]


def with_more_rows(vectors: Tensor, table: Tensor) -> Tensor:
    """Vectors of tokens ``(V, D)`` of the weights, and behind them those of a longer table that has more of them."""
    longer = len(table) > len(vectors) and table.shape[1:] == vectors.shape[1:]
    return torch.cat([vectors, table[len(vectors) :].to(vectors)]) if longer else vectors


def require_gpt2(net: DecoderLM) -> None:
    """Refuses a language model that computes something else than GPT-2 with tensors of the same shapes.

    Raises:
        ValueError: it has another vocabulary, activation or norm.
    """
    vocabulary = net.vocabulary
    tied = isinstance(vocabulary, Vocabulary) and vocabulary.head is None
    if not tied or vocabulary.embedding.scale != 1.0:
        raise ValueError(
            "GPT-2's vocabulary is tied and not scaled; set vocabulary to tied: true, scaled: false"
        )
    for module in net.stack.modules():
        if isinstance(module, FeedForward) and getattr(module.activation, "approximate", None) != "tanh":
            raise ValueError(
                f"GPT-2's activation is torch.nn.GELU with approximate: tanh, not {module.activation!r}"
            )
        if isinstance(module, nn.LayerNorm) and module.eps != 1e-5:
            raise ValueError(f"GPT-2's norms have eps 1e-5, not {module.eps}")
