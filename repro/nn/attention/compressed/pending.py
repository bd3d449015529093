"""Inputs that wait until a long-term memory takes them in, block by block: the newest of each row.

In training ``{"memory": (B, C, D), "length": (B,)}``, right-aligned, see :mod:`repro.nn.attention.relative.past`. For
decoding in place a ring, ``{"slots": (B, S, D), "length": (B,), "total": (B,)}``: the token at place p of its row
lies in slot ``p % S``, and ``total`` counts the row's tokens.
"""

import torch
from torch import Tensor

from repro.nn.attention.relative.past import empty_memory, remember
from repro.nn.mixer import Layout, State


def empty_pending(batch: int, size: int, like: Tensor, in_place: bool) -> State:
    """No inputs yet.

    Args:
        batch: B.
        size: most inputs of a row that are kept.
        like: weights ``(·, D)``, which give width, dtype and device.
        in_place: for decoding.
    """
    state = empty_memory(batch, like.shape[1], like)
    if not in_place:
        return state
    slots = like.new_zeros(batch, size, like.shape[1])
    return {"slots": slots, "length": state["length"], "total": state["length"].clone()}


def most(pending: State) -> int:
    """A bound for the inputs of a row, known without a look at any number."""
    return pending["slots"].shape[1] if "slots" in pending else pending["memory"].shape[1]


def oldest(pending: State, count: int) -> Tensor:
    """The oldest inputs of each row, ``(B, count, D)``; rows that have fewer give anything."""
    length = pending["length"]
    steps = torch.arange(count, device=length.device)
    if "slots" in pending:
        inputs = pending["slots"]
        places = ((pending["total"] - length)[:, None] + steps) % inputs.shape[1]
    else:
        inputs = pending["memory"]
        places = ((inputs.shape[1] - length)[:, None] + steps).clamp(max=inputs.shape[1] - 1)
    return inputs.gather(1, places[..., None].expand(-1, -1, inputs.shape[2]))


def drop_oldest(pending: State, count: Tensor, size: int) -> State:
    """Removes the ``count (B,)`` oldest inputs of each row; at most ``size`` remain in each."""
    remaining = {**pending, "length": pending["length"] - count}
    if "memory" in remaining:
        remaining["memory"] = remaining["memory"][:, max(0, remaining["memory"].shape[1] - size) :]
    return remaining


def append_new(pending: State, x: Tensor, layout: Layout, size: int) -> State:
    """Appends the valid tokens of ``x (B, T, D)``, at most ``size`` in a row; a ring is written in place.

    Padding goes to slots of tokens to come, which are free: T and the inputs of a row are together ``size`` at most.
    """
    if "memory" in pending:
        return remember(pending, x, layout, size)
    slots, start = pending["slots"], pending["total"]
    places = (start[:, None] + torch.arange(x.shape[1], device=x.device)) % slots.shape[1]
    slots.index_put_((torch.arange(len(x), device=x.device)[:, None], places), x.to(slots.dtype))
    new = x.shape[1] if layout.lengths is None else layout.lengths
    return {"slots": slots, "length": pending["length"] + new, "total": start + new}
