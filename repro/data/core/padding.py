"""Ragged rows as one padded array."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from repro.data.core.segments import Array


def padded(
    rows: Sequence[Array],
    fill: float,
    dtype: DTypeLike = np.int64,
    shape: tuple[int, ...] = (),
    least: int = 0,
) -> tuple[Tensor, Tensor]:
    """Stacks rows of different lengths.

    Args:
        rows: ``(L_i, *shape)`` each.
        fill: value behind the end of a row.
        dtype: of the result.
        shape: of a value.
        least: L is at least this.

    Returns:
        ``(B, L, *shape)``, and the lengths ``(B,)`` in int64.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    width = max(least, int(lengths.max(initial=0)))
    table = np.full((len(rows), width, *shape), fill, dtype)
    if rows:
        table[np.arange(width) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(table), torch.from_numpy(lengths)
