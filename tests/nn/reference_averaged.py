"""The averaged hashing of idiap/fast-transformers, attention/reformer_attention.py, for one row and head at a time."""

import math

import torch
from torch import Tensor

from repro.nn import LSHAttention
from tests.nn.reference import project
from tests.nn.reference_lsh import finish


def one_round(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, planes: Tensor, chunk: int) -> Tensor:
    """``_reformer_round`` for queries and unit keys ``(L, E)``, values ``(L, Ev)``, planes ``(bits, E)``.

    Args:
        mask: added to scores, ``(L, L)``.
        chunk: divides L.
    """
    length, width = query.shape
    temperature = 1.0 / math.sqrt(width)
    hashes = []
    for t in range(length):
        projected = [float(key[t].detach() @ plane) for plane in planes]
        both = projected + [-p for p in projected]
        hashes.append(max(range(len(both)), key=lambda i: both[i]))
    group = sorted(range(length), key=lambda t: (hashes[t], t))
    new = [torch.empty(0)] * length
    for c in range(length // chunk):
        own = group[c * chunk : (c + 1) * chunk]
        back = group[(c - 1) * chunk : c * chunk] if c else [0] * chunk
        nothing = 0.0 if c == 0 else 1.0  # what stands before the first chunk is zeros, and masked
        keys = torch.cat([key[back] * nothing, key[own]])
        values = torch.cat([value[back] * nothing, value[own]])
        for t in own:
            row = mask[t, back + own].clone()
            if c == 0:
                row[:chunk] = -torch.inf
            if row.isinf().all():
                row.zero_()
            new[t] = (temperature * (keys @ query[t] + row)).softmax(0) @ values
    return torch.stack(new)


def averaged(mixer: LSHAttention, x: Tensor, causal: bool, planes: Tensor) -> Tensor:
    """The layer with ``masked=True`` on rows without padding, ``x (B, T, D)``; planes are ``(R, bits, E)``."""
    e, ev, steps = mixer.d_head, mixer.d_value, x.shape[1]
    mask = torch.eye(steps, dtype=x.dtype) * -1e9
    if causal:
        mask = mask + torch.ones(steps, steps, dtype=x.dtype).tril().log()
    rows = []
    for b in range(x.shape[0]):
        heads = []
        for h in range(mixer.n_heads):
            query = project(mixer.qk_v, x[b], h * e, e)
            value = project(mixer.qk_v, x[b], mixer.n_heads * e + h * ev, ev)
            key = query / query.square().sum(-1, keepdim=True).sqrt()
            rounds = [one_round(query, key, value, mask, each, mixer.hashing.chunk) for each in planes]
            heads.append(sum(rounds[1:], rounds[0]) / len(rounds))
        rows.append(finish(mixer.out, list(torch.cat(heads, dim=-1)), x[b]))
    return torch.stack(rows)
