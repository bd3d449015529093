"""The past of attention by distance: inputs for training, keys and values for decoding.

Both are right-aligned where they are read: the newest token is the last, so that the distance from query i to memory
entry m is the same in every row.
"""

import torch
from torch import Tensor

from repro.nn.mixer import Layout, State


def empty_memory(batch: int, d_model: int, like: Tensor) -> State:
    """No past inputs yet: ``{"memory": (B, 0, D), "length": (B,)}``."""
    return {"memory": like.new_zeros(batch, 0, d_model), "length": _zeros(batch, like)}


def remember(state: State, x: Tensor, layout: Layout, mem_len: int) -> State:
    """The last ``mem_len`` valid tokens of memory and call, right-aligned in each row; carries gradient.

    Args:
        state: ``{"memory": (B, M, D), "length": (B,)}``; the valid entries of row b are the last ``length[b]``.
        x: inputs of this call, ``(B, T, D)``.
        layout: its ``lengths`` state how many of the T tokens of a row are kept; ``settings.reread`` of the last ones
            are left out.
        mem_len: the most entries; the new state has ``min(M + T - reread, mem_len)``.
    """
    reread = layout.settings.reread
    x = x[:, : x.shape[1] - reread] if reread else x
    memory, steps = state["memory"], x.shape[1]
    size = min(memory.shape[1] + steps, mem_len)
    if layout.lengths is None:
        length = (state["length"] + steps).clamp(max=size)
        entries = x[:, steps - size :] if size <= steps else torch.cat([memory[:, steps - size :], x], dim=1)
        return {"memory": entries, "length": length}
    if reread:
        raise ValueError("tokens of rows with lengths cannot be read again")
    both = torch.cat([memory, x], dim=1)
    last = memory.shape[1] + layout.lengths - size
    # A row that took few tokens reaches back beyond the oldest entry: what is found there is not valid.
    places = (last[:, None] + torch.arange(size, device=x.device)).clamp(min=0)
    entries = both.gather(1, places[..., None].expand(-1, -1, x.shape[2]))
    return {"memory": entries, "length": (state["length"] + layout.lengths).clamp(max=size)}


def valid_memory(length: Tensor, size: int) -> Tensor | None:
    """Which of ``size`` right-aligned entries are valid, boolean ``(B, M)``; None where there are none."""
    if size == 0:
        return None
    return torch.arange(size, device=length.device) >= size - length[:, None]


def empty_slots(batch: int, size: int, heads: int, width: int, like: Tensor) -> State:
    """A ring of keys and values: ``{"slots": {"k": (B, S, H, E), "v": ...}, "length": (B,)}``.

    The token at place p of its sequence lies in slot ``p % S``, for the last S tokens; ``length`` counts all.

    Args:
        batch: B.
        size: tokens that a call can look back to. There is one slot more, for the token that is being written.
        heads: H.
        width: E.
        like: gives dtype and device.
    """
    slots = {name: like.new_zeros(batch, size + 1, heads, width) for name in ("k", "v")}
    return {"slots": slots, "length": _zeros(batch, like)}


def recall(state: State) -> tuple[Tensor, Tensor, Tensor | None]:
    """The tokens before this call in order: keys and values ``(B, S-1, H, E)``, and which of them are valid."""
    slots, length = state["slots"], state["length"]
    size = slots["k"].shape[1]
    places = length[:, None] - (size - 1) + torch.arange(size - 1, device=length.device)
    rows = torch.arange(length.shape[0], device=length.device)[:, None]
    key, value = (slots[name][rows, places % size] for name in ("k", "v"))
    return key, value, valid_memory(length, size - 1)


def write(state: State, key: Tensor, value: Tensor, layout: Layout) -> State:
    """Writes the last valid tokens of ``(B, T, H, E)`` into their slots, in place."""
    slots, start, steps = state["slots"], state["length"], key.shape[1]
    size = slots["k"].shape[1]
    count = min(steps, size)
    rows = torch.arange(start.shape[0], device=start.device)[:, None]
    last = torch.arange(steps - count, steps, device=start.device)
    if layout.lengths is None:
        end, places = start + steps, start[:, None] + last
        latest = [new[:, steps - count :] for new in (key, value)]
    else:
        end, tokens = start + layout.lengths, layout.lengths[:, None] - steps + last
        # Padding is written where the next token will be: that slot is not read before.
        places = torch.where(tokens < 0, end[:, None], start[:, None] + tokens)
        latest = [new[rows, tokens.clamp(min=0)] for new in (key, value)]
    for name, new in zip(("k", "v"), latest, strict=True):
        slots[name].index_put_((rows, places % size), new.to(slots[name].dtype))
    return {"slots": slots, "length": end}


def slot_distances(state: State) -> tuple[Tensor, Tensor]:
    """The distance of each slot's token to the one about to be written, and which slots hold one: ``(B, S)`` each.

    The slot of the token about to be written counts as holding it, at distance 0.
    """
    length, size = state["length"], state["slots"]["k"].shape[1]
    distances = (length[:, None] - torch.arange(size, device=length.device)) % size
    return distances, distances <= length[:, None]


def _zeros(batch: int, like: Tensor) -> Tensor:
    return torch.zeros(batch, dtype=torch.long, device=like.device)
