"""Attention to one's own chunk of the sequence and to its neighbours."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.nn.attention.full import SelfAttention, attend
from repro.nn.attention.relative.past import empty_slots, recall, slot_distances, write
from repro.nn.cache import append
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings


class LocalAttention(SelfAttention):
    """Softmax attention, ``q · k / sqrt(E)``, in chunks: a token sees its own chunk and some chunks beside it.

    The sequence is cut where its places divide by the chunk's size, whatever it was fed in, so that all three laws
    hold. Any length will do.

    State in training: ``k`` and ``v``, ``(B, S, H, E)``, of all the past. With a capacity: a ring of the last
    ``(before + 1) · chunk`` tokens, however long the sequence (:func:`repro.nn.attention.relative.past.empty_slots`).
    Chunks after one's own are seen as far as the same call holds them. With ``wrap`` a layout that is not causal has
    no state.

    Args:
        d_model: D.
        n_heads: H.
        chunk: tokens of one chunk.
        before: chunks seen before one's own.
        after: chunks seen after one's own; of no effect in causal layouts.
        d_head: E; default ``d_model / n_heads``.
        bias: biases in the projections.
        dropout: on the attention weights, in [0, 1).
        wrap: without causality the first chunk looks back at the row's last ones, and the last looks ahead at the first
            ones. A chunk that is met twice, in a row of few chunks, counts twice.

    Raises:
        ValueError: ``chunk`` below 1, a negative number of chunks, or ``d_head`` is not given and ``n_heads`` does not
            divide ``d_model``.

    Source: the released configurations of Kitaev, Kaiser and Levskaya 2020; the paper does not describe it. ``wrap`` is
    ``look_adjacent`` of trax and transformers.
    Deviation: there padding is part of the row that wraps around; here a row ends with its last valid token. There
    ``wrap`` is always on; in causal layouts it would only let the last chunks look ahead, and has no effect here.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        chunk: int = 64,
        before: int = 1,
        after: int = 0,
        d_head: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        wrap: bool = False,
    ) -> None:
        if chunk < 1 or before < 0 or after < 0:
            raise ValueError(
                f"local attention needs chunk at least 1, before and after at least 0, not {chunk}, {before}, {after}"
            )
        super().__init__(d_model, n_heads, d_head, None, bias)
        self.chunk, self.before, self.after = chunk, before, after
        self.dropout = dropout
        self.wrap = wrap

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state; the capacity only chooses the ring, whose size does not depend on it."""
        if capacity is None:
            return super().init_state(batch)
        size = (self.before + 1) * self.chunk
        return empty_slots(batch, size - 1, self.n_heads, self.d_head, self.qkv.weight)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing.

        Raises:
            ValueError: a state, and a layout in which chunks wrap around.
        """
        if state is not None and self.wrap and not layout.causal:
            raise ValueError("wrap: true has no state without causality: give the whole sequence at once")
        q, k, v = self.qkv_heads(x)
        if state is None:
            return MixerOutput(self.out(self._in_chunks(q, k, v, layout)))
        if "past" in state:
            queries = state["length"][:, None] + torch.arange(x.shape[1], device=x.device)
            keys, state, attention_mask = append(state, {"k": k, "v": v}, layout)
            near = self._near(queries, torch.arange(attention_mask.shape[-1], device=x.device)[None])
            k, v = (keys[name].to(q.dtype) for name in ("k", "v"))
            return MixerOutput(self._finish(q, k, v, attention_mask & near), state)
        return self._with_ring(q, k, v, state, layout)

    def _in_chunks(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout) -> Tensor:
        """All chunks at once; ``(B, T, H, E)`` to ``(B, T, H·E)``."""
        batch, steps = q.shape[:2]
        size = min(self.chunk, steps)  # no work for places beyond a short sequence
        before, after = self.before, 0 if layout.causal else self.after
        count = -(-steps // size)
        places = torch.arange(count * size, device=q.device).view(1, count, size)
        if self.wrap and not layout.causal:
            ends = torch.full((1,), steps, device=q.device) if layout.lengths is None else layout.lengths
            with_neighbours = partial(_around, before=before, after=after, counts=-(-ends // size))
        else:
            with_neighbours = partial(_windows, before=before, after=after)
        # place -1 is that of fillers beyond the ends
        attention_mask = self._visible(places, with_neighbours(places + 1) - 1, layout, steps)
        chunks = pad(q, (0, 0, 0, 0, 0, count * size - steps)).view(batch * count, size, *q.shape[2:])
        filled = (pad(t, (0, 0, 0, 0, 0, count * size - steps)).unflatten(1, (count, size)) for t in (k, v))
        keys, values = (with_neighbours(t).flatten(0, 1) for t in filled)
        attention_mask = attention_mask.expand(batch, -1, -1, -1).flatten(0, 1)[:, None]
        y = attend(chunks, keys, values, attention_mask, False, self.dropout if self.training else 0.0)
        return y.view(batch, count * size, -1)[:, :steps]

    @staticmethod
    def _visible(queries: Tensor, keys: Tensor, layout: Layout, steps: int) -> Tensor:
        """Which keys ``(B or 1, C, W)`` the queries ``(1, C, m)`` see, ``(B or 1, C, m, W)``; each sees itself."""
        query, key = queries[..., :, None], keys[..., None, :]
        if layout.causal:
            return (key >= 0) & (key <= query)
        lengths = torch.full((1,), steps, device=keys.device) if layout.lengths is None else layout.lengths
        # A padded query sees itself: a softmax over nothing would be NaN, also in its gradient.
        return (key >= 0) & (key < lengths[:, None, None, None]) | (key == query)

    def _with_ring(self, q: Tensor, k: Tensor, v: Tensor, state: State, layout: Layout) -> MixerOutput:
        queries = state["length"][:, None] + torch.arange(q.shape[1], device=q.device)
        if q.shape[1] == 1:
            distances, valid = slot_distances(state)
            state = write(state, k, v, layout)
            attention_mask = valid[:, None, None] & self._near(queries, queries - distances)
            return MixerOutput(
                self._finish(q, state["slots"]["k"], state["slots"]["v"], attention_mask), state
            )
        old_k, old_v, _ = recall(state)
        past = queries[:, :1] - torch.arange(old_k.shape[1], 0, -1, device=q.device)
        keys = torch.cat([past, queries], dim=1)
        attention_mask = self._near(queries, keys) & (keys >= 0)[:, None, None]
        if layout.causal:
            attention_mask = attention_mask & (keys[:, None, None] <= queries[:, None, :, None])
        elif layout.lengths is not None:
            end = queries[:, 0] + layout.lengths
            own = keys[:, None, None] == queries[:, None, :, None]
            attention_mask = attention_mask & (keys < end[:, None])[:, None, None] | own
        k, v = torch.cat([old_k, k.to(old_k.dtype)], dim=1), torch.cat([old_v, v.to(old_v.dtype)], dim=1)
        y = self._finish(q, k, v, attention_mask)
        return MixerOutput(y, write(state, k[:, old_k.shape[1] :], v[:, old_v.shape[1] :], layout))

    def _finish(self, q: Tensor, k: Tensor, v: Tensor, attention_mask: Tensor) -> Tensor:
        y = attend(q.to(k.dtype), k, v, attention_mask, False, self.dropout if self.training else 0.0)
        return self.out(y)

    def _near(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Whether the chunk of a key at some place is seen from a query's, ``(B, 1, T, S)``."""
        back = queries[:, None, :, None] // self.chunk - keys[:, None, None].div(
            self.chunk, rounding_mode="floor"
        )
        return (back <= self.before) & (back >= -self.after)


def _windows(chunks: Tensor, before: int, after: int) -> Tensor:
    """Every chunk with its neighbours, ``(B, C, m, ...)`` to ``(B, C, W·m, ...)``; zeros beyond the ends."""
    count = chunks.shape[1]
    ends = [0, 0] * (chunks.dim() - 2) + [before, after]
    filled = pad(chunks, ends)
    return torch.cat([filled[:, i : i + count] for i in range(before + after + 1)], dim=2)


def _around(chunks: Tensor, before: int, after: int, counts: Tensor) -> Tensor:
    """Every chunk with its neighbours, around the ends of rows that have ``counts (B or 1,)`` chunks."""
    own = torch.arange(chunks.shape[1], device=chunks.device)[:, None]
    offsets = torch.arange(-before, after + 1, device=chunks.device)
    index = (own + offsets) % counts.clamp(min=1)[:, None, None]
    rows = torch.arange(chunks.shape[0], device=chunks.device)[:, None, None]
    return chunks[rows, index].flatten(2, 3)
