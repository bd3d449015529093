"""Attention with relative sinusoidal positions and a memory."""

import math
from functools import lru_cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from repro.nn.attention.relative.distance import DistanceAttention, repeat_first


class RelativeAttention(DistanceAttention):
    """Scores ``((q_i + u) · k_j + (q_i + v) · W r_(i-j)) / sqrt(E)``, r a sinusoid of the distance.

    Args:
        d_model: D, even.
        n_heads: H.
        d_head: E; default ``d_model / n_heads``.
        mem_len: M, tokens of earlier calls that are seen.
        dropout: on the attention weights, in [0, 1).
        position_dropout: on the sinusoids, in [0, 1).
        shared_biases: u and v are the same for all layers; False gives each layer its own.

    Raises:
        ValueError: as :class:`DistanceAttention`; or ``d_model`` is odd.

    Source: Dai et al. 2019, section 3.3. Shared biases are the authors' PyTorch code, own ones their TensorFlow code.
    Deviation: the PyTorch code drops the same channels of the sinusoids in all layers, this one in each layer others.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int | None = None,
        mem_len: int = 0,
        dropout: float = 0.0,
        position_dropout: float = 0.0,
        shared_biases: bool = True,
    ) -> None:
        super().__init__(d_model, n_heads, d_head, mem_len, dropout)
        if d_model % 2:
            raise ValueError(f"sinusoids of distances need an even d_model, not {d_model}")
        self.place = nn.Linear(d_model, n_heads * self.d_head, bias=False)
        self.content_bias = nn.Parameter(torch.empty(n_heads, self.d_head).normal_(std=0.02))
        self.position_bias = nn.Parameter(torch.empty(n_heads, self.d_head).normal_(std=0.02))
        self.position_dropout = position_dropout
        self.shared_biases = shared_biases

    def share_with(self, first: "RelativeAttention") -> None:
        """Takes u and v over from the first layer, where biases are shared.

        Raises:
            ValueError: the layers have heads of different number or width.
        """
        if not self.shared_biases:
            return
        if self.content_bias.shape != first.content_bias.shape:
            own, other = tuple(self.content_bias.shape), tuple(first.content_bias.shape)
            raise ValueError(
                f"layers with heads {other} and {own} cannot share biases; set shared_biases: false"
            )
        self.content_bias, self.position_bias = first.content_bias, first.position_bias

    def queries(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """``q + u`` and ``q + v``; see the base class."""
        content, position = (
            b.to(query.dtype)[:, None, None] for b in (self.content_bias, self.position_bias)
        )
        return query + content, query + position

    def place_keys(self, size: int, clamp_len: int | None = None) -> Tensor:
        """``W r`` for distances ``size-1, ..., 0``: ``(H, S, E)``."""
        keys = self.place(self._table(size, clamp_len))
        return repeat_first(keys, size).unflatten(-1, (self.n_heads, self.d_head)).transpose(0, 1)

    def place_scores(self, place_query: Tensor, size: int, clamp_len: int | None = None) -> Tensor:
        """Scores for few queries: W is applied to the query, since projecting all distances would cost more."""
        weight = self.place.weight.to(place_query.dtype).unflatten(0, (self.n_heads, self.d_head))
        scores = (place_query @ weight) @ self._table(size, clamp_len).to(place_query.dtype).T
        return repeat_first(scores.movedim(-1, 0), size).movedim(0, -1)

    def _table(self, size: int, clamp_len: int | None) -> Tensor:
        """Sinusoids of the distances that differ, the farthest first: ``(min(S, clamp_len + 1), D)``."""
        weight = self.place.weight
        if clamp_len is not None:
            size = min(size, clamp_len + 1)
        table = distance_sinusoids(size, weight.shape[1], weight.dtype, weight.device)
        return functional.dropout(table, self.position_dropout, self.training)


@lru_cache(maxsize=32)
def distance_sinusoids(length: int, width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Sinusoids of distances ``length-1, ..., 0``: ``sin(d f_t)`` in the first half of the channels, then cos.

    Kept from call to call: do not write into it.

    Args:
        length: distances.
        width: channels, even; ``f_t = 10000^(-2t / width)``.
        dtype: of the result; angles are computed in float32 or better.
        device: of the result.

    Returns:
        ``(length, width)``.

    Source: Dai et al. 2019, section 3.3; the order of the channels is the authors' code.
    """
    exact = torch.promote_types(dtype, torch.float32)
    with torch.inference_mode(False), torch.no_grad():  # else training cannot use them after validation
        even = torch.arange(0, width, 2, dtype=exact, device=device)
        distances = torch.arange(length - 1, -1, -1, dtype=exact, device=device)
        angles = distances[:, None] * torch.exp(even * (-math.log(10000.0) / width))
        return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)
