"""Calls that are cut into pieces, for mixers that move blocks of tokens into a long-term memory."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from repro.nn.mixer import Layout, State, tree_map


def cleared(state: State, rows: Tensor) -> State:
    """Zeroes the rows ``(B,)`` of a state in place."""
    return tree_map(lambda t: t.masked_fill_(rows.view(-1, *[1] * (t.dim() - 1)), 0), state)


def pieces(x: Tensor, layout: Layout, size: int) -> Iterator[tuple[Tensor, Layout]]:
    """``x (B, T, D)`` and its layout in pieces of at most ``size`` tokens, each with all of its outputs."""
    layout, steps = replace(layout, last=None), x.shape[1]
    if steps <= size:
        yield x, layout
        return
    for begin in range(0, steps, size):
        cut = slice(begin, begin + size)
        piece = x[:, cut]
        yield (
            piece,
            replace(
                layout,
                start=None if layout.start is None else layout.start + begin,
                lengths=None if layout.lengths is None else (layout.lengths - begin).clamp(0, piece.shape[1]),
                positions=None if layout.positions is None else layout.positions[..., cut],
                stream=None if layout.stream is None else layout.stream[:, cut],
            ),
        )


def valid_tokens(x: Tensor, layout: Layout) -> Tensor:
    """Which tokens of ``x (B, T, D)`` are valid, boolean ``(B or 1, T)``."""
    steps = torch.arange(x.shape[1], device=x.device)
    return steps[None] >= 0 if layout.lengths is None else steps < layout.lengths[:, None]


def touching(y: Tensor, unused: nn.Module | None) -> Tensor:
    """``y``, with zero gradients for a module that was not used: a parameter without gradient stops DDP."""
    parameters = [] if unused is None or not torch.is_grad_enabled() else list(unused.parameters())
    return y + 0.0 * sum(p.sum() for p in parameters) if parameters else y
