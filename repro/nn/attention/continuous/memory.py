"""A mixer with an unbounded past: a short-term mixer, and a continuous memory of what has left it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from repro.nn.attention.compressed.pending import append_new, drop_oldest, empty_pending, most, oldest
from repro.nn.attention.compressed.pieces import cleared, pieces, touching, valid_tokens
from repro.nn.attention.continuous.gaussian import divergence, draw_bins, histogram
from repro.nn.attention.continuous.long_term import LongTermMemory, may_hold
from repro.nn.attention.continuous.short_term import queries, remembered, require_short_term
from repro.nn.attention.continuous.signal import ContinuousSignal
from repro.nn.mixer import Layout, MixerOutput, State
from repro.nn.settings import AS_BUILT, CallSettings, MemorySettings, Remembers


class ContinuousMemory(nn.Module, Remembers):
    """``short(x) + long(q)``: a short-term mixer, and its queries' attention to a continuous memory.

    A call is cut into pieces of at most ``block`` tokens. Before each piece, a row whose oldest ``block`` inputs have
    left the short-term memory adds them to the continuous one; each piece then attends to what is there. So a row's
    memory is updated with full blocks, at the same tokens however it is fed, as long as no piece goes beyond the end of
    one of its blocks. Inputs that have left the short-term memory and do not fill a block yet are seen by neither.

    The short-term mixer sees M earlier tokens where it has memory settings (those of the call, or its own), else its
    piece alone; decoding in place, a mixer without such a memory sees its block so far.

    State: ``pending``, the inputs that wait, see :mod:`repro.nn.attention.compressed.pending`; where they lie in front
    of a norm (``layout.stream``), they are kept so. ``coefficients (B, N, D)``. ``updates (B,)``, blocks in the memory,
    0 for an empty one. ``short``, the state of the short-term mixer where it has one. With sticky memories ``attended
    (B, bins)``, the attention since the last update, and ``draws (B,)``, how often it has drawn. Its size does not grow
    with the past. With a capacity it is written in place. The mixer does not detach.

    The auxiliary loss is ``kl_weight`` times the mean KL divergence over heads and those queries that had a memory.

    Args:
        d_model: D.
        short_term: maker of the short-term mixer from ``d_model``; see
            :func:`~repro.nn.attention.continuous.short_term.require_short_term`.
        block: L, tokens of one update.
        signal: how the memory is written and read.

    Attributes:
        seed: of the draws of a sticky memory, drawn when it is built, so that layers and runs differ. Draws follow from
            it and from ``draws`` alone: rows in step draw with the same random numbers, on every rank and after a
            resumed run.

    Raises:
        ValueError: ``block`` below 1 or above ``forget_after``, or a short-term mixer that offers no queries.

    Source: Martins, Marinho and Martins 2022, section 3. Draws: the authors' code takes torch's generator.
    """

    seed: Tensor

    def __init__(
        self,
        d_model: int,
        short_term: Callable[[int], nn.Module],
        block: int,
        signal: ContinuousSignal,
    ) -> None:
        super().__init__()
        if block < 1:
            raise ValueError(f"block must be at least 1, not {block}")
        if signal.forget_after is not None and signal.forget_after < block:
            raise ValueError(f"signal.forget_after must be at least block {block}, not {signal.forget_after}")
        self.short: Any = require_short_term(short_term(d_model))
        self.long = LongTermMemory(d_model, self.short.n_heads, self.short.d_head, signal)
        self.block = block
        if signal.bins is not None:
            self.register_buffer("seed", torch.randint(2**62, ()))
        # Tokens that are kept as they are; what was added to the continuous memory is not counted.
        self.memory = MemorySettings(remembered(self.short, AS_BUILT) + block)

    def share_with(self, first: "ContinuousMemory") -> None:
        """Lets the short-term mixer take parameters over from that of the first layer."""
        if type(self.short) is type(first.short) and hasattr(self.short, "share_with"):
            self.short.share_with(first.short)

    def init_state(self, batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        """An empty state for ``batch`` rows; the settings' memory is that of the short-term mixer."""
        coefficients = self.long.empty(batch)
        counter = torch.zeros(batch, dtype=torch.long, device=coefficients.device)
        state = {
            "pending": empty_pending(batch, self._room(settings), self.long.key.weight, capacity is not None),
            "coefficients": coefficients,
            "updates": counter,
        }
        if self.long.signal.bins is not None:
            attended = coefficients.new_zeros(batch, self.long.signal.bins)
            state |= {"attended": attended, "draws": counter}
        if remembered(self.short, settings):
            state["short"] = self.short.init_state(batch, capacity, settings)
        elif capacity is not None:
            state["short"] = self.short.init_state(batch, 2 * self.block, settings)
        return state

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """Mixes ``x (B, T, D)``. Outputs at padded tokens are finite and mean nothing.

        Raises:
            ValueError: the layout is not causal.
        """
        if not layout.causal:
            raise ValueError("a continuous memory looks back only; it needs a causal layout")
        if state is None:  # the pieces of a call that stands alone see each other as built
            layout = replace(layout, settings=self._alone(layout.settings))
        now = self.init_state(len(x), None, layout.settings) if state is None else state
        outputs, losses, counts = [], [], []
        for piece, part in pieces(x, layout, self.block):
            y, now, kl, count = self._step(piece, now, part)
            outputs.append(y)
            losses.append(kl)
            counts.append(count)
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=1)
        weight = self.long.signal.kl_weight
        aux = (
            weight * torch.stack(losses).sum(0) / torch.stack(counts).sum(0).clamp(min=1) if weight else None
        )
        return MixerOutput(y, None if state is None else now, aux)

    def _alone(self, settings: CallSettings) -> CallSettings:
        """The settings with the short-term memory as built, if they keep none: they are of earlier calls."""
        if settings.memory is None or settings.memory.mem_len or not isinstance(self.short, Remembers):
            return settings
        return replace(settings, memory=replace(settings.memory, mem_len=self.short.memory.mem_len))

    def _step(self, x: Tensor, state: State, layout: Layout) -> tuple[Tensor, State, Tensor, Tensor]:
        """Processes one piece; returns also the sum of the KL divergences of each row, and their number."""
        state, unused = self._updated(state, layout)
        mixed = self.short(x, state.get("short"), layout)
        if "short" in state:
            state = {**state, "short": mixed.state}
        filled, y = state["updates"] > 0, mixed.y
        counted = filled[:, None] & valid_tokens(x, layout)
        kl = state["coefficients"].new_zeros(len(x))
        if may_hold(filled):
            read = self.long(state["coefficients"], queries(self.short, x))
            y = y + torch.where(filled[:, None, None], read.y, 0).to(y.dtype)
            kl = self._divergence(read.mean, read.variance, counted)
            state = self._attended(state, read.mean, read.variance, counted)
        else:
            unused = self.long
        stream = x if layout.stream is None else layout.stream
        pending = append_new(state["pending"], stream, layout, self._room(layout.settings))
        return touching(y, unused), {**state, "pending": pending}, kl, counted.sum(1) * self.long.n_heads

    def _room(self, settings: CallSettings) -> int:
        """Most inputs of a row that wait: a piece behind all that are too few for an update."""
        return remembered(self.short, settings) + 2 * self.block - 1

    def _updated(self, state: State, layout: Layout) -> tuple[State, nn.Module | None]:
        """The state with the oldest block of each row that has one; and the module that was not used."""
        stays, pending = remembered(self.short, layout.settings), state["pending"]
        size = stays + self.block
        full, state = pending["length"] >= size, dict(state)
        state["pending"] = drop_oldest(pending, self.block * full, size - 1)
        if most(pending) < size or not may_hold(full):
            return state, self.long.gate
        block, signal = oldest(pending, self.block), self.long.signal
        if signal.normed and layout.norm is not None:
            block = layout.norm(block)
        updates, bins = state["updates"], None
        if signal.forget_after is not None:
            updates = torch.where(updates * self.block >= signal.forget_after, 0, updates)
        if signal.bins is not None:
            draws = layout.settings.first_draw + state["draws"]
            bins = draw_bins(state["attended"], draws, signal.samples, self.seed)
            state["attended"] = torch.where(full[:, None], 0, state["attended"])
            state["draws"] = state["draws"] + full
        past = state["coefficients"]
        new = torch.where(full[:, None, None], self.long.update(past, block, updates == 0, bins), past)
        in_place = "slots" in pending
        state["coefficients"] = past.copy_(new) if in_place else new
        state["updates"] = torch.where(full, updates + 1, state["updates"])
        if in_place and not stays:  # a short-term mixer without a memory sees its block so far
            state["short"] = cleared(state["short"], full)
        return state, None

    def _divergence(self, mean: Tensor, variance: Tensor, counted: Tensor) -> Tensor:
        signal = self.long.signal
        kl = divergence(mean, variance, signal.kl_sigma, signal.kl_mean)
        return torch.where(counted[:, None], kl, 0).sum((1, 2))

    @torch.no_grad()
    def _attended(self, state: State, mean: Tensor, variance: Tensor, counted: Tensor) -> State:
        bins = self.long.signal.bins
        if bins is None:
            return state
        counts = counted[:, None].expand(mean.shape).flatten(1)
        mass = histogram(mean.flatten(1), variance.flatten(1), counts, bins)
        return {**state, "attended": state["attended"] + mass}
