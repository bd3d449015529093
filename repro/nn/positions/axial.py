"""Learned positions in a grid: a long sequence needs few vectors."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding


class AxialPositions(nn.Module):
    """Positions as cells of a grid, rows first: cell ``(i, j, ...)`` has the vector ``[E₁[i], E₂[j], ...]``.

    The tables begin as ``N(0, 1)`` and stay so under a model's ``init`` that goes by kinds of layers, as glorot does;
    one for every parameter, such as :class:`~repro.nn.init.Normal`, changes them.

    Args:
        width: channels.
        shape: cells along each axis; there are as many positions as cells.
        widths: channels of each axis' vectors; they add up to ``width``.

    Raises:
        ValueError: a width or a length below 1, as many axes as widths are not there, or a sum that is not ``width``.

    Source: trax's configurations of Kitaev et al. 2020, in which enwik8 has shape (128, 512) and widths (256, 768),
    imagenet64 (64, 64, 3) and (384, 384, 256). Deviation: a sequence may be shorter than the grid.
    """

    def __init__(self, width: int, shape: list[int], widths: list[int]) -> None:
        super().__init__()
        if len(shape) != len(widths) or not shape or min(*shape, *widths) < 1:
            raise ValueError(
                f"axial positions need a length and a width for each axis, not {shape} and {widths}"
            )
        if sum(widths) != width:
            raise ValueError(f"widths {widths} of axial positions add up to {sum(widths)}, not {width}")
        self.shape = list(shape)
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(n, w)) for n, w in zip(shape, widths, strict=True)
        )

    @property
    def max_length(self) -> int:
        """The number of positions."""
        return math.prod(self.shape)

    def idle(self, seq_len: int) -> int:
        """Trained parameters that positions below ``seq_len`` never reach."""
        count, stride = 0, self.max_length
        for length, table in zip(self.shape, self.tables, strict=True):
            stride //= length
            unreached = max(0, length - math.ceil(seq_len / stride))
            count += unreached * table.shape[1] if table.requires_grad else 0
        return count

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Vectors ``(..., width)`` of positions ``(...)``.

        Raises:
            IndexError: a position outside the grid (torch's own; on a GPU, the device's error).
        """
        parts, stride = [], self.max_length
        for length, table in zip(self.shape, self.tables, strict=True):
            rest = positions if stride == self.max_length else positions % stride
            stride //= length
            parts.append(embedding(rest // stride, table).to(dtype))
        return torch.cat(parts, -1)
