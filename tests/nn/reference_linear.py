"""The naive loop of linear attention: weights of every pair, one row, one token and one head at a time."""

from collections.abc import Sequence

import torch
from torch import Tensor

from repro.nn import LinearAttention
from tests.nn.reference import project, row_length


def phi(x: Tensor) -> Tensor:
    """``elu(x) + 1`` entry by entry, as two branches."""
    return torch.where(x > 0, x + 1.0, x.clamp(max=0.0).exp())


def attend_one(query: Tensor, keys: Tensor, values: Tensor, eps: float) -> Tensor:
    """``Σ_s (query · key_s) value_s / (Σ_s query · key_s + eps)`` of features ``(E,)`` and ``(S, E)``."""
    weights = (keys * query).sum(-1)
    return (weights[:, None] * values).sum(0) / (weights.sum() + eps)


def linear(
    mixer: LinearAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Attention with weights ``φ(q) · φ(k)``; see :func:`tests.nn.reference.self_attention`."""
    outputs = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        old = x.new_zeros(0, x.shape[2]) if past is None else past[b]
        tokens = torch.cat([old, new])
        rows = []
        for t in range(len(new)):
            reach = len(old) + t + 1 if causal else len(tokens)
            heads = torch.cat([_head(mixer, h, new[t], tokens[:reach]) for h in range(mixer.n_heads)])
            rows.append(project(mixer.out, heads[None], 0, mixer.out.out_features)[0])
        outputs.append(torch.stack(rows + [torch.zeros_like(x[b, 0])] * (x.shape[1] - len(new))))
    return torch.stack(outputs)


def _head(mixer: LinearAttention, head: int, token: Tensor, seen: Tensor) -> Tensor:
    e, ev, h = mixer.d_head, mixer.d_value, mixer.n_heads
    features = phi if type(mixer.feature_map).__name__ == "EluPlusOne" else mixer.feature_map
    query = features(project(mixer.qkv, token[None], head * e, e)[0])
    keys = features(project(mixer.qkv, seen, h * e + head * e, e))
    values = project(mixer.qkv, seen, 2 * h * e + head * ev, ev)
    return attend_one(query, keys, values, mixer.eps)
