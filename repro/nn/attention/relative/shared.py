"""Exact attention with shared queries and keys: to everything, or to given keys of the past."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from repro.nn.attention.full import attend, key_mask
from repro.nn.mixer import Layout

# Entries of a mask that is built at once.
_MASK = 1 << 22


def key_scale(query: Tensor, unit: bool, scaled: bool = False) -> Tensor:
    """The factor that turns queries ``(..., E)`` into keys.

    Args:
        query: ``(..., E)``.
        unit: ``1 / |q|``, else ``1 / sqrt(E)``.
        scaled: both where ``unit``.

    Returns:
        ``(..., 1)``; a query of length 0 stays 0.
    """
    if not unit:
        return query.new_full((*query.shape[:-1], 1), 1.0 / math.sqrt(query.shape[-1]))
    small = 1e-12 if query.dtype in (torch.float32, torch.float64) else 1e-4
    norm = torch.linalg.vector_norm(query, dim=-1, keepdim=True).clamp(min=small)
    scale = norm.reciprocal().to(query.dtype)
    return scale / math.sqrt(query.shape[-1]) if scaled else scale


def exact(q: Tensor, k: Tensor, v: Tensor, layout: Layout, see_self: bool, dropout: float) -> Tensor:
    """Every token to every other, and to itself only where it sees no other, or ``see_self``.

    Args:
        q: queries ``(B, T, H, E)``.
        k: keys; scores are ``q · k``.
        v: values ``(B, T, H, Ev)``.
        layout: causality and lengths.
        see_self: whether a token is a key to itself.
        dropout: on the weights.

    Returns:
        ``(B, T, H·Ev)``.

    Source: Kitaev et al. 2020, section 2 (shared-QK attention).
    """
    k, steps = k * math.sqrt(q.shape[-1]), q.shape[1]
    if layout.causal and see_self:
        return attend(q, k, v, None, True, dropout)
    if layout.causal:
        # Without itself, token t sees the keys before it: keys move one place, and no mask of T x T is needed.
        others = (
            attend(q[:, 1:], k[:, :-1], v[:, :-1], None, True, dropout) if steps > 1 else v[:, :0].flatten(2)
        )
        return torch.cat([v[:, :1].flatten(2), others], dim=1)
    attention_mask = key_mask(layout.lengths, steps)
    if not see_self:
        other = ~torch.eye(steps, dtype=torch.bool, device=q.device)
        attention_mask = other[None, None] if attention_mask is None else attention_mask & other
        attention_mask = attention_mask | (~attention_mask.any(-1, keepdim=True) & ~other)
    return attend(q, k, v, attention_mask, False, dropout)


def attend_to_past(
    q: Tensor, k: Tensor, v: Tensor, bias: Callable[[slice], Tensor], own: Tensor, dropout: float
) -> Tensor:
    """Softmax attention with the number of times a key counts; a few queries at a time.

    Args:
        q: queries ``(B, T, H, E)``.
        k: keys ``(B, S, H, E)``; scores are ``q · k``.
        v: values ``(B, S, H, Ev)``.
        bias: for a slice of queries, what is added to their scores, broadcast to ``(B, H, T', S)``.
        own: place of each query among the keys, ``(B, T)``: seen where it sees nothing else.
        dropout: on the weights.

    Returns:
        ``(B, T, H·Ev)``.
    """
    q, k, v = q.transpose(1, 2), (k * math.sqrt(q.shape[-1])).transpose(1, 2), v.transpose(1, 2)
    places, parts = torch.arange(k.shape[2], device=k.device), []
    size = max(1, _MASK // max(1, k.shape[0] * k.shape[1] * k.shape[2]))
    for first in range(0, q.shape[2], size):
        span = slice(first, first + size)
        added = bias(span)
        alone = added.isinf().all(-1, keepdim=True)
        added = added.masked_fill(alone & (places == own[:, None, span, None]), 0.0)
        added = added.expand(*q[:, :, span].shape[:3], k.shape[2])
        parts.append(scaled_dot_product_attention(q[:, :, span], k, v, added, dropout))
    return torch.cat(parts, dim=2).transpose(1, 2).flatten(2)
