"""Means over the past, weighted by products of features: chunk by chunk, in linear time.

Inside a chunk the weights of all pairs of tokens are made, as dense attention does; what came before a chunk enters as
one sum of products of keys and values. Sums of single tokens, ``(T, E, Ev)``, are never made.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from repro.nn.autograd import Context
from repro.nn.device import without_autocast

# So many chunks of every row and head are worked on together, as long as their queries are so many numbers: on a CPU
# what is made in between stays in its cache; elsewhere fewer and larger products are faster. Summing n chunks costs n².
_CPU = (16, 1 << 17)
_OTHER = (64, 1 << 24)


def causal_mean(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, z: Tensor, chunk: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``y_t = q_t S_t / (q_t · z_t + eps)`` with ``S_t = s + Σ_{j ≤ t} k_j v_jᵀ`` and ``z_t = z + Σ_{j ≤ t} k_j``.

    Args:
        q: features of queries ``(B, T, H, E)``.
        k: features of keys ``(B, T, H, E)``; zero for padding.
        v: values ``(B, T, H, Ev)``, finite also for padding.
        s: sum of the products of earlier keys and values ``(B, H, E, Ev)``.
        z: sum of earlier keys ``(B, H, E)``.
        chunk: tokens of a chunk, at most; chunks are made equally long, to pad little.
        eps: added to the denominator.

    Returns:
        ``y (B, T, H, Ev)`` and the last sums.

    Source: Katharopoulos et al. 2020, equations 10 to 12; gradients, equations 13 to 15.
    """
    if q.shape[1] == 0:
        return torch.zeros_like(v), s, z
    return _CausalMean.apply(q, k, v, s, z, chunk, eps)


class _Context(Context):
    cuts: "_Cuts"


class _CausalMean(torch.autograd.Function):
    """Saves its inputs, its output, the denominators and few sums; the backward pass computes the weights again."""

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor, v: Tensor, s: Tensor, z: Tensor, chunk: int, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        cuts = _Cuts(q, chunk)
        y, total = v.new_empty(v.shape), v.new_empty(v.shape[:3])
        s, z = s.flatten(0, 1), z.flatten(0, 1)
        borders = []
        for span in cuts.spans():
            borders += [s, z]  # the backward pass starts each group from the sums before it
            qc, kc, vc = (cuts.take(t, span) for t in (q, k, v))
            weights = torch.bmm(qc, kc.mT).tril_()
            s_before, s = _running(torch.bmm(kc.mT, vc), s)
            z_before, z = _running(kc.sum(1), z)
            divisor = weights.sum(-1).add_((qc * z_before[:, None]).sum(-1)).add_(eps)
            sums = torch.bmm(weights, vc)
            torch.baddbmm(sums, qc, s_before, out=sums)
            cuts.put(y, sums.div_(divisor[..., None]), span)
            cuts.put(total[..., None], divisor[..., None], span)
        ctx.save_for_backward(q, k, v, y, total, *borders)
        ctx.cuts = cuts
        heads = q.shape[0], q.shape[2]
        return y, s.unflatten(0, heads), z.unflatten(0, heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, grad_y: Tensor, grad_s: Tensor, grad_z: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, y, total, *borders = ctx.saved_tensors
        cuts = ctx.cuts
        grads = [torch.empty_like(t) for t in (q, k, v)]
        ds, dz = grad_s.flatten(0, 1), grad_z.flatten(0, 1)
        with without_autocast(q.device):
            for i, span in reversed(list(enumerate(cuts.spans()))):
                parts = [cuts.take(t, span) for t in (q, k, v, y, grad_y)]
                divisor = cuts.take(total[..., None], span, 1.0)  # fillers must not divide by 0
                before = borders[2 * i], borders[2 * i + 1]
                new, ds, dz = _back(parts, divisor, before, (ds, dz))
                for grad, part in zip(grads, new, strict=True):
                    cuts.put(grad, part, span)
        return *grads, ds.view_as(grad_s), dz.view_as(grad_z), None, None


def _back(
    parts: list[Tensor], divisor: Tensor, before: tuple[Tensor, Tensor], after: tuple[Tensor, Tensor]
) -> tuple[list[Tensor], Tensor, Tensor]:
    """Gradients of some chunks' ``q, k, v`` and of the sums before them.

    Args:
        parts: ``q, k, v, y`` and the gradient of ``y``, each ``(G·n, c, ·)``.
        divisor: ``(G·n, c, 1)``.
        before: the sums before these chunks.
        after: gradients of the sums behind them.
    """
    (q, k, v, y, grad_y), (ds, dz) = parts, after
    above = grad_y / divisor  # of the numerator
    below = -(above * y).sum(-1, keepdim=True)  # of the denominator
    weights = torch.bmm(q, k.mT).tril_()
    grad_weights = torch.baddbmm(below, above, v.mT).tril_()
    s_before, _ = _running(torch.bmm(k.mT, v), before[0])
    z_before, _ = _running(k.sum(1), before[1])
    s_after, ds = _running(torch.bmm(q.mT, above), ds, back=True)
    z_after, dz = _running(torch.bmm(q.mT, below)[..., 0], dz, back=True)
    grad_q = torch.bmm(grad_weights, k).addcmul_(below, z_before[:, None])
    grad_k = torch.baddbmm(z_after[:, None], grad_weights.mT, q)
    grad_v = torch.bmm(weights.mT, above)
    for grad, a, b in ((grad_q, above, s_before.mT), (grad_k, v, s_after.mT), (grad_v, k, s_after)):
        torch.baddbmm(grad, a, b, out=grad)
    return [grad_q, grad_k, grad_v], ds, dz


def _running(parts: Tensor, first: Tensor, back: bool = False) -> tuple[Tensor, Tensor]:
    """For each chunk ``first`` plus the chunks before it (behind it if ``back``), and ``first`` plus all of them.

    ``parts (G·n, ...)``, ``first (G, ...)``. It is one product with a triangle: torch sums along an outer axis slowly.
    """
    rows = first.shape[0]
    n = parts.shape[0] // rows
    if n == 1:
        return first, first + parts
    ones = parts.new_ones(n + 1, n)
    ones = ones.triu() if back else ones.tril(-1)
    sums = torch.baddbmm(
        first.reshape(rows, 1, -1), ones.expand(rows, -1, -1), parts.reshape(rows, n, -1)
    ).view(rows, n + 1, *parts.shape[1:])
    before, total = (sums[:, 1:], sums[:, 0]) if back else (sums[:, :-1], sums[:, -1])
    return before.reshape(parts.shape), total.clone()  # which is kept: a view would keep all


class _Cuts:
    """The cut of a sequence into chunks, and the groups of chunks that are computed together.

    Args:
        like: ``(B, T, H, E)``.
        chunk: tokens of a chunk, at most.
    """

    def __init__(self, like: Tensor, chunk: int) -> None:
        rows, self.steps = like.shape[0] * like.shape[2], like.shape[1]
        self.count = -(-self.steps // chunk)
        self.size = -(-self.steps // self.count)
        chunks, numbers = _CPU if like.device.type == "cpu" else _OTHER
        self.together = max(1, min(chunks, numbers // (rows * self.size * like.shape[-1])))

    def spans(self) -> Iterator[tuple[int, int]]:
        """First chunk of each group, and the one behind its last."""
        for first in range(0, self.count, self.together):
            yield first, min(self.count, first + self.together)

    def take(self, x: Tensor, span: tuple[int, int], fill: float = 0.0) -> Tensor:
        """Some chunks of ``x (B, T, H, E)`` as ``(B·H·n, c, E)``, filled up to whole chunks."""
        first, last = span
        part = x[:, first * self.size : last * self.size].transpose(1, 2)
        missing = (last - first) * self.size - part.shape[2]
        if missing:
            part = pad(part, (0, 0, 0, missing), value=fill)
        return part.reshape(-1, self.size, x.shape[-1])

    def put(self, x: Tensor, part: Tensor, span: tuple[int, int]) -> None:
        """Writes chunks to their place in ``x (B, T, H, E)``."""
        to = x[:, span[0] * self.size : span[1] * self.size].transpose(1, 2)
        to.copy_(part.view(*to.shape[:2], -1, to.shape[3])[:, :, : to.shape[2]])
