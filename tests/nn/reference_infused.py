"""Naive loops of attention with positions in queries and keys only, and of its memory; see reference.py."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from repro.nn import InfusedAttention
from repro.nn.positions.positions import LearnedPositions
from tests.nn.reference import attend_one, project, row_length


def split_sinusoids(length: int, width: int, first: int = 0) -> Tensor:
    """The table ``(length, width)`` entry by entry: sines in front, cosines behind, exponent ``i / (width/2 - 1)``."""
    table = torch.zeros(length, width, dtype=torch.float64)
    half = width // 2
    for position in range(length):
        for i in range(half):
            angle = (position + first) / 10000 ** (i / (half - 1))
            table[position, i] = math.sin(angle)
            table[position, half + i] = math.cos(angle)
    return table


def infused(
    mixer: InfusedAttention,
    x: Tensor,
    causal: bool,
    lengths: Tensor | None = None,
    past: Sequence[Tensor] | None = None,
) -> Tensor:
    """Attention of ``x (B, T, D)`` to itself and to each row's ``past``; positions count from 0 at the oldest."""
    outputs = []
    for b in range(x.shape[0]):
        new = x[b, : row_length(x, lengths, b)]
        old = x.new_zeros(0, x.shape[2]) if past is None else past[b]
        tokens = torch.cat([old, new])
        where = positions(mixer, tokens.shape[0], x.shape[2])
        rows = []
        for t in range(new.shape[0]):
            place = old.shape[0] + t
            reach = place + 1 if causal else tokens.shape[0]
            rows.append(_attend(mixer, new[t] + where[place], tokens[:reach], where[:reach]))
        y = [project(mixer.out, row[None], 0, mixer.out.out_features)[0] for row in rows]
        outputs.append(torch.stack(y + [torch.zeros_like(x[b, 0])] * (x.shape[1] - len(y))))
    return torch.stack(outputs)


def _attend(mixer: InfusedAttention, query: Tensor, tokens: Tensor, where: Tensor) -> Tensor:
    e, h = mixer.d_head, mixer.n_heads
    heads = []
    for head in range(h):
        q = project(mixer.qkv, query[None], head * e, e)[0]
        keys = project(mixer.qkv, tokens + where, (h + head) * e, e)
        values = project(mixer.qkv, tokens, (2 * h + head) * e, e)
        heads.append(attend_one(q, keys, values))
    return torch.cat(heads)


def positions(mixer: InfusedAttention, length: int, width: int) -> Tensor:
    """What the mixer's table should hold for positions 0 to ``length - 1``."""
    if mixer.table is None:
        return torch.zeros(length, width, dtype=torch.float64)
    if isinstance(mixer.table, LearnedPositions):
        return mixer.table.table.weight[:length]
    return split_sinusoids(length, width, first=2)


def remembered(counts: Sequence[int], mem_len: int) -> list[tuple[int, int]]:
    """For calls that bring so many tokens to a row: how many earlier ones each sees, how many it leaves behind."""
    held, result = 0, []
    for n in counts:
        if held + n > 2 * mem_len:
            held = min(held, mem_len)
        seen = held
        held = mem_len if n >= mem_len else held + n
        result.append((seen, held))
    return result
