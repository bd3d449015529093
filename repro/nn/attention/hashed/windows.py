"""Softmax attention in windows of sorted tokens: every chunk sees itself and the chunk before it.

All rounds together are one softmax, so that the weight of a pair is its weight within its window, times the share of
this window in all that the token sees. The backward pass computes the former anew, block by block, and the forward pass
leaves the latter: nothing of the size ``T x chunk`` is kept.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from repro.nn.attention.hashed.arrangement import HIDDEN, Arrangement, Block, hiding
from repro.nn.autograd import Context
from repro.nn.device import seeded

_STEPS = 1 << 16


def attend_in_windows(
    q: Tensor, scale: Tensor, v: Tensor, a: Arrangement, dropout: float, seed: int
) -> Tensor:
    """Attends in float32 at least. Keys are queries times a number, which costs less than to have them.

    Args:
        q: queries ``(N, T, E)``.
        scale: of the keys, ``(N, T, 1)``: the score of i and j is ``q_i · q_j scale_j``.
        v: values ``(N, T, Ev)``.
        a: who sees whom.
        dropout: on the weights.
        seed: of the dropout.

    Returns:
        ``(N, T, Ev)``.
    """
    return _Windowed.apply(q.contiguous(), scale.contiguous(), v.contiguous(), a, dropout, seed)


class _Context(Context):
    a: Arrangement
    dropout: float
    seed: int


class _Windowed(torch.autograd.Function):
    """See :func:`attend_in_windows`."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, scale: Tensor, v: Tensor, a: Arrangement, dropout: float, seed: int
    ) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        out = torch.empty_like(v)
        shares = q.new_empty(a.order.shape, dtype=wide)
        alone = torch.empty(*a.slots.shape[:2], a.steps, dtype=torch.bool, device=q.device)
        for rows in a.groups():
            parts, partition = _forward_blocks(a, rows, q, scale, v, dropout, seed)
            out[rows], share, alone[rows] = _combine(a, rows, parts, partition, v[rows])
            # Fillers have no share.
            spread = torch.zeros_like(partition).scatter_(1, a.slots[rows].flatten(1), share.flatten(1))
            shares[rows] = spread.view(shares[rows].shape)
        ctx.save_for_backward(q, scale, v, out, shares, alone)
        ctx.a, ctx.dropout, ctx.seed = a, dropout, seed
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, scale, v, out, shares, alone = ctx.saved_tensors
        a, grad, wide = ctx.a, grads[0].contiguous(), shares.dtype
        d_q, d_scale, d_v = torch.empty_like(q), torch.empty_like(scale), torch.empty_like(v)
        for rows in a.groups():
            dots = None if a.hashing.average else (out[rows].to(wide) * grad[rows].to(wide)).sum(-1)
            inputs = (q, scale, v, grad)
            by_slot = _backward_blocks(a, rows, inputs, shares[rows], dots, ctx.dropout, ctx.seed)
            by_query, by_key = (_over_rounds(part, a.slots[rows]) for part in by_slot[:2])
            torch.addcmul(by_query, by_key, scale[rows], out=d_q[rows])
            d_scale[rows] = by_key.mul_(q[rows]).sum(-1, keepdim=True)
            # A token that saw nothing but itself gave its own value.
            lonely = alone[rows].to(grad.dtype).mean(1)
            torch.addcmul(
                _over_rounds(by_slot[2], a.slots[rows]), grad[rows], lonely[..., None], out=d_v[rows]
            )
        return d_q, d_scale, d_v, None, None, None


def _over_rounds(part: Tensor, slots: Tensor) -> Tensor:
    """The sum over a token's slots, ``(n, C·m, E)`` to ``(n, T, E)``."""
    by_token = _by_token(part, slots)
    return by_token[:, 0] if by_token.shape[1] == 1 else by_token.sum(1)


def _forward_blocks(
    a: Arrangement, rows: slice, q: Tensor, scale: Tensor, v: Tensor, dropout: float, seed: int
) -> tuple[Tensor, Tensor]:
    """Every slot's output ``(n, C·m, Ev)`` and log-partition ``(n, C·m)`` within its window; -inf where it is empty."""
    wide = torch.promote_types(q.dtype, torch.float32)
    shape = (rows.stop - rows.start, *a.order.shape[1:])
    parts = v.new_empty(*shape, v.shape[-1])
    partition = q.new_empty(shape, dtype=wide)
    for b in a.blocks(rows):
        scores = _scores(a, b, _take(q, rows, b.queries), _looked_at(b, q, scale))
        weights = scores.softmax(-1)
        top = scores.amax(-1)
        z = (top - weights.amax(-1).log_()).masked_fill_(top < -HIDDEN / 4, -torch.inf)
        partition[:, b.chunks] = z.view(b.queries.shape)
        factors = _dropout_factors(weights, b, dropout, seed)
        weights = weights if factors is None else weights.mul_(factors)
        o = torch.bmm(weights.to(v.dtype), _looked_at(b, v))
        parts[:, b.chunks] = o.view(*b.queries.shape, -1)
    return parts.flatten(1, 2), partition.flatten(1)


def _combine(
    a: Arrangement, rows: slice, parts: Tensor, partition: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """All rounds together.

    A token whose windows are empty gives its own value. That is what a mask of -1e5 on the diagonal means, and exact:
    float32 scores near -1e5 are 0.008 apart, which leaves the weights of the rounds off by up to 1 %.

    Returns:
        Outputs ``(n, T, Ev)``, the shares of the rounds ``(n, R, T)``, and where a token stands alone ``(n, R, T)``.
    """
    slots = a.slots[rows]
    z = partition.gather(1, slots.flatten(1)).view(slots.shape)
    empty = z.isinf()
    alone = empty if a.hashing.average else empty.all(1, keepdim=True).expand_as(z)
    o = _by_token(parts, slots)
    if a.hashing.average:
        share = (~empty).to(z.dtype) / z.shape[1]
        mixed = torch.where(alone[..., None], v[:, None], o).mean(1)
        return mixed, share, alone
    share = z.masked_fill(alone, 0.0).softmax(1).masked_fill(alone, 0.0)
    mixed = o[:, 0] if z.shape[1] == 1 else (share[..., None].to(v.dtype) * o).sum(1)
    return torch.where(alone[:, 0, :, None], v, mixed), share, alone


def _backward_blocks(
    a: Arrangement,
    rows: slice,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    shares: Tensor,
    dots: Tensor | None,
    dropout: float,
    seed: int,
) -> list[Tensor]:
    """Gradients of every slot's query, key and value, each ``(n, C·m, E)``."""
    q, scale, v, grad = inputs
    shape = (rows.stop - rows.start, *a.order.shape[1:])
    d_q, d_k = q.new_empty(*shape, q.shape[-1]), q.new_zeros(*shape, q.shape[-1])
    d_v = v.new_zeros(*shape, v.shape[-1])
    for b in a.blocks(rows):
        q_b, k_b, v_b = _take(q, rows, b.queries), _looked_at(b, q, scale), _looked_at(b, v)
        share = shares[:, b.chunks].reshape(-1, shape[2], 1)
        g_b = _take(grad, rows, b.queries).mul_(share.to(grad.dtype))
        weights = _scores(a, b, q_b, k_b).softmax(-1)
        factors = _dropout_factors(weights, b, dropout, seed)
        d_w = torch.bmm(g_b, v_b.transpose(1, 2)).to(weights.dtype)
        d_w = d_w if factors is None else d_w.mul_(factors)
        if dots is None:
            drift = (weights * d_w).sum(-1, keepdim=True)
        else:
            drift = dots.gather(1, b.queries.clamp(max=a.steps - 1).flatten(1)).view(share.shape) * share
        d_s = d_w.sub_(drift).mul_(weights).to(q.dtype)
        dropped = (weights if factors is None else weights.mul_(factors)).to(v.dtype)
        d_q[:, b.chunks] = torch.bmm(d_s, k_b).view(*b.queries.shape, -1)
        _add(d_k, b, torch.bmm(d_s.transpose(1, 2), q_b))
        _add(d_v, b, torch.bmm(dropped.transpose(1, 2), g_b))
    return [d.flatten(1, 2) for d in (d_q, d_k, d_v)]


def _looked_at(b: Block, x: Tensor, scale: Tensor | None = None) -> Tensor:
    """The keys that the chunks of a block see, of ``x (N, T, E)`` times ``scale (N, T, 1)``: ``(n·G, W, E)``."""
    count, chunks, size = b.queries.shape
    tokens = b.keys
    overlapping = count == 1 and b.keys.shape[2] > size
    if overlapping:  # every chunk is taken once, and the windows are views
        tokens = torch.cat([b.keys[:, :1, :size], b.queries], dim=1)
    windows = _take(x, b.rows, tokens)
    if scale is not None:
        windows.mul_(_take(scale, b.rows, tokens))
    if not overlapping:
        return windows
    width = x.shape[2]
    return windows.as_strided((chunks, 2 * size, width), (size * width, width, 1))


def _scores(a: Arrangement, b: Block, q: Tensor, k: Tensor) -> Tensor:
    """Scores ``(n·G, m, W)`` in float32 at least, far below all others where hidden."""
    wide = torch.promote_types(q.dtype, torch.float32)
    hidden = hiding(a, b, wide)
    if q.dtype == wide:
        return hidden.baddbmm_(q, k.transpose(1, 2), beta=-1.0)
    return torch.bmm(q, k.transpose(1, 2)).to(wide).sub_(hidden)


def _dropout_factors(like: Tensor, b: Block, p: float, seed: int) -> Tensor | None:
    """Dropout's factors, the same in both passes; None without dropout.

    Deviation: the probability is ``p`` rounded to 1/65,536.
    """
    dropped = min(round(p * _STEPS), _STEPS - 1)
    if not dropped:
        return None
    generator = seeded(like.device, seed + b.index)
    words = torch.empty(-(-like.numel() // 4), dtype=torch.int64, device=like.device)
    drawn = (
        words.random_(-(1 << 63), None, generator=generator)
        .view(torch.int16)[: like.numel()]
        .view(like.shape)
    )
    first = dropped - _STEPS // 2  # the smallest number that is kept
    # 0 or 1 by clamping: a comparison takes three times as long
    return drawn.clamp_(first - 1, first).sub_(first - 1).to(like.dtype).mul_(_STEPS / (_STEPS - dropped))


def _take(x: Tensor, rows: slice, tokens: Tensor) -> Tensor:
    """Rows of ``x (N, T, E)`` for tokens ``(n, G, m)``: ``(n·G, m, E)``; fillers take some token."""
    steps = x.shape[1]
    first = torch.arange(rows.start, rows.stop, device=x.device)[:, None, None] * steps
    index = (tokens.clamp(max=steps - 1) + first).flatten()
    return x.view(-1, x.shape[-1]).index_select(0, index).view(-1, tokens.shape[2], x.shape[-1])


def _by_token(x: Tensor, slots: Tensor) -> Tensor:
    """Values of the slots ``(n, C·m, E)`` for every round and token, ``(n, R, T, E)``."""
    first = torch.arange(x.shape[0], device=x.device)[:, None, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (slots + first).flatten()).view(*slots.shape, -1)


def _add(whole: Tensor, b: Block, part: Tensor) -> None:
    """Adds what belongs to the windows of a block, ``(n·G, W, E)``, to the chunks ``(n, C, m, E)``."""
    size, part = whole.shape[2], part.view(*b.keys.shape, -1)
    whole[:, b.chunks] += part[:, :, -size:]
    if part.shape[2] == size:
        return
    if b.chunks.start == 0:
        whole[:, -1] += part[:, 0, :size]
        part = part[:, 1:]
    whole[:, max(0, b.chunks.start - 1) : b.chunks.stop - 1] += part[:, :, :size]
