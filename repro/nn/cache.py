"""Key-value states: append tokens to rows of different lengths, by concatenation or in place.

Rows are left-aligned: the valid keys of row b are ``[0, length[b])``. A growing state is ``{"past": {...},
"length"}``, one with a capacity ``{"slots": {...}, "length"}``; the tensors inside are ``(B, S, ...)``.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from repro.nn.mixer import Layout, State


def empty_cache(
    batch: int, widths: Mapping[str, tuple[int, ...]], like: Tensor, capacity: int | None
) -> State:
    """An empty key-value state.

    Args:
        batch: rows, B.
        widths: the trailing shape of each tensor, e.g. ``{"k": (H, E), "v": (H, E)}``.
        like: gives dtype and device.
        capacity: slots for each row, written in place; None grows by concatenation.
    """
    kind = "past" if capacity is None else "slots"
    slots = {name: like.new_zeros(batch, capacity or 0, *width) for name, width in widths.items()}
    return {kind: slots, "length": torch.zeros(batch, dtype=torch.long, device=like.device)}


def append(
    state: State, new: Mapping[str, Tensor], layout: Layout
) -> tuple[dict[str, Tensor], State, Tensor]:
    """Appends the tokens of one call to every row, in the state's precision, also under autocast.

    Args:
        state: from :func:`empty_cache` or an earlier call; consumed.
        new: tensors ``(B, T, ...)``, one for each of the state's.
        layout: its ``lengths`` state how many of the T tokens of each row are kept.

    Returns:
        All keys ``(B, S, ...)`` by name, the new state, in which other entries stay, and which keys each
        query sees, boolean ``(B, 1, T, S)``.

    Raises:
        IndexError: more tokens than the capacity, padding of this call included (on CPU; unchecked on GPU,
            where a check would synchronise).
    """
    length, steps = state["length"], next(iter(new.values())).shape[1]
    merged, state = written(state, new, layout)
    places = length[:, None] + torch.arange(steps, device=length.device)
    return merged, state, _visible(merged, places, state["length"], layout.causal)


def written(state: State, new: Mapping[str, Tensor], layout: Layout) -> tuple[dict[str, Tensor], State]:
    """:func:`append` without the mask, which takes a number for each query and key."""
    length, kind = state["length"], "slots" if "slots" in state else "past"
    cached = state[kind]
    new = {name: value.to(cached[name].dtype) for name, value in new.items()}
    first = next(iter(new.values()))
    batch, steps = first.shape[:2]
    places = length[:, None] + torch.arange(steps, device=first.device)
    index = (torch.arange(batch, device=first.device)[:, None], places)
    if kind == "slots":
        merged = {name: cached[name].index_put_(index, value) for name, value in new.items()}
    else:
        merged = {name: _grow(cached[name], value, index) for name, value in new.items()}
    lengths = length + (steps if layout.lengths is None else layout.lengths)
    return merged, {**state, kind: merged, "length": lengths}


def _grow(past: Tensor, new: Tensor, index: tuple[Tensor, Tensor]) -> Tensor:
    if past.shape[1] == 0:
        return new
    room = torch.cat([past, torch.zeros_like(new)], dim=1)
    return room.index_put(index, new)


def _visible(merged: Mapping[str, Tensor], places: Tensor, lengths: Tensor, causal: bool) -> Tensor:
    size = next(iter(merged.values())).shape[1]
    keys = torch.arange(size, device=places.device)
    if causal:  # a valid query never reaches padding: its own place is below the row's length
        return keys <= places[:, None, :, None]
    attention_mask = keys < lengths.clamp(min=1)[:, None, None, None]
    return attention_mask.expand(-1, -1, places.shape[1], -1)
