"""Softmax attention whose positions are added to queries and keys only, over a memory of earlier inputs."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from repro.nn.attention.full import (
    SelfAttention,
    attend,
    attend_behind,
    key_mask,
    looks_are_free,
    split_heads,
    valid_keys,
)
from repro.nn.cache import empty_cache, written
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.positions.positions import leading, split_from_two
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, Remembers

Parts = list[tuple[Tensor, Tensor | None]]


class InfusedAttention(SelfAttention, Remembers):
    """``q = (x + P) W_q``, ``k = (y + P) W_k``, ``v = y W_v`` with ``y = [memory; x]``: values bear no positions.

    Positions count from 0 at the oldest input that is remembered, so that what is remembered can be moved and used
    again. The memory of L' = ``memory.mem_len`` inputs follows one rule, in every state and for every row by itself:

    - a row that a call would bring beyond 2 L' is first cut to its last L';
    - a call of L' tokens or more leaves its last L', a shorter one adds to what is held.

    So every block of L' sees exactly the block before, and single tokens, which see L' + 1 to 2 L' inputs, see the same
    as in blocks.

    State in training: the inputs ``x (B, C, D)``, which carry gradient until the task detaches them. With a capacity:
    ``k`` and ``v``, ``(B, S, H, E)``, S at most 2 L'; where a row is cut, ``(P_new - P_old) W_k`` moves its keys, so
    that no input is projected twice. Without a memory (L' = 0) the state in training stays empty, and one with a
    capacity is a plain cache. See :mod:`repro.nn.cache`.

    Args:
        d_model: D.
        n_heads: H.
        d_head: E; default ``d_model / n_heads``.
        mem_len: L', inputs kept from call to call; 0 for none.
        dropout: on the attention weights, in [0, 1).
        bias: biases in the projections.
        table: maker of a position table from its width; None for no positions in here.

    Raises:
        ValueError: ``d_head`` is not given and ``n_heads`` does not divide ``d_model``, or a negative ``mem_len``.

    Source: Press, Smith and Lewis 2021, section 5 (position-infused attention, caching); L' = L in all of its models.
    Deviation: the authors' code projects all that is remembered anew at every token; results are equal.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int | None = None,
        mem_len: int = 0,
        dropout: float = 0.0,
        bias: bool = True,
        table: Callable[[int], nn.Module] | None = split_from_two,
    ) -> None:
        super().__init__(d_model, n_heads, d_head, None, bias)
        self.table = None if table is None else table(d_model)
        self.memory = MemorySettings(mem_len)
        self.dropout = dropout

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state.

        Raises:
            ValueError: the memory settings of the call include one that only relative positions have.
        """
        memory = settings.memory or self.memory
        if memory.clamp_len is not None or memory.same_length:
            raise ValueError(
                "clamp_len and same_length are settings of relative positions; this mixer has none"
            )
        if capacity is None:
            return empty_cache(batch, {"x": (self.qkv.in_features,)}, self.qkv.weight, None)
        slots = min(capacity, 2 * memory.mem_len) if memory.mem_len else capacity
        return super().init_state(batch, slots)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends; ``x (B, T, D)``. Outputs at padded queries are finite and mean nothing."""
        if state is None:
            nothing = torch.zeros(x.shape[0], dtype=torch.long, device=x.device)
            q, k, v = self._project(x, None, x.shape[1], self._parts())
            return MixerOutput(self._attend(q, k, v, nothing, 0, layout))
        if "past" in state:
            return self._with_inputs(x, state, layout)
        if self._keep(layout) and x.shape[1] > 1:
            return self._several_with_slots(x, state, layout)
        return self._with_slots(x, state, layout)

    def _keep(self, layout: Layout) -> int:
        """L' of a call."""
        return (layout.settings.memory or self.memory).mem_len

    def _with_inputs(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        new, keep = new_tokens(x, layout), self._keep(layout)
        past, length = cut_inputs(state["past"]["x"], state["length"], new, x.shape[1], keep)
        parts = self._parts()
        q, k, v = self._project(x, length, past.shape[1] + x.shape[1], parts)
        if past.shape[1]:  # on its own: a detached memory then costs no gradient of its inputs
            old_k, old_v = self._project_memory(past, parts)
            k, v = torch.cat([old_k, k], dim=1), torch.cat([old_v, v], dim=1)
        y = self._attend(q, k, v, length, past.shape[1], layout)
        return MixerOutput(y, keep_inputs(past, length, new, x, layout, keep))

    def _with_slots(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Attends with one new token for each row; with any number if there is no memory to cut."""
        slots, length = state["slots"], state["length"]
        keep = self._keep(layout)
        if keep and slots["k"].shape[1] == 2 * keep:
            length = self._cut_slots(slots, length, length >= 2 * keep, keep)
        q, k, v = self._project(x, length, slots["k"].shape[1], self._parts())
        new = {"k": k.to(slots["k"].dtype), "v": v.to(slots["v"].dtype)}
        keys, state = written({"slots": slots, "length": length}, new, layout)
        k, v, p = keys["k"], keys["v"], self.dropout if self.training else 0.0
        if layout.causal:
            y = attend_behind(q, k, v, length, p)
        else:
            y = attend(q, k, v, key_mask(state["length"].clamp(min=1), k.shape[1]), False, p)
        return MixerOutput(self.out(y), state)

    def _several_with_slots(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Several tokens for each row, in evaluation and decoding only.

        Reads the number of slots in use from the device: attention to all slots would have up to twice as many keys,
        and use another kernel with other rounding.
        """
        slots, length, keep = state["slots"], state["length"], self._keep(layout)
        new = new_tokens(x, layout)
        length = self._cut_slots(slots, length, (length + new > 2 * keep) & (length > keep), keep)
        columns = int(length.max())
        q, k, v = self._project(x, length, columns + x.shape[1], self._parts())
        k, v = torch.cat([slots["k"][:, :columns], k], dim=1), torch.cat([slots["v"][:, :columns], v], dim=1)
        y = self._attend(q, k, v, length, columns, layout)
        new_length = torch.where(new >= keep, keep, length + new)
        count, first = int(new_length.max()), length + new - new_length
        if count > slots["k"].shape[1]:
            raise IndexError(f"{count} tokens do not fit into a capacity of {slots['k'].shape[1]}")
        chosen = places(length, columns, first, count)
        slots["k"][:, :count] = take(k, chosen) + self._moved(first, count, k)
        slots["v"][:, :count] = take(v, chosen)
        return MixerOutput(y, {"slots": slots, "length": new_length})

    def _cut_slots(self, slots: dict[str, Tensor], length: Tensor, over: Tensor, keep: int) -> Tensor:
        """Cuts rows to their last L' keys, in place; the new lengths. Decoding only.

        Reads which rows are over from the device: one of L' tokens needs a cut, and moving all keys at each costs more.
        """
        if not bool(over.any()):
            return length
        rows = over.nonzero()[:, 0]
        first = length[rows] - keep
        chosen = first[:, None] + torch.arange(keep, device=length.device)
        k, v = (take(slots[name][rows], chosen) for name in ("k", "v"))
        slots["k"][rows, :keep] = k + self._moved(first, keep, k)
        slots["v"][rows, :keep] = v
        return torch.where(over, keep, length)

    def _moved(self, first: Tensor, count: int, like: Tensor) -> Tensor | float:
        """The term that moves ``count`` keys from position ``first (B,)`` to 0, ``(B, count, H, E)``.

        Reads ``first`` from the device, since rows with equal positions share one projection. Decoding only.
        """
        if self.table is None or not bool(first.any()):
            return 0.0
        starts, inverse = first.unique(return_inverse=True)  # rows with equal positions share one projection
        old = starts[:, None] + torch.arange(count, device=first.device)
        rows = leading(self.table, int(starts.max()) + count, like)
        moved = linear(rows[:count] - rows[old], self._parts()[1][0])
        return split_heads(moved, self.n_heads)[inverse]

    def _project(
        self, x: Tensor, length: Tensor | None, room: int, parts: Parts
    ) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v ``(B, T, H, E)`` of new inputs after ``length (B,)`` others; all positions are below ``room``."""
        infused = x
        if self.table is not None:
            rows = leading(self.table, room, x)
            if length is not None:
                rows = rows[length[:, None] + torch.arange(x.shape[1], device=x.device)]
            infused = x + rows
        q, k, v = (linear(y, *part) for y, part in zip((infused, infused, x), parts, strict=True))
        return split_heads(q, self.n_heads), split_heads(k, self.n_heads), split_heads(v, self.n_heads)

    def _project_memory(self, past: Tensor, parts: Parts) -> tuple[Tensor, Tensor]:
        """k, v ``(B, C, H, E)`` of remembered inputs ``(B, C, D)``, at positions from 0."""
        infused = past if self.table is None else past + leading(self.table, past.shape[1], past)
        k, v = linear(infused, *parts[1]), linear(past, *parts[2])
        return split_heads(k, self.n_heads), split_heads(v, self.n_heads)

    def _parts(self) -> Parts:
        """Weight and bias for q, for k and for v; split once a call, as each split costs a gradient of the whole."""
        width, bias = self.n_heads * self.d_head, self.qkv.bias
        biases = (None,) * 3 if bias is None else bias.split(width)
        return list(zip(self.qkv.weight.split(width), biases, strict=True))

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, length: Tensor, columns: int, layout: Layout
    ) -> Tensor:
        """Attends to ``columns`` remembered keys, ``length (B,)`` of them valid, and the T new ones."""
        p, steps = self.dropout if self.training else 0.0, q.shape[1]
        if not (columns and layout.causal):
            return self.out(attend(q, k, v, visible(length, columns, steps, layout), layout.causal, p))
        full = looks_are_free(length) and bool((length == columns).all())
        valid = None if full else pad(valid_keys(length, columns), (0, steps), value=True)
        return self.out(attend_behind(q, k, v, torch.full_like(length, columns), p, valid=valid))


def new_tokens(x: Tensor, layout: Layout) -> Tensor:
    """Valid tokens of each row of ``x (B, T, D)`` in this call, ``(B,)``."""
    if layout.lengths is not None:
        return layout.lengths
    return torch.full(x.shape[:1], x.shape[1], device=x.device)


def visible(length: Tensor, columns: int, steps: int, layout: Layout) -> Tensor | None:
    """Which of ``columns`` remembered keys, ``length (B,)`` of them valid, and of the T new ones all queries see.

    Returns:
        A boolean mask ``(B, 1, 1, columns + T)``; None for all, and where there is no memory and causality is all.
    """
    if columns == 0 and (layout.causal or layout.lengths is None):
        return None
    # a row without a valid token still sees something: what comes out must be finite
    lengths = torch.full_like(length, steps) if layout.lengths is None else layout.lengths
    return torch.cat([valid_keys(length, columns), valid_keys(lengths.clamp(min=1), steps)], dim=-1)


def cut_inputs(past: Tensor, length: Tensor, new: Tensor, steps: int, keep: int) -> tuple[Tensor, Tensor]:
    """Cuts the rows that the new tokens would bring beyond 2 L'.

    Training does not wait for lengths: the number of columns that a row may need follows from shapes. Rows that are
    in step need fewer only where a call is shorter than L'.
    """
    if past.shape[1] <= keep or past.shape[1] + steps <= 2 * keep:
        return past, length
    first = torch.where(length + new > 2 * keep, (length - keep).clamp(min=0), 0)
    length = length - first
    most = min(past.shape[1], 2 * keep)
    return take(past, first[:, None] + torch.arange(most, device=length.device)), length


def keep_inputs(past: Tensor, length: Tensor, new: Tensor, x: Tensor, layout: Layout, keep: int) -> State:
    """The state after a call: its last L' inputs, or earlier ones and its own; columns as for the cut."""
    steps = x.shape[1]
    if layout.lengths is None and steps >= keep:
        return {"past": {"x": x[:, steps - keep :]}, "length": torch.full_like(length, keep)}
    new_length = torch.where(new >= keep, keep, length + new)
    chosen = places(length, past.shape[1], length + new - new_length, min(past.shape[1] + steps, 2 * keep))
    return {"past": {"x": take(torch.cat([past, x], dim=1), chosen)}, "length": new_length}


def places(length: Tensor, columns: int, first: Tensor, count: int) -> Tensor:
    """Columns of ``count`` tokens of each row from its token ``first (B,)`` on, ``(B, count)``.

    A row's tokens are its ``length (B,)`` remembered ones and, from ``columns`` on, its new ones.
    """
    token = first[:, None] + torch.arange(count, device=length.device)
    return torch.where(token < length[:, None], token, token - length[:, None] + columns)


def take(x: Tensor, columns: Tensor) -> Tensor:
    """``x[b, columns[b, j]]``, ``(B, count, ...)``; columns beyond the end, which no row needs, give the last one."""
    rows = torch.arange(x.shape[0], device=x.device)[:, None]
    return x[rows, columns.clamp(max=max(x.shape[1] - 1, 0))]
