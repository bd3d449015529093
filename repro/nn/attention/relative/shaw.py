"""Attention with a learned vector and a learned bias for each distance, and a memory."""

import torch
from torch import Tensor, nn

from repro.nn.attention.relative.distance import DistanceAttention, repeat_first


class ShawAttention(DistanceAttention):
    """Scores ``((q_i + u) · k_j + q_i · r_(i-j) + b_(i-j)) / sqrt(E)``; u, r and b are each layer's own.

    A ``clamp_len`` of C leaves C vectors and biases: distances of C and above use those of C - 1. (With sinusoids they
    use that of C.)

    Args:
        d_model: D.
        n_heads: H.
        max_distance: the largest distance with a vector and a bias of its own; larger ones use these.
        d_head: E; default ``d_model / n_heads``.
        mem_len: M, tokens of earlier calls that are seen.
        dropout: on the attention weights, in [0, 1).

    Raises:
        ValueError: as :class:`DistanceAttention`; or ``max_distance`` is negative.

    Source: Dai et al. 2019, table 6, row "Shaw et al. (2018)", as in the authors' code (``attn_type`` 1).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        max_distance: int,
        d_head: int | None = None,
        mem_len: int = 0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(d_model, n_heads, d_head, mem_len, dropout)
        if max_distance < 0:
            raise ValueError(f"max_distance must be at least 0, not {max_distance}")
        self.place = nn.Parameter(torch.empty(max_distance + 1, n_heads, self.d_head).normal_(std=0.02))
        self.place_bias = nn.Parameter(torch.empty(max_distance + 1, n_heads).normal_(std=0.02))
        self.content_bias = nn.Parameter(torch.empty(n_heads, self.d_head).normal_(std=0.02))

    def queries(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """``q + u``, and ``(q, 1)`` to meet ``(r, b)``; see the base class."""
        ones = query.new_ones(*query.shape[:-1], 1)
        return query + self.content_bias.to(query.dtype)[:, None, None], torch.cat([query, ones], dim=-1)

    def place_keys(self, size: int, clamp_len: int | None = None) -> Tensor:
        """``(r, b)`` for distances ``size-1, ..., 0``: ``(H, S, E + 1)``."""
        count = size if clamp_len is None else min(size, clamp_len)
        both = torch.cat([self.place, self.place_bias[..., None]], dim=-1)[:count]
        return repeat_first(both.flip(0), size).transpose(0, 1)
