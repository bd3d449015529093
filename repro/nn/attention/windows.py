"""Softmax attention in windows of sorted tokens: every chunk sees itself and the chunk before it.

All rounds together are one softmax: with the log-partition of all that a token sees in any round, the weight of a
pair is ``exp(score - log-partition)`` wherever it stands. So the backward pass needs that number alone and computes the
weights anew, block by block; nothing of the size ``T x chunk`` is kept.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from repro.nn.attention.hashing import Hashing

# Scores that are computed at once: on a CPU as many as its cache holds.
BLOCK = {"cpu": 1 << 18}
_BLOCK = 1 << 26
_STEPS = 1 << 16


@dataclass(frozen=True)
class Plan:
    """Who sees whom. N is B·H; the slots of row n are its tokens in sorted order, round after round.

    Attributes:
        hashing: the settings.
        causal: whether a token sees only the past.
        steps: T.
        chunk: slots of one chunk, C chunks for all rounds together.
        order: token in each slot, ``(N, C, chunk)``; those from T on are fillers.
        slots: slot of each token in each round, ``(N, R, T)``.
        group: tokens of other groups do not see each other, ``(N, C, chunk)``; None where all do.
        places: codes of bucket and chunk ``(N, R, T)``: a token sees another in a round where they differ by 0 or 1;
            None where pairs need not be counted.
        dropout: on the weights.
        seed: of the dropout.
    """

    hashing: Hashing
    causal: bool
    steps: int
    chunk: int
    order: Tensor
    slots: Tensor
    group: Tensor | None
    places: Tensor | None
    dropout: float = 0.0
    seed: int = 0

    @property
    def chunks(self) -> int:
        """C."""
        return self.order.shape[1]


@torch.no_grad()
def plan(
    buckets: Tensor,
    lengths: Tensor | None,
    count: int,
    hashing: Hashing,
    causal: bool,
    dropout: float,
    seed: int,
) -> Plan:
    """Sorts the tokens of every round by bucket, then by place.

    Args:
        buckets: ``(B, H, R, T)``, each below ``count``.
        lengths: valid tokens of each row, ``(B,)``; the others get a bucket of their own at the end, as do the
            fillers of the last chunk of each round.
        count: buckets of one round.
        hashing: the settings.
        causal: whether a token sees only the past.
        dropout: on the weights.
        seed: of the dropout.
    """
    rows, heads, rounds, steps = buckets.shape
    chunk = min(hashing.chunk, steps)
    per_round = -(-steps // chunk)
    if lengths is not None:
        padding = torch.arange(steps, device=buckets.device) >= lengths[:, None, None, None]
        buckets = buckets.masked_fill(padding, count)
    fillers = buckets.new_full((rows, heads, rounds, per_round * chunk - steps), count)
    ids, order = torch.cat([buckets, fillers], dim=-1).flatten(0, 1).sort(dim=-1, stable=True)
    first = torch.arange(rounds, device=order.device)[:, None] * order.shape[-1]
    slots = torch.empty_like(order).scatter_(
        -1, order, (first + torch.arange(order.shape[-1], device=order.device)).expand_as(order)
    )
    shape = (rows * heads, rounds * per_round, chunk)
    group = None
    if not hashing.across_buckets:
        group = (
            ids.int() + torch.arange(rounds, device=ids.device, dtype=torch.int32)[:, None] * (count + 1)
        ).view(shape)
    elif not causal and (lengths is not None or fillers.shape[-1]):
        group = (ids == count).int().view(shape)
    places = _places(ids, chunk, hashing, slots, steps) if rounds > 1 and not hashing.duplicates else None
    return Plan(
        hashing, causal, steps, chunk, order.view(shape), slots[..., :steps], group, places, dropout, seed
    )


def _places(ids: Tensor, chunk: int, hashing: Hashing, slots: Tensor, steps: int) -> Tensor:
    """Codes that differ by 0 or 1 where one token sees the other; chunks count 1, and buckets 2."""
    slot = torch.arange(ids.shape[-1], device=ids.device)
    steps_up = (slot % chunk == 0).int().expand_as(ids).clone()
    if not hashing.across_buckets:
        steps_up[..., 1:] += 2 * (ids[..., 1:] != ids[..., :-1])
    codes = steps_up.cumsum(-1)
    per_round = slots - torch.arange(ids.shape[1], device=ids.device)[:, None] * ids.shape[-1]
    return codes.gather(-1, per_round)[..., :steps].int()


def attend_in_windows(q: Tensor, k: Tensor, v: Tensor, arrangement: Plan) -> Tensor:
    """Attends; ``q, k (N, T, E)``, ``v (N, T, Ev)`` to ``(N, T, Ev)``; scores are ``q · k``, in float32 at least."""
    return _Windowed.apply(q.contiguous(), k.contiguous(), v.contiguous(), arrangement)


@dataclass(frozen=True)
class _Block:
    """Some chunks of some rows: tokens of the queries ``(n, G, m)``, of the keys ``(n, G, W)``, and what is hidden."""

    rows: slice
    chunks: slice
    index: int
    queries: Tensor
    keys: Tensor


def _groups(p: Plan) -> Iterator[slice]:
    """Rows that are worked on together."""
    size = BLOCK.get(p.order.device.type, _BLOCK)
    n = max(1, size // (p.chunks * p.chunk * 2 * p.chunk))
    for first in range(0, p.order.shape[0], n):
        yield slice(first, min(first + n, p.order.shape[0]))


def _blocks(p: Plan, rows: slice) -> Iterator[_Block]:
    size = BLOCK.get(p.order.device.type, _BLOCK)
    count = rows.stop - rows.start
    span = max(1, size // (count * p.chunk * 2 * p.chunk))
    order = p.order[rows]
    for first in range(0, p.chunks, span):
        chunks = slice(first, min(first + span, p.chunks))
        index = rows.start * p.chunks + first
        yield _Block(rows, chunks, index, order[:, chunks], _window(order, chunks))


def _window(slots: Tensor, chunks: slice) -> Tensor:
    """The chunk before and the chunk itself, ``(n, C, m)`` to ``(n, G, 2m)``; a single chunk stands alone."""
    if slots.shape[1] == 1:
        return slots
    if chunks.start == 0:
        before = torch.cat([slots[:, -1:], slots[:, : chunks.stop - 1]], dim=1)
    else:
        before = slots[:, chunks.start - 1 : chunks.stop - 1]
    return torch.cat([before, slots[:, chunks]], dim=-1)


def _take(x: Tensor, rows: slice, tokens: Tensor, steps: int) -> Tensor:
    """Rows of ``x (N, T, E)`` for tokens ``(n, G, m)``: ``(n·G, m, E)``; fillers take some token."""
    first = torch.arange(rows.start, rows.stop, device=x.device)[:, None, None] * steps
    index = (tokens.clamp(max=steps - 1) + first).flatten()
    return x.view(-1, x.shape[-1]).index_select(0, index).view(-1, tokens.shape[2], x.shape[-1])


def _scores(p: Plan, b: _Block, q: Tensor, k: Tensor) -> Tensor:
    """Scores ``(n·G, m, W)`` in float32 at least, minus infinity where hidden."""
    scores = torch.bmm(q, k.transpose(1, 2))
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    own, other = b.queries[..., :, None], b.keys[..., None, :]
    hidden = None
    if p.causal:
        hidden = own < other if p.hashing.see_self else own <= other
    elif not p.hashing.see_self:
        hidden = own == other
    if p.group is not None:
        group = p.group[b.rows]
        apart = group[:, b.chunks, :, None] != _window(group, b.chunks)[..., None, :]
        hidden = apart if hidden is None else hidden.logical_or_(apart)
    if p.places is not None:
        scores.sub_(_meetings(p, b).flatten(0, 1).to(scores.dtype).log_())
    return scores if hidden is None else scores.masked_fill_(hidden.flatten(0, 1), -torch.inf)


def _meetings(p: Plan, b: _Block) -> Tensor:
    """In how many windows each pair meets, ``(n, G, m, W)``; right at least where they see each other."""
    assert p.places is not None
    places = p.places[b.rows]
    rounds = places.shape[1]

    def at(tokens: Tensor, codes: Tensor) -> Tensor:
        return codes.gather(1, tokens.clamp(max=p.steps - 1).flatten(1)).view(tokens.shape)

    count = torch.zeros((), dtype=torch.int32, device=places.device)
    for r in range(rounds):
        apart = at(b.queries, places[:, r])[..., :, None] - at(b.keys, places[:, r])[..., None, :]
        count = count + (apart.bitwise_right_shift_(1) == 0).int()
    if p.hashing.across_buckets:
        last = places.amax(-1)
        for r in range(rounds):  # the first chunk of a round looks back at the last one of the round before
            mine = at(b.queries, places[:, r]) == 1
            theirs = at(b.keys, places[:, r - 1]) == last[:, r - 1, None, None]
            count = count + (mine[..., :, None] & theirs[..., None, :]).int()
    return count


def _kept(p: Plan, b: _Block, like: Tensor) -> Tensor | None:
    """Dropout's factors, the same in every pass; None without dropout."""
    if not p.dropout:
        return None
    generator = torch.Generator(like.device).manual_seed((p.seed + b.index) % (1 << 63))
    drawn = torch.empty(like.shape, dtype=torch.int16, device=like.device)
    drawn.random_(-_STEPS // 2, _STEPS // 2, generator=generator)
    dropped = min(round(p.dropout * _STEPS), _STEPS - 1)
    return (drawn >= dropped - _STEPS // 2).to(like.dtype).mul_(_STEPS / (_STEPS - dropped))


class _Windowed(torch.autograd.Function):
    """See :func:`attend_in_windows`."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, p: Plan) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        out = torch.empty(v.shape, dtype=v.dtype, device=v.device)
        rounds = p.slots.shape[1]
        # One log-partition for a token, or one for each of its slots where rounds are averaged.
        total = q.new_empty(q.shape[0], rounds if p.hashing.average else 1, p.steps, dtype=wide)
        for rows in _groups(p):
            parts, partition = _all_blocks(p, rows, q, k, v, wide)
            slots = p.slots[rows]
            z = partition.gather(1, slots.flatten(1)).view(slots.shape)
            first = torch.arange(slots.shape[0], device=q.device)[:, None, None] * partition.shape[1]
            o = parts.flatten(0, 1).index_select(0, (slots + first).flatten()).view(*slots.shape, -1)
            out[rows], total[rows] = _combine(z, o, v[rows], p.hashing.average)
        ctx.save_for_backward(q, k, v, out, total)
        ctx.plan = p
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, total = ctx.saved_tensors
        p, grad = ctx.plan, grads[0].contiguous()
        wanted = [torch.empty_like(t) for t in (q, k, v)]
        for rows in _groups(p):
            sorted_grads = _all_backward(p, rows, q, k, v, out, total, grad)
            slots = p.slots[rows]
            for whole, part in zip(wanted, sorted_grads, strict=True):
                first = torch.arange(slots.shape[0], device=q.device)[:, None, None] * part.shape[1]
                found = part.flatten(0, 1).index_select(0, (slots + first).flatten())
                whole[rows] = found.view(*slots.shape, -1).sum(1)
            alone = total[rows].isinf()
            share = alone.sum(1)[..., None] / alone.shape[1]
            wanted[2][rows] += grad[rows] * share.to(grad.dtype)
        return (*wanted, None)


def _all_blocks(
    p: Plan, rows: slice, q: Tensor, k: Tensor, v: Tensor, wide: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Every slot's output ``(n, C·m, Ev)`` and log-partition ``(n, C·m)`` within its own window."""
    count = rows.stop - rows.start
    parts = torch.empty(count, p.chunks, p.chunk, v.shape[-1], dtype=wide, device=v.device)
    partition = torch.empty(count, p.chunks, p.chunk, dtype=wide, device=v.device)
    for b in _blocks(p, rows):
        scores = _scores(p, b, _take(q, rows, b.queries, p.steps), _take(k, rows, b.keys, p.steps))
        top = scores.amax(-1, keepdim=True).clamp_(min=torch.finfo(wide).min)
        weights = scores.sub_(top).exp_()
        mass = weights.sum(-1, keepdim=True)
        partition[:, b.chunks] = (mass.log() + top).view(b.queries.shape)
        kept = _kept(p, b, weights)
        weights = weights if kept is None else weights.mul_(kept)
        o = torch.bmm(weights.to(v.dtype), _take(v, rows, b.keys, p.steps)).to(wide)
        parts[:, b.chunks] = (o / mass.clamp_(min=torch.finfo(wide).tiny)).view(*b.queries.shape, -1)
    return parts.flatten(1, 2), partition.flatten(1)


def _combine(z: Tensor, o: Tensor, v: Tensor, average: bool) -> tuple[Tensor, Tensor]:
    """Rounds together: ``z (n, R, T)``, ``o (n, R, T, Ev)`` to outputs ``(n, T, Ev)`` and log-partitions.

    Where a token sees nothing the log-partition is minus infinity, and its own value is the output: as exact as the
    mask of -1e5 means it, which in float32 leaves the weights of the rounds off by up to 1 %.
    """
    v = v.to(o.dtype)
    if average:
        alone = z.isinf()
        o = torch.where(alone[..., None], v[:, None], o)
        return o.mean(1), z
    total = z.logsumexp(1, keepdim=True)
    alone = total.isinf()
    weights = (z - total.masked_fill(alone, 0.0)).exp()
    mixed = (weights[..., None] * o).sum(1)
    return torch.where(alone[:, 0, :, None], v, mixed), total


def _all_backward(
    p: Plan, rows: slice, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of every slot's query, key and value, each ``(n, C·m, E)``."""
    count, wide = rows.stop - rows.start, total.dtype
    shape = (count, p.chunks, p.chunk)
    d_q = torch.empty(*shape, q.shape[-1], dtype=wide, device=q.device)
    d_k = torch.zeros(count, p.chunks, p.chunk, k.shape[-1], dtype=wide, device=q.device)
    d_v = torch.zeros(count, p.chunks, p.chunk, v.shape[-1], dtype=wide, device=q.device)
    # Fillers weigh nothing; nor does anyone who sees nothing.
    partition = torch.full((count, p.chunks * p.chunk), torch.inf, dtype=wide, device=q.device)
    slots = p.slots[rows]
    spread = total[rows].masked_fill(total[rows].isinf(), torch.inf).expand(slots.shape)
    partition.scatter_(1, slots.flatten(1), spread.flatten(1))
    partition = partition.view(shape)
    rounds = slots.shape[1] if p.hashing.average else 1
    dots = (out[rows].to(wide) * grad[rows].to(wide)).sum(-1)
    for b in _blocks(p, rows):
        q_b, k_b, v_b = (_take(t, rows, at, p.steps) for t, at in ((q, b.queries), (k, b.keys), (v, b.keys)))
        g_b = _take(grad, rows, b.queries, p.steps)
        weights = _scores(p, b, q_b, k_b).sub_(partition[:, b.chunks].flatten(0, 1)[..., None]).exp_()
        weights = weights.div_(rounds) if rounds > 1 else weights
        d_w = torch.bmm(g_b, v_b.transpose(1, 2)).to(wide)
        kept = _kept(p, b, weights)
        d_w = d_w if kept is None else d_w.mul_(kept)
        if p.hashing.average:
            drift = (weights * d_w).sum(-1, keepdim=True) * rounds
        else:
            drift = dots.gather(1, b.queries.clamp(max=p.steps - 1).flatten(1)).view(-1, p.chunk, 1)
        d_s = d_w.sub_(drift).mul_(weights).to(q.dtype)
        dropped = (weights if kept is None else weights * kept).to(v.dtype)
        d_q[:, b.chunks] = torch.bmm(d_s, k_b).view(*b.queries.shape, -1).to(wide)
        _add(d_k, b.chunks, torch.bmm(d_s.transpose(1, 2), q_b).view(*b.keys.shape, -1))
        _add(d_v, b.chunks, torch.bmm(dropped.transpose(1, 2), g_b).view(*b.keys.shape, -1))
    return d_q.flatten(1, 2), d_k.flatten(1, 2), d_v.flatten(1, 2)


def _add(whole: Tensor, chunks: slice, part: Tensor) -> None:
    """Adds what belongs to the windows of some chunks, ``(n, G, W, E)``, to the chunks ``(n, C, m, E)``."""
    size = whole.shape[2]
    whole[:, chunks] += part[:, :, -size:]
    if part.shape[2] == size:
        return
    if chunks.start == 0:
        whole[:, -1] += part[:, 0, :size]
        whole[:, : chunks.stop - 1] += part[:, 1:, :size]
    else:
        whole[:, chunks.start - 1 : chunks.stop - 1] += part[:, :, :size]
