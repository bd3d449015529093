"""The visible pairs of hashed attention: tokens sorted by bucket, cut into chunks, and the pairs that are hidden.

Comparisons are slow on CPUs and sums are fast: what hides a pair is a positive number made from differences, which is
subtracted from its score in the product that makes the scores.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from repro.nn.attention.hashed.hashing import Hashing

# The unit of what hides: no score comes near, and float32 holds it times any place or bucket exactly.
HIDDEN = 2.0**90
# Scores that are computed at once: on a CPU as many as its cache holds.
_BLOCK = {"cpu": 1 << 18}
_BLOCK_ELSEWHERE = 1 << 26


@dataclass(frozen=True)
class Arrangement:
    """Sorted tokens. N is B·H, C the chunks of all rounds together, m the slots of a chunk.

    Attributes:
        hashing: the settings.
        causal: whether a token sees only the past.
        steps: T.
        order: token in each slot, round after round, ``(N, C, m)``; those from T on are fillers.
        slots: slot of each token in each round, ``(N, R, T)``.
        group: tokens of other groups do not see each other, ``(N, C, m)``; None where all do.
        codes: of bucket and chunk in each round, ``(N, R, T)``: a token sees another in a round where its code is the
            same or greater by 1; None where a pair may count in several rounds.
    """

    hashing: Hashing
    causal: bool
    steps: int
    order: Tensor
    slots: Tensor
    group: Tensor | None
    codes: Tensor | None

    def groups(self) -> Iterator[slice]:
        """Rows that are worked on together."""
        count = max(1, self._size() // (self.order.shape[1] * self._scores()))
        for first in range(0, self.order.shape[0], count):
            yield slice(first, min(first + count, self.order.shape[0]))

    def blocks(self, rows: slice) -> Iterator["Block"]:
        """Chunks that are worked on together."""
        total = self.order.shape[1]
        count = max(1, self._size() // ((rows.stop - rows.start) * self._scores()))
        order = self.order[rows]
        for first in range(0, total, count):
            chunks = slice(first, min(first + count, total))
            yield Block(rows, chunks, rows.start * total + first, order[:, chunks], window(order, chunks))

    def _size(self) -> int:
        return _BLOCK.get(self.order.device.type, _BLOCK_ELSEWHERE)

    def _scores(self) -> int:
        return 2 * self.order.shape[2] ** 2


@dataclass(frozen=True)
class Block:
    """Some chunks of some rows.

    Attributes:
        rows: of the N.
        chunks: of the C.
        index: differs from block to block.
        queries: their tokens ``(n, G, m)``.
        keys: the tokens that each chunk looks at, ``(n, G, W)``.
    """

    rows: slice
    chunks: slice
    index: int
    queries: Tensor
    keys: Tensor


def window(slots: Tensor, chunks: slice) -> Tensor:
    """The chunk before and the chunk itself, ``(n, C, m)`` to ``(n, G, 2m)``; a single chunk has none before."""
    if slots.shape[1] == 1:
        return slots
    before = slots[:, max(0, chunks.start - 1) : chunks.stop - 1]
    if chunks.start == 0:
        before = torch.cat([slots[:, -1:], before], dim=1)
    return torch.cat([before, slots[:, chunks]], dim=-1)


@torch.no_grad()
def arrange(
    buckets: Tensor, lengths: Tensor | None, count: int, hashing: Hashing, causal: bool
) -> Arrangement:
    """Sorts the tokens of every round by bucket, then by place.

    Args:
        buckets: ``(B, H, R, T)``, each below ``count``.
        lengths: valid tokens of each row, ``(B,)``; the others get a bucket of their own behind the rest, and so do
            the fillers of the last chunk of each round.
        count: buckets of one round.
        hashing: the settings.
        causal: whether a token sees only the past.

    Source: Kitaev et al. 2020, section 2 (sorting and chunking).
    """
    rows, heads, rounds, steps = buckets.shape
    chunk = min(hashing.chunk, steps)
    per_round = -(-steps // chunk) * chunk
    if lengths is not None:
        padding = torch.arange(steps, device=buckets.device) >= lengths[:, None, None, None]
        buckets = buckets.masked_fill(padding, count)
    fillers = buckets.new_full((rows, heads, rounds, per_round - steps), count)
    # Stable, so that the tokens of a bucket keep the order of their places.
    ids, order = torch.cat([buckets, fillers], dim=-1).flatten(0, 1).sort(dim=-1, stable=True)
    places = torch.arange(rounds * per_round, device=order.device).view(rounds, per_round)
    slots = torch.empty_like(order).scatter_(-1, order, places.expand_as(order))[..., :steps]
    codes = None
    if rounds > 1 and not hashing.duplicates:
        codes = _codes(ids, chunk, count, hashing).gather(-1, slots - places[:, :1]).contiguous()
    whole = causal or (lengths is None and per_round == steps)  # causality hides later tokens
    group = _groups(ids, count, hashing, whole)
    shape = (rows * heads, -1, chunk)
    group = None if group is None else group.view(shape)
    return Arrangement(hashing, causal, steps, order.view(shape), slots, group, codes)


def _groups(ids: Tensor, count: int, hashing: Hashing, whole: bool) -> Tensor | None:
    """The visibility of sorted bucket ids ``(N, R, T)``."""
    rounds = torch.arange(ids.shape[1], device=ids.device, dtype=torch.int32)[:, None]
    if not hashing.across_buckets:
        return ids.int() + (count + 1) * rounds
    if not hashing.duplicates and ids.shape[1] > 1:
        return (ids == count).int() + 2 * rounds
    return None if whole else (ids == count).int()


def _codes(ids: Tensor, chunk: int, count: int, hashing: Hashing) -> Tensor:
    """Codes of sorted bucket ids ``(N, R, T)``: a new chunk adds 1, a new bucket 2."""
    slot = torch.arange(ids.shape[-1], device=ids.device)
    steps = (slot % chunk == 0).int().expand_as(ids).clone()
    if not hashing.across_buckets:
        steps[..., 1:] += 2 * (ids[..., 1:] != ids[..., :-1])
    most = ids.shape[-1] // chunk + 2 * (count + 1)
    return steps.cumsum(-1).to(torch.int16 if most < torch.iinfo(torch.int16).max - 8 else torch.int32)


def hiding(a: Arrangement, b: Block, dtype: torch.dtype) -> Tensor:
    """The penalty of scores: 0 where a pair is seen, at least ``HIDDEN / 2`` elsewhere; ``(n·G, m, W)``."""
    own, other = (tokens.to(dtype).mul_(HIDDEN) for tokens in (b.queries, b.keys))
    if a.causal:
        own = own.add_(HIDDEN / 2 if a.hashing.see_self else -HIDDEN / 2)
        penalty = (other[..., None, :] - own[..., :, None]).clamp_(min=0.0)
    elif a.hashing.see_self:
        penalty = own.new_zeros(*own.shape, other.shape[-1])
    else:
        penalty = (other[..., None, :] - own[..., :, None]).abs_().neg_().add_(HIDDEN / 2).clamp_(min=0.0)
    if a.group is not None:
        group = a.group[b.rows].to(dtype).mul_(HIDDEN)
        penalty += (group[:, b.chunks, :, None] - window(group, b.chunks)[..., None, :]).abs_()
    if not a.hashing.wrap and penalty.shape[-1] > penalty.shape[-2]:
        per_round, size = a.order.shape[1] // a.slots.shape[1], a.order.shape[2]
        penalty[:, -b.chunks.start % per_round :: per_round, :, :size] += HIDDEN
    unseen = None if a.codes is None else _unseen_before(a, b)
    if unseen is not None:
        penalty += unseen.to(dtype).abs_().neg_().add_(1.0).mul_(HIDDEN)
    return penalty.flatten(0, 1)


def _unseen_before(a: Arrangement, b: Block) -> Tensor | None:
    """0 where a pair was seen in an earlier round, else 1 or -1, ``(n, G, m, W)``; None in the first round.

    What several rounds bring together counts in the first of them.
    """
    assert a.codes is not None
    codes, per_round = a.codes[b.rows], a.order.shape[1] // a.codes.shape[1]
    rounds = torch.arange(b.chunks.start, b.chunks.stop, device=codes.device) // per_round
    unseen: Tensor | None = None
    for earlier in range((b.chunks.stop - 1) // per_round):
        own, other = (_of_tokens(codes[:, earlier], tokens, a.steps) for tokens in (b.queries, b.keys))
        own = own.masked_fill(
            (rounds <= earlier)[:, None], -8
        )  # no code is so low: not earlier for these chunks
        apart = (own[..., :, None] - other[..., None, :]).bitwise_right_shift_(1).clamp_(-1, 1)
        unseen = apart if unseen is None else unseen.mul_(apart)
    return unseen


def _of_tokens(codes: Tensor, tokens: Tensor, steps: int) -> Tensor:
    """``codes (n, T)`` of tokens ``(n, G, m)``; fillers have some code."""
    return codes.gather(1, tokens.clamp(max=steps - 1).flatten(1)).view(tokens.shape)
