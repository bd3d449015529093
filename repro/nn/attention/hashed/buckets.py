"""The past of hashed attention, and which of it a token sees: the keys of its buckets, without chunks."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from repro.nn.attention.hashed.hashing import Hashing, bucket_ids, draw_rotations, id_dtype
from repro.nn.cache import empty_cache
from repro.nn.mixer import Layout, State


def empty_buckets(
    batch: int, widths: dict[str, int], heads: int, like: Tensor, capacity: int | None, hashing: Hashing
) -> State:
    """An empty state of keys and values, with their bucket ids and the rotations where buckets decide.

    Args:
        batch: B.
        widths: of ``k`` and ``v``.
        heads: H.
        like: gives dtype and device.
        capacity: slots for each row; None grows by concatenation.
        hashing: the settings.

    Raises:
        ValueError: the number of buckets depends on the length, which a capacity does not fix.
    """
    state = empty_cache(batch, {name: (heads, width) for name, width in widths.items()}, like, capacity)
    if not hashing.by_bucket:
        return state
    if capacity is None and hashing.buckets is None:
        raise ValueError(
            "a state that grows needs a number of buckets: set hashing.buckets, or give a capacity"
        )
    shape, dtype = (batch, capacity or 0, heads, hashing.rounds), id_dtype(hashing.count(capacity or 0))
    state["past" if capacity is None else "slots"]["buckets"] = like.new_zeros(shape, dtype=dtype)
    sizes = hashing.sizes(capacity or 0)
    turns = draw_rotations(like, batch, heads, widths["k"], hashing.rounds, sizes, seed=0)
    return {**state, "rotations": torch.zeros_like(turns)}


def hash_into(state: State, q: Tensor, layout: Layout, hashing: Hashing) -> Tensor | None:
    """Bucket ids ``(B, H, R, T)`` of queries ``(B, T, H, E)``; None where buckets do not decide.

    Rows without tokens draw their rotations, which stay in the state; where rotations are shared, such rows of one call
    get the same.
    """
    if "rotations" not in state:
        return None
    empty = state["length"] == 0
    # On a CPU it costs nothing to look, and saves a tenth of a decoding step; elsewhere looking would wait.
    if empty.device.type != "cpu" or bool(empty.any()):
        like = state["rotations"][:1, :1] if hashing.shared_rotations else state["rotations"]
        drawn = torch.randn_like(like)
        state["rotations"] = torch.where(empty[:, None, None, None, None], drawn, state["rotations"])
    if layout.bucket_replay is not None:
        return layout.bucket_replay
    cached = state["past"] if "past" in state else state["slots"]
    return bucket_ids(q.transpose(1, 2), state["rotations"], hashing.sizes(cached["k"].shape[1]))


def round_groups(
    ids: Tensor | None, cached: dict[str, Tensor], apart: bool
) -> Iterator[tuple[Tensor | None, Tensor | None]]:
    """Buckets of queries ``(B, H, R, T)`` and of keys ``(B, H, R, S)``: of all rounds together, or ``apart``."""
    if ids is None:
        yield None, None
        return
    keys = cached["buckets"].permute(0, 2, 3, 1)
    size = 1 if apart else ids.shape[2]
    yield from zip(ids.split(size, dim=2), keys.split(size, dim=2), strict=True)


def shared_buckets(
    hidden: Tensor, own: Tensor | None, keys: Tensor | None, duplicates: bool, dtype: torch.dtype
) -> Callable[[slice], Tensor]:
    """The bias of scores: the logarithm of how often a key counts.

    Args:
        hidden: keys that are not seen whatever their bucket, ``(B, 1, T, S)``.
        own: buckets of the queries, ``(B, H, R, T)``; None where buckets do not decide.
        keys: buckets of the keys, ``(B, H, R, S)``.
        duplicates: a key counts as often as it shares a bucket, not once.
        dtype: of the scores.

    Returns:
        For a slice of queries ``(B, 1 or H, T', S)``.
    """

    def bias(span: slice) -> Tensor:
        unseen = hidden[:, :, span]
        if own is None or keys is None:
            return torch.zeros(unseen.shape, dtype=dtype, device=hidden.device).masked_fill_(
                unseen, -torch.inf
            )
        meetings = torch.zeros((), dtype=dtype, device=hidden.device)
        for r in range(own.shape[2]):
            meetings = meetings + (own[:, :, r, span, None] == keys[:, :, r, None])
        meetings = meetings if duplicates else meetings.clamp(max=1.0)
        return meetings.masked_fill(unseen, 0.0).log_()

    return bias
