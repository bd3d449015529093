"""Naive loops over rows, heads, queries and keys for attention by distance; see tests/nn/reference.py."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from repro.nn import PreNorm, RelativeAttention, ShawAttention
from repro.nn.settings import MemorySettings
from tests.nn.reference import project, row_length


def relative(
    mixer: RelativeAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Section 3.3, term by term; arguments as :func:`tests.nn.reference.self_attention`, causal only."""

    def score(head: int, query: Tensor, key: Tensor, distance: int) -> Tensor:
        u, v = mixer.content_bias[head], mixer.position_bias[head]
        place = torch.tensor(sinusoid(distance, x.shape[2]), dtype=x.dtype)
        by_place = project(mixer.place, place[None], head * mixer.d_head, mixer.d_head)[0]
        return query @ key + query @ by_place + u @ key + v @ by_place

    return by_distance(mixer, score, x, causal, lengths, past)


def shaw(
    mixer: ShawAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """A learned vector and bias for each distance, ``clamp_len`` of them; arguments as above."""

    def score(head: int, query: Tensor, key: Tensor, distance: int) -> Tensor:
        entry = min(distance, mixer.place.shape[0] - 1, (mixer.memory.clamp_len or distance + 1) - 1)
        by_place = query @ mixer.place[entry, head] + mixer.place_bias[entry, head]
        return query @ key + mixer.content_bias[head] @ key + by_place

    return by_distance(mixer, score, x, causal, lengths, past)


def told(mixer: Any, memory: MemorySettings | None) -> Any:
    """The same mixer, sharing its weights, as if it had been built with other memory settings."""
    other = copy.copy(mixer)
    other.memory = memory or mixer.memory
    return other


def pre_norm(sublayer: PreNorm, x: Tensor, past: Tensor, memory: MemorySettings | None = None) -> Tensor:
    """``x + mixer(norm(x))`` of one row ``(T, D)`` behind inputs ``(P, D)`` from before the norm, normed here."""
    mixer = told(sublayer.body, memory)
    loop = relative if isinstance(mixer, RelativeAttention) else shaw
    normed = torch.stack([_norm(sublayer.norm_in, token) for token in torch.cat([past, x])])
    return x + loop(mixer, normed[None, len(past) :], True, None, [normed[: len(past)]])[0]


def _norm(norm: Any, token: Tensor) -> Tensor:
    mean = token.sum() / len(token)
    variance = ((token - mean) ** 2).sum() / len(token)
    return (token - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def by_distance(
    mixer: Any, score: Any, x: Tensor, causal: bool, lengths: Tensor | None, past: Sequence[Tensor] | None
) -> Tensor:
    """Attention whose scores are ``score(head, query, key, distance) / sqrt(E)``, under the mixer's memory settings."""
    assert causal
    outputs = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        tokens = new if past is None else torch.cat([past[b][len(past[b]) - mixer.memory.mem_len :], new])
        if past is not None and len(past[b]) < mixer.memory.mem_len:
            tokens = torch.cat([past[b], new])
        rows = [_row(mixer, score, tokens, len(tokens) - len(new) + t) for t in range(len(new))]
        outputs.append(torch.stack(rows + [torch.zeros_like(x[b, 0])] * (x.shape[1] - len(rows))))
    return torch.stack(outputs)


def _row(mixer: Any, score: Any, tokens: Tensor, place: int) -> Tensor:
    width, hidden, heads = mixer.d_head, mixer.n_heads * mixer.d_head, []
    first = max(0, place - mixer.memory.mem_len + 1) if mixer.memory.same_length else 0
    for head in range(mixer.n_heads):
        query = project(mixer.qkv, tokens[place : place + 1], head * width, width)[0]
        keys = project(mixer.qkv, tokens[first : place + 1], hidden + head * width, width)
        values = project(mixer.qkv, tokens[first : place + 1], 2 * hidden + head * width, width)
        farthest = mixer.memory.clamp_len or place
        scores = torch.stack(
            [score(head, query, key, min(place - first - j, farthest)) for j, key in enumerate(keys)]
        )
        weights = (scores / math.sqrt(width)).exp()
        heads.append((weights[:, None] * values).sum(0) / weights.sum())
    return project(mixer.out, torch.cat(heads)[None], 0, mixer.out.out_features)[0]


def sinusoid(distance: int, width: int) -> list[float]:
    """``sin(d f_t)`` for every t, then ``cos(d f_t)``, with ``f_t = 10000^(-2t / width)``."""
    angles = [distance / 10000 ** (2 * t / width) for t in range(width // 2)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
