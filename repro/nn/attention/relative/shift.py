"""Softmax attention whose scores depend on content and on distance, in few passes over the scores.

Scores are ``q_i · k_j + p_i · r_(i-j)``. The second term is computed for every distance, ``x_it = p_i · r_t``, and row
i is wanted shifted to the left by ``T-1-i``. Nothing is moved: when the rows of x lie s apart in memory, the same
numbers read with rows s-1 apart are shifted by one more place in each row. The gradient goes the same way back: it is
written through the shifted view and read through the straight one.

Work goes in tiles of rows and heads. A tile meets only keys that one of its rows can see, which spares half of the
future, and it is small enough that scores stay in the cache from the first product to the last. Backward needs the
probabilities, and nothing else of this size is kept. On a GPU, and in a compiled graph, PyTorch's fused attention takes
the scores by distance as a bias.

Source: Dai et al. 2019, appendix B (the shift).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import scaled_dot_product_attention

from repro.nn.attention.relative.biased import attend_with_bias
from repro.nn.autograd import Context

_TILE = (128, 2**20)  # rows and scores of a tile: measured on 2 cores with 1 MiB of cache each


@dataclass(frozen=True)
class Sight:
    """Which keys a query sees, besides those of the future, which it never does.

    Attributes:
        attention_mask: which of the first ``M = S - T`` keys are valid, boolean ``(B, M)``; None where all are.
        window: keys at this distance and beyond are hidden; None hides none.
    """

    attention_mask: Tensor | None = None
    window: int | None = None


def attend_by_distance(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    place_query: Tensor,
    place_key: Tensor,
    sight: Sight,
    scale: float,
    dropout: float = 0.0,
) -> Tensor:
    """``softmax((q_i · k_j + p_i · r_(i-j)) scale) v``: causal; query i is at the position of key ``S-T+i``.

    Softmax is computed in float32 or better, dropout acts on its outcome. There is no second derivative.

    Args:
        query: ``(H, B, T, E)``.
        key: ``(H, B, S, E)``, the keys of this call last.
        value: ``(H, B, S, E)``.
        place_query: ``(H, B, T, P)``, of any width P.
        place_key: ``(H, S, P)``; row t belongs to distance ``S-1-t``.
        sight: what is hidden.
        scale: of the scores.
        dropout: on the probabilities, in [0, 1).

    Returns:
        ``(H, B, T, E)``.
    """
    x = _Inputs(*(t.to(query.dtype).contiguous() for t in (query, key, value, place_query, place_key)))
    if torch.compiler.is_compiling() or query.device.type != "cpu":
        return attend_with_bias(*x, sight.attention_mask, sight.window, scale, dropout)
    if torch.is_grad_enabled() and any(t.requires_grad for t in x):
        return _Shifted.apply(*x, sight, scale, dropout)
    if dropout:
        return _run(x, sight, scale, dropout)[0]
    return _run_fused(x, sight, scale)


@dataclass(frozen=True)
class _Tile:
    """Some heads, some rows, and the keys that those rows can see, as the columns ``[first, stop)``."""

    heads: slice
    rows: slice
    keys: slice

    @property
    def width(self) -> int:
        return int(self.keys.stop - self.keys.start)

    def at_queries(self, t: Tensor) -> Tensor:
        """``(H, B, T, ·)`` to ``(heads · B, rows, ·)``."""
        return t[self.heads, :, self.rows].flatten(0, 1)

    def at_keys(self, t: Tensor) -> Tensor:
        """``(H, B, S, ·)`` to ``(heads · B, keys, ·)``."""
        return t[self.heads, :, self.keys].flatten(0, 1)

    def at_places(self, t: Tensor) -> Tensor:
        """``(H, S, ·)`` to the distances that occur, ``(heads, keys, ·)``: always the smallest ones."""
        return t[self.heads, t.shape[1] - self.width :]


class _Inputs(NamedTuple):
    query: Tensor
    key: Tensor
    value: Tensor
    place_query: Tensor
    place_key: Tensor

    def by_head(self, t: Tensor) -> Tensor:
        """``(heads · B, ...)`` as ``(heads, B, ...)``."""
        return t.unflatten(0, (-1, self.query.shape[1]))

    def tiles(self, window: int | None) -> Iterator[_Tile]:
        """The tiles of the scores, from the last rows to the first."""
        heads, batch, steps, _ = self.query.shape
        memory = self.key.shape[2] - steps
        rows, budget = _TILE
        for stop in range(steps, 0, -rows):
            start = max(0, stop - rows)
            first = 0 if window is None else max(0, memory + start + 1 - window)
            stride = max(1, budget // (batch * (stop - start) * (memory + stop - first)))
            for head in range(0, heads, stride):
                yield _Tile(
                    slice(head, min(heads, head + stride)), slice(start, stop), slice(first, memory + stop)
                )


class _Room:
    """Scores of one tile by distance: one buffer, read straight and read shifted.

    Attributes:
        straight: ``(heads, B · rows, keys)``; column t is distance ``keys-1-t``.
        shifted: ``(heads · B, rows, keys)``; column j is key j. Beyond a row's own key stands something else.
    """

    def __init__(self, tile: _Tile, like: Tensor) -> None:
        heads, batch, rows, _ = like[tile.heads, :, tile.rows].shape
        width = tile.width
        # Rows of a multiple of 8 numbers, for those who compute with tensor cores.
        self._rows, self._width, self._apart = rows, width, -(-(width + 1) // 8) * 8
        self._whole = like.new_empty(heads, batch * rows, self._apart)
        self.straight = self._whole[..., :width]
        shape, strides = (heads * batch, rows, width), (rows * self._apart, self._apart - 1, 1)
        self.shifted = self._whole.as_strided(shape, strides, rows - 1)

    def clear_what_is_not_shifted(self) -> None:
        """Zeroes the places of the buffer that the shifted view does not reach."""
        flat = self._whole.view(-1, self._rows * self._apart)
        flat[:, : self._rows - 1] = 0.0
        gaps = (flat.shape[0], self._rows, self._apart - 1 - self._width)
        strides = (self._rows * self._apart, self._apart - 1, 1)
        self._whole.as_strided(gaps, strides, self._rows - 1 + self._width).zero_()


def _run(
    x: _Inputs, sight: Sight, scale: float, dropout: float, keep: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Outputs, and where ``keep`` the probabilities of every tile, or these and the mask of dropout."""
    out, saved = torch.empty_like(x.query), []
    for tile in x.tiles(sight.window):
        place = _by_distance(x, tile)
        key = tile.at_keys(x.key).transpose(1, 2)
        scores = torch.baddbmm(place, tile.at_queries(x.query), key, beta=scale, alpha=scale)
        _hide(x.by_head(scores), x, tile, sight)
        # Half precision is widened inside; naming the dtype keeps autocast from widening the outcome too.
        weights = torch.softmax(scores, -1, dtype=scores.dtype)
        if keep:
            saved.append(weights)
        if dropout:
            keep_mask = torch.empty_like(weights, dtype=torch.bool).bernoulli_(1.0 - dropout)
            weights = weights * keep_mask
            if keep:
                saved.append(keep_mask)
        out[tile.heads, :, tile.rows] = x.by_head(torch.bmm(weights, tile.at_keys(x.value)))
    return (out.mul_(1.0 / (1.0 - dropout)) if dropout else out), saved


def _run_fused(x: _Inputs, sight: Sight, scale: float) -> Tensor:
    """Outputs only: scores by distance are a mask for PyTorch's fused attention, which keeps no probabilities."""
    out = torch.empty_like(x.query)
    for tile in x.tiles(sight.window):
        place = x.by_head(_by_distance(x, tile).mul_(scale))
        _hide(place, x, tile, sight)
        query = x.query[tile.heads, :, tile.rows]
        key, value = (t[tile.heads, :, tile.keys] for t in (x.key, x.value))
        out[tile.heads, :, tile.rows] = scaled_dot_product_attention(query, key, value, place, scale=scale)
    return out


def _by_distance(x: _Inputs, tile: _Tile) -> Tensor:
    """``p_i · r_(i-j)`` of one tile, ``(heads · B, rows, keys)``; anything at keys of the future."""
    room = _Room(tile, x.query)
    keys = tile.at_places(x.place_key).transpose(1, 2)
    torch.bmm(x.place_query[tile.heads, :, tile.rows].flatten(1, 2), keys, out=room.straight)
    return room.shifted


def _hide(scores: Tensor, x: _Inputs, tile: _Tile, sight: Sight) -> None:
    """Sets scores ``(heads, B, rows, keys)`` of hidden keys to minus infinity; every query still sees itself."""
    rows, first, memory = scores.shape[2], tile.keys.start, x.key.shape[2] - x.query.shape[2]
    ones = torch.ones(rows, scores.shape[3], dtype=torch.bool, device=scores.device)
    scores[..., -rows:].masked_fill_(ones[:, :rows].triu(1), -torch.inf)
    far = 0 if sight.window is None else tile.width - sight.window
    if far > 0:  # row i is at memory + start + i; key j, counted from the first, is too far back
        nearest = memory + tile.rows.start - first - (sight.window or 0)
        scores[..., :far].masked_fill_(ones[:, :far].tril(nearest), -torch.inf)
    if sight.attention_mask is not None and first < memory:
        scores[..., : memory - first].masked_fill_(~sight.attention_mask[:, None, first:], -torch.inf)


class _Context(Context):
    window: int | None
    scale: float
    dropout: float


class _Shifted(torch.autograd.Function):
    """:func:`_run` with its gradient."""

    @staticmethod
    def forward(
        ctx: _Context,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        place_query: Tensor,
        place_key: Tensor,
        sight: Sight,
        scale: float,
        dropout: float,
    ) -> Tensor:
        x = _Inputs(query, key, value, place_query, place_key)
        out, saved = _run(x, sight, scale, dropout, keep=True)
        ctx.save_for_backward(*x, out, *saved)
        ctx.window, ctx.scale, ctx.dropout = sight.window, scale, dropout
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: _Context, grad: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, out = ctx.saved_tensors[:6]
        x, saved = _Inputs(*tensors), iter(ctx.saved_tensors[6:])
        # Without a window the first tile of some heads meets all keys and writes where later ones add.
        make = torch.empty_like if ctx.window is None else torch.zeros_like
        grads, grad = _Inputs(*(make(t) for t in x)), grad.contiguous()
        # The softmax subtracts Σ_j weight_j · gradient_j, computed from the outputs.
        mean = (grad * out).sum(-1, keepdim=True) * ctx.scale
        grad = grad * (1.0 / (1.0 - ctx.dropout)) if ctx.dropout else grad
        scaled = grad * ctx.scale
        for tile in x.tiles(ctx.window):
            weights = next(saved)
            keep_mask = next(saved) if ctx.dropout else None
            used = weights if keep_mask is None else weights * keep_mask
            _accumulate(grads.value, tile, used.transpose(1, 2), tile.at_queries(grad))
            change = torch.bmm(tile.at_queries(scaled), tile.at_keys(x.value).transpose(1, 2))
            if keep_mask is not None:
                change *= keep_mask
            change -= tile.at_queries(mean)
            room = _Room(tile, x.query)
            torch.mul(change, weights, out=room.shifted)  # zero at hidden keys, because their weight is
            _through_scores(x, grads, tile, room)
        return (*grads, None, None, None)


def _through_scores(x: _Inputs, grads: _Inputs, tile: _Tile, room: _Room) -> None:
    """Adds the gradients of the inputs, given the gradient of one tile's scores, written shifted into ``room``."""
    room.clear_what_is_not_shifted()
    rows = (tile.heads, slice(None), tile.rows)
    query = x.by_head(torch.bmm(room.shifted, tile.at_keys(x.key)))
    grads.query[rows] = query
    _accumulate(grads.key, tile, room.shifted.transpose(1, 2), tile.at_queries(x.query))
    place = torch.bmm(room.straight, tile.at_places(x.place_key))
    grads.place_query[rows] = place.view(*query.shape[:-1], -1)
    into, place_query = tile.at_places(grads.place_key), x.place_query[rows].flatten(1, 2)
    if tile.width == x.key.shape[2]:
        torch.bmm(room.straight.transpose(1, 2), place_query, out=into)
    else:
        into += torch.bmm(room.straight.transpose(1, 2), place_query)


def _accumulate(total: Tensor, tile: _Tile, a: Tensor, b: Tensor) -> None:
    """Adds ``a @ b``, ``(heads · B, keys, E)``, where it belongs in ``(H, B, S, E)``; the first tile writes."""
    into = total[tile.heads, :, tile.keys]
    if tile.width == total.shape[2]:
        torch.bmm(a, b, out=into.flatten(0, 1))
    else:
        into += torch.bmm(a, b).view_as(into)
