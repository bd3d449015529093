"""Means over the past, weighted by products of features: chunk by chunk, in linear time.

Inside a chunk the weights of all pairs of tokens are made, as dense attention does; what came before a chunk enters as
one sum of products of keys and values. Sums of single tokens, ``(T, E, Ev)``, are never made. A value has a 1 behind
it, so that the last column of every sum of values is the sum of their weights, the denominator.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from repro.nn.autograd import Context
from repro.nn.device import without_autocast

# So many chunks of every row and head are worked on together, as long as their queries are so many numbers: on a CPU
# what is made in between stays in its cache; elsewhere fewer and larger products are faster. Summing n chunks costs n².
_CPU = (16, 1 << 17)
_OTHER = (128, 1 << 24)


def causal_mean(
    q: Tensor, k: Tensor, v: Tensor, past: tuple[Tensor, Tensor] | None, chunk: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """``y_t = q_t S_t / (q_t · z_t + eps)`` with ``S_t = s + Σ_{j ≤ t} k_j v_jᵀ`` and ``z_t = z + Σ_{j ≤ t} k_j``.

    Args:
        q: features of queries ``(B, T, H, E)``, T at least 1.
        k: features of keys ``(B, T, H, E)``; zero for padding.
        v: values ``(B, T, H, Ev)``, finite also for padding.
        past: ``s (B, H, E, Ev)``, the sum of the products of earlier keys and values, and ``z (B, H, E)``, that of
            earlier keys; None for none.
        chunk: tokens of a chunk, at most; chunks are made equally long, to pad little.
        eps: added to the denominator.

    Returns:
        ``y (B, T, H, Ev)`` and the last sums.

    Source: Katharopoulos et al. 2020, equations 10 to 12; gradients, equations 13 to 15.
    """
    sums = None if past is None else torch.cat([past[0], past[1][..., None]], -1)
    y, sums = _CausalMean.apply(q, k, v, sums, chunk, eps)
    return y, sums[..., :-1], sums[..., -1]


class _Context(Context):
    cuts: "_Cuts"


class _CausalMean(torch.autograd.Function):
    """Keeps queries and keys in chunks, values, outputs, denominators and few sums; weights are computed again.

    ``past (B, H, E, Ev + 1)`` are both sums, side by side, and so are those that it returns.
    """

    @staticmethod
    def forward(
        ctx: _Context, q: Tensor, k: Tensor, v: Tensor, past: Tensor | None, chunk: int, eps: float
    ) -> tuple[Tensor, Tensor]:
        cuts = _Cuts(q, chunk)
        y = torch.empty_like(v, memory_format=torch.contiguous_format)
        kept: list[Any] = []
        sums = None if past is None else past.flatten(0, 1)
        for span in cuts.spans():
            # A query of a filler is 1, so that it divides by something; its key is 0, so that nobody sees its value.
            qc, kc, vc = cuts.take(q, span, 1.0), cuts.take(k, span), cuts.take_wider(v, span, 1.0)
            weights, products = torch.bmm(qc, kc.mT).tril_(), torch.bmm(kc.mT, vc)
            before = cuts.before(products, sums)
            means = torch.bmm(weights, vc)
            means = means if before is None else means.baddbmm_(qc, before)
            divisor = means[..., -1:] + eps
            cuts.put(y, means[..., :-1].div_(divisor), span)
            kept += [qc, kc, divisor, sums]  # the backward pass starts each group from the sums before it
            sums = cuts.total(products, before)
        ctx.save_for_backward(v, y, *kept)
        ctx.set_materialize_grads(False)
        ctx.cuts = cuts
        assert sums is not None
        return y, sums.unflatten(0, (q.shape[0], q.shape[2]))

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, grad_y: Tensor | None, grad_sums: Tensor | None) -> tuple[Tensor | None, ...]:
        v, y, *kept = ctx.saved_tensors
        cuts = ctx.cuts
        grad_y = torch.zeros_like(y) if grad_y is None else grad_y
        after = None if grad_sums is None else grad_sums.flatten(0, 1)
        grads: list[Tensor] = []
        needs_past = ctx.needs_input_grad[3]
        with without_autocast(v.device, later=True):
            for i, span in reversed(list(enumerate(cuts.spans()))):
                q, k, divisor, past = kept[4 * i : 4 * i + 4]
                parts = [
                    q,
                    k,
                    cuts.take_wider(v, span, 1.0),
                    cuts.take(y, span),
                    cuts.take_wider(grad_y, span, 0.0),
                ]
                new, products, behind = _back(cuts, parts, divisor, past, after)
                if i or needs_past:
                    after = cuts.total(products, behind, back=True)
                grads = cuts.place(new, span, y.shape, grads)
        if after is not None:
            after = after.unflatten(0, (v.shape[0], v.shape[2]))
        return *grads, after if needs_past else None, None, None


def _back(
    cuts: "_Cuts", parts: list[Tensor], divisor: Tensor, past: Tensor | None, after: Tensor | None
) -> tuple[list[Tensor], Tensor, Tensor | None]:
    """Gradients of some chunks' ``q, k, v``; and of the products that each adds to the sums, and of those behind it.

    Args:
        cuts: of the sequence.
        parts: ``q, k``, values with their ones, ``y``, and the gradient of ``y`` with zeros behind it, each
            ``(G·n, c, ·)``; the last is changed in place.
        divisor: ``(G·n, c, 1)``.
        past: the sums before these chunks.
        after: gradients of the sums behind them.
    """
    q, k, v, y, above = parts
    above.div_(divisor)  # the gradient of the numerator, and of the denominator in the last column
    above[..., -1:].sub_((above[..., :-1] * y).sum(-1, keepdim=True))
    weights, grad_weights = torch.bmm(q, k.mT).tril_(), torch.bmm(above, v.mT).tril_()
    products = torch.bmm(q.mT, above)
    before, behind = cuts.before(torch.bmm(k.mT, v), past), cuts.before(products, after, back=True)
    grads = [torch.bmm(grad_weights, k), torch.bmm(grad_weights.mT, q), torch.bmm(weights.mT, above)]
    if before is not None:
        grads[0].baddbmm_(above, before.mT)
    if behind is not None:
        grads[1].baddbmm_(v, behind.mT)
        grads[2].baddbmm_(k, behind)
    grads[2] = grads[2][..., :-1]
    return grads, products, behind


class _Cuts:
    """The cut of a sequence into chunks, and the groups of chunks that are computed together.

    Args:
        like: ``(B, T, H, E)``.
        chunk: tokens of a chunk, at most.
    """

    def __init__(self, like: Tensor, chunk: int) -> None:
        self.rows, self.steps = like.shape[0] * like.shape[2], like.shape[1]
        self.count = -(-self.steps // chunk)
        self.size = -(-self.steps // self.count)
        chunks, numbers = _CPU if like.device.type == "cpu" else _OTHER
        self.together = max(1, min(chunks, self.count, numbers // (self.rows * self.size * like.shape[-1])))
        self._earlier = like.new_ones(self.together, self.together).tril(-1)

    def spans(self) -> Iterator[tuple[int, int]]:
        """First chunk of each group, and the one behind its last."""
        for first in range(0, self.count, self.together):
            yield first, min(self.count, first + self.together)

    def take(self, x: Tensor, span: tuple[int, int], fill: float = 0.0) -> Tensor:
        """Some chunks of ``x (B, T, H, E)`` as ``(B·H·n, c, E)``, filled up to whole chunks."""
        part, missing = self._part(x, span)
        if missing:
            part = pad(part, (0, 0, 0, missing), value=fill)
        return part.reshape(-1, self.size, x.shape[-1])

    def take_wider(self, x: Tensor, span: tuple[int, int], fill: float) -> Tensor:
        """Some chunks of ``x (B, T, H, E)`` with ``fill`` behind vectors and in fillers, ``(B·H·n, c, E + 1)``."""
        part, missing = self._part(x, span)
        return pad(part, (0, 1, 0, missing), value=fill).reshape(-1, self.size, x.shape[-1] + 1)

    def put(self, x: Tensor, part: Tensor, span: tuple[int, int]) -> None:
        """Writes chunks to their place in ``x (B, T, H, E)``."""
        to, _ = self._part(x, span)
        to.copy_(self._joined(part, to.shape[:2])[:, :, : to.shape[2]])

    def place(
        self, parts: list[Tensor], span: tuple[int, int], like: Sequence[int], into: list[Tensor]
    ) -> list[Tensor]:
        """Tensors ``(B, T, H, ·)`` of the chunks of all groups; those of the only group are not copied.

        Args:
            parts: chunks of a group, of each tensor.
            span: of the group.
            like: a shape that begins with B, T, H.
            into: what was returned for the groups before; empty for the first.
        """
        if self.together == self.count:
            return [
                self._joined(part, (like[0], like[2]))[:, :, : self.steps].transpose(1, 2) for part in parts
            ]
        into = into or [part.new_empty(*like[:3], part.shape[-1]) for part in parts]
        for x, part in zip(into, parts, strict=True):
            self.put(x, part, span)
        return into

    def _joined(self, group: Tensor, heads: Sequence[int]) -> Tensor:
        return group.unflatten(0, (*heads, -1)).flatten(2, 3)

    def before(self, parts: Tensor, first: Tensor | None, back: bool = False) -> Tensor | None:
        """The sum of ``first`` and all chunks before each chunk; with ``back``, after it.

        One product with a triangular matrix. ``parts (G·n, ...)``, ``first (G, ...)`` or None for 0.
        None where all sums are 0.
        """
        n = len(parts) // self.rows
        if n == 1:
            return first
        triangle = self._earlier[:n, :n].mT if back else self._earlier[:n, :n]
        triangle, flat = triangle.expand(self.rows, -1, -1), parts.view(self.rows, n, -1)
        if first is None:
            return torch.bmm(triangle, flat).view(parts.shape)
        return torch.baddbmm(first.reshape(self.rows, 1, -1), triangle, flat).view(parts.shape)

    def total(self, parts: Tensor, before: Tensor | None, back: bool = False) -> Tensor:
        """The sum of all chunks and what came before them, ``(G, ...)``."""
        end = 0 if back else -1
        last = parts.unflatten(0, (self.rows, -1))[:, end]
        return last if before is None else before.unflatten(0, (self.rows, -1))[:, end] + last

    def _part(self, x: Tensor, span: tuple[int, int]) -> tuple[Tensor, int]:
        """Some chunks of ``x (B, T, H, E)`` as ``(B, H, ·, E)``, and how many tokens they lack."""
        part = x[:, span[0] * self.size : span[1] * self.size].transpose(1, 2)
        return part, (span[1] - span[0]) * self.size - part.shape[2]
