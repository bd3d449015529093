"""Base of attention by content and distance, with a memory."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention

from repro.nn.attention.full import SelfAttention
from repro.nn.attention.relative.past import (
    empty_memory,
    empty_slots,
    recall,
    remember,
    slot_distances,
    valid_memory,
    write,
)
from repro.nn.attention.relative.shift import Sight, attend_by_distance
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, Remembers

Norm = Callable[[Tensor], Tensor]


class DistanceAttention(SelfAttention, Remembers, ABC):
    """Causal multi-head self-attention with scores ``(q_i + u) · k_j + p(q_i) · r_(i-j)``, over ``sqrt(E)``.

    A subclass defines u, p and r. No projection has a bias.

    State in training: ``{"memory": (B, M, D), "length": (B,)}``, the last ``memory.mem_len`` inputs, whose keys and
    values are computed anew with the current weights. In a pre-norm sublayer these are the inputs of the norm, which
    is computed anew, too, so that its gain has a gradient from the memory. A query sees the memory and the earlier
    tokens of its own call. The mixer does not detach.

    State with a capacity: ``{"slots": {"k": (B, S, H, E), "v": ...}, "length"}``, keys and values of the last tokens,
    used as a ring; see :mod:`repro.nn.attention.relative.past`. A capacity below ``mem_len`` is a shorter memory.

    Tokens that the next call reads again (``CallSettings.reread``) are not remembered; only in training.

    Without a memory (``mem_len`` 0) a call sees nothing before itself, and so a token that is fed alone sees only
    itself.

    Args:
        d_model: D.
        n_heads: H.
        d_head: E; default ``d_model / n_heads``.
        mem_len: M, tokens of earlier calls that are seen.
        dropout: on the attention weights, in [0, 1).

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``; ``mem_len`` is negative.

    Source: Dai et al. 2019, section 3; the memory in front of a norm: the authors' code (``pre_lnorm``).
    """

    rereads = True

    def __init__(self, d_model: int, n_heads: int, d_head: int | None, mem_len: int, dropout: float) -> None:
        super().__init__(d_model, n_heads, d_head, None, bias=False)
        self.dropout = dropout
        self.memory = MemorySettings(mem_len)

    @abstractmethod
    def queries(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """``q + u`` and ``p(q)`` of queries ``(H, B, T, E)``: ``(H, B, T, E)`` and ``(H, B, T, P)``, not scaled."""

    @abstractmethod
    def place_keys(self, size: int, clamp_len: int | None = None) -> Tensor:
        """``r`` for distances ``size-1, ..., 0``, clamped according to the memory settings: ``(H, S, P)``."""

    def place_scores(self, place_query: Tensor, size: int, clamp_len: int | None = None) -> Tensor:
        """``p · r`` for place queries ``(H, B, P)`` and distances ``size-1, ..., 0``: ``(H, B, S)``."""
        return place_query @ self.place_keys(size, clamp_len).transpose(1, 2)

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows; with a capacity for decoding in place."""
        weight = self.qkv.weight
        if capacity is None:
            return empty_memory(batch, weight.shape[1], weight)
        mem_len = (settings.memory or self.memory).mem_len
        return empty_slots(batch, min(capacity, mem_len), self.n_heads, self.d_head, weight)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing.

        Raises:
            ValueError: the layout is not causal.
        """
        if not layout.causal:
            raise ValueError("attention by distance looks back only; it needs a causal layout")
        memory = layout.settings.memory or self.memory
        if state is None:
            return MixerOutput(self._attend(x, None, None, None, memory), None)
        if "memory" in state:
            attention_mask = valid_memory(state["length"], state["memory"].shape[1])
            y = self._attend(x, state["memory"], attention_mask, layout.norm, memory)
            inputs = x if layout.stream is None else layout.stream
            return MixerOutput(y, remember(state, inputs, layout, memory.mem_len))
        take = self._single_token if x.shape[1] == 1 else self._segment
        return take(x, state, layout, memory)

    def _attend(
        self,
        x: Tensor,
        past: Tensor | None,
        attention_mask: Tensor | None,
        norm: Norm | None,
        memory: MemorySettings,
    ) -> Tensor:
        query, key, value = self._project(x, self.qkv.weight)
        if past is not None and past.shape[1]:
            past = past if norm is None else norm(past)
            # Projected apart from x: a memory that is detached then costs no gradient of inputs.
            old_key, old_value = self._project(past, self.qkv.weight[self.n_heads * self.d_head :])
            key, value = torch.cat([old_key, key], dim=2), torch.cat([old_value, value], dim=2)
        return self._mix(query, key, value, attention_mask, memory)

    def _segment(self, x: Tensor, state: State, layout: Layout, memory: MemorySettings) -> MixerOutput:
        """Several tokens behind keys and values that were kept."""
        query, key, value = self._project(x, self.qkv.weight)
        old_key, old_value, attention_mask = recall(state)
        keys = torch.cat([old_key.permute(2, 0, 1, 3).to(key.dtype), key], dim=2)
        values = torch.cat([old_value.permute(2, 0, 1, 3).to(value.dtype), value], dim=2)
        y = self._mix(query, keys, values, attention_mask, memory)
        return MixerOutput(y, write(state, key.permute(1, 2, 0, 3), value.permute(1, 2, 0, 3), layout))

    def _single_token(self, x: Tensor, state: State, layout: Layout, memory: MemorySettings) -> MixerOutput:
        """Attends with one new token. It is written into the ring first, which is then read in any order."""
        query, key, value = self._project(x, self.qkv.weight)
        distances, attention_mask = slot_distances(state)
        if memory.same_length:
            attention_mask = attention_mask & (distances < memory.mem_len)
        state = write(state, key.permute(1, 2, 0, 3), value.permute(1, 2, 0, 3), layout)
        query, place_query = self.queries(query)
        size = distances.shape[1]
        scores = self.place_scores(place_query.squeeze(2), size, memory.clamp_len).transpose(0, 1)
        # Slots are in the order of the ring, scores in that of distances.
        index = (size - 1 - distances)[:, None].expand(-1, self.n_heads, -1)
        scores = scores.gather(2, index).masked_fill(~attention_mask[:, None], -torch.inf) / math.sqrt(
            self.d_head
        )
        keys, values = (state["slots"][name].transpose(1, 2).to(query.dtype) for name in ("k", "v"))
        dropout = self.dropout if self.training else 0.0
        mask = scores[:, :, None].to(query.dtype)
        y = scaled_dot_product_attention(
            query.transpose(0, 1), keys, values, attn_mask=mask, dropout_p=dropout
        )
        return MixerOutput(self.out(y.transpose(1, 2).flatten(2)), state)

    def _project(self, x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values, or the latter two, of ``x (B, T, D)``: ``(H, B, T, E)`` each."""
        parts = linear(x, weight).unflatten(-1, (-1, self.n_heads, self.d_head))
        # Unbound first: its gradient is then stacked in the layout that the linear layer needs.
        return tuple(part.permute(2, 0, 1, 3) for part in parts.unbind(2))

    def _mix(
        self, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, memory: MemorySettings
    ) -> Tensor:
        # Contiguous before two sums are made of it, rather than each of them after.
        query, place_query = self.queries(query.contiguous())
        sight = Sight(attention_mask, memory.mem_len if memory.same_length else None)
        places = self.place_keys(key.shape[2], memory.clamp_len)
        dropout = self.dropout if self.training else 0.0
        scale = 1.0 / math.sqrt(self.d_head)
        y = attend_by_distance(query, key, value, place_query, places, sight, scale, dropout)
        return self.out(y.permute(1, 2, 0, 3).flatten(2))


def repeat_first(rows: Tensor, size: int) -> Tensor:
    """Repeats the first of ``(N, ...)`` until there are ``size``: what lies beyond the farthest counts as it."""
    missing = size - rows.shape[0]
    return torch.cat([rows[:1].expand(missing, *rows.shape[1:]), rows]) if missing else rows
