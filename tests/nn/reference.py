"""Naive loops over rows, heads and tokens: what every block must equal. Slow on purpose, no fused kernel.

Nothing here is padded: a row is cut to its valid tokens before anything is computed, and outputs at padded
places are zero. Gradients come from autograd through the loops.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from repro.nn import CrossAttention, FeedForward, FullAttention


def attend_one(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """``Σ_s softmax_s(query · key_s / sqrt(E)) value_s`` of one query ``(E,)`` over keys ``(S, E)``."""
    scores = (keys * query).sum(-1) / math.sqrt(query.shape[0])
    weights = (scores - scores.max().detach()).exp()
    return (weights[:, None] * values).sum(0) / weights.sum()


def project(layer: nn.Linear, x: Tensor, first: int, size: int) -> Tensor:
    """Output channels ``[first, first + size)`` of a linear layer, for tokens ``x (T, D)``."""
    y = x @ layer.weight[first : first + size].T
    return y if layer.bias is None else y + layer.bias[first : first + size]


def self_attention(
    mixer: FullAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Multi-head self-attention, ``x (B, T, D)`` to ``(B, T, D)``.

    Args:
        mixer: gives the weights.
        x: tokens of this call.
        causal: whether a token sees only itself and what came before.
        lengths: valid tokens of each row.
        past: for each row the tokens ``(P_b, D)`` of earlier calls, seen by all.
    """
    outputs = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        old = x.new_zeros(0, x.shape[2]) if past is None else past[b]
        tokens = torch.cat([old, new])
        rows = []
        for t in range(new.shape[0]):
            reach = old.shape[0] + t + 1 if causal else tokens.shape[0]
            heads = [_head(mixer, h, new[t], tokens[:reach]) for h in range(mixer.n_heads)]
            rows.append(torch.cat(heads))
        outputs.append(_finish(mixer.out, rows, x[b]))
    return torch.stack(outputs)


def _head(mixer: FullAttention, head: int, token: Tensor, seen: Tensor) -> Tensor:
    e, ev, h = mixer.d_head, mixer.d_value, mixer.n_heads
    query = project(mixer.qkv, token[None], head * e, e)[0]
    keys = project(mixer.qkv, seen, h * e + head * e, e)
    values = project(mixer.qkv, seen, 2 * h * e + head * ev, ev)
    return attend_one(query, keys, values)


def cross_attention(
    mixer: CrossAttention, x: Tensor, memory: Tensor, memory_lengths: Tensor | None = None
) -> Tensor:
    """Multi-head attention of ``x (B, T, D)`` to the valid tokens of ``memory (B, S, D)``."""
    e, ev, h = mixer.d_head, mixer.d_value, mixer.n_heads
    outputs = []
    for b in range(x.shape[0]):
        seen = memory[b, : row_length(memory, memory_lengths, b)]
        rows = []
        for t in range(x.shape[1]):
            heads = []
            for head in range(h):
                query = project(mixer.q, x[b, t : t + 1], head * e, e)[0]
                keys = project(mixer.kv, seen, head * e, e)
                values = project(mixer.kv, seen, h * e + head * ev, ev)
                heads.append(attend_one(query, keys, values))
            rows.append(torch.cat(heads))
        outputs.append(_finish(mixer.out, rows, x[b]))
    return torch.stack(outputs)


def feed_forward(
    layer: FeedForward,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """``max(0, x W₁ + b₁) W₂ + b₂`` token by token; looks neither back nor ahead."""
    outputs = []
    for b in range(x.shape[0]):
        inner = [
            project(layer.inner, x[b, t : t + 1], 0, layer.inner.out_features)[0].clamp(min=0.0)
            for t in range(row_length(x, lengths, b))
        ]
        outputs.append(_finish(layer.outer, inner, x[b]))
    return torch.stack(outputs)


def _finish(out: nn.Linear, rows: list[Tensor], like: Tensor) -> Tensor:
    """Projects the rows and sets zeros behind them, up to the length of ``like``."""
    y = [project(out, row[None], 0, out.out_features)[0] for row in rows]
    return torch.stack(y + [torch.zeros_like(like[0])] * (like.shape[0] - len(y)))


def row_length(x: Tensor, lengths: Tensor | None, row: int) -> int:
    """Valid tokens of one row."""
    return x.shape[1] if lengths is None else int(lengths[row])


def sinusoids(length: int, width: int) -> Tensor:
    """The position table ``(length, width)``, float64, entry by entry as in section 3.5 of the paper."""
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            table[position, 2 * i] = math.sin(angle)
            table[position, 2 * i + 1] = math.cos(angle)
    return table


def smoothed_loss(logits: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    """Cross-entropy of each target ``(N,)`` under logits ``(N, V)``; ``ε / (V - 1)`` on each wrong token."""
    losses = []
    for row, target in zip(logits, targets.tolist(), strict=True):
        probabilities = row.exp() / row.exp().sum()
        loss = row.new_zeros(())
        for token in range(row.shape[0]):
            expected = 1.0 - epsilon if token == target else epsilon / (row.shape[0] - 1)
            loss = loss - expected * probabilities[token].log()
        losses.append(loss)
    return torch.stack(losses)


def smoothed_divergence(logits: Tensor, targets: Tensor, epsilon: float, padding: int) -> Tensor:
    """``Σ q log (q / p)`` of each target ``(N,)`` under logits ``(N, V)``, with no share of ε for padding."""
    losses = []
    for row, target in zip(logits, targets.tolist(), strict=True):
        probabilities = row.exp() / row.exp().sum()
        loss = row.new_zeros(())
        for token in range(row.shape[0]):
            expected = 1.0 - epsilon if token == target else epsilon / (row.shape[0] - 2)
            if token != padding and expected > 0.0:
                loss = loss + expected * (math.log(expected) - probabilities[token].log())
        losses.append(loss)
    return torch.stack(losses)
