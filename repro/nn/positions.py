"""Positions that touch the input. Those that touch queries, keys or scores belong to their mixer."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """``PE(p, 2i) = sin(p / 10000^(2i/width))``, ``PE(p, 2i+1) = cos(same)``.

    Args:
        positions: ``(...)``, counted from 0.
        width: channels, even.
        dtype: of the result; angles are computed in it too, so float64 gives float64 accuracy.

    Returns:
        ``(..., width)``.

    Source: Vaswani et al. 2017, section 3.5.
    """
    even = torch.arange(0, width, 2, device=positions.device, dtype=dtype)
    angles = positions.to(dtype)[..., None] * torch.exp(even * (-math.log(10000.0) / width))
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class SinusoidalPositions(nn.Module):
    """The table of :func:`sinusoids`, computed when asked: no longest length, nothing to store.

    Args:
        width: channels, even.

    Raises:
        ValueError: ``width`` is odd.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {width}")
        self.width = width

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Vectors ``(..., width)`` of positions ``(...)``."""
        # Half precision cannot count far; angles are always made in float32 or better.
        exact = torch.promote_types(dtype, torch.float32)
        return sinusoids(positions, self.width, exact).to(dtype)


class LearnedPositions(nn.Module):
    """A trained vector for each position.

    Args:
        width: channels.
        max_length: positions 0 to ``max_length - 1`` exist; a larger one raises IndexError.

    Source: Vaswani et al. 2017, table 3, row (E).
    """

    def __init__(self, width: int, max_length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_length, width)

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Vectors ``(..., width)`` of positions ``(...)``."""
        return self.table(positions).to(dtype)


class Added(nn.Module):
    """Adds position vectors to token vectors.

    Args:
        d_model: D.
        table: maker of position vectors from their width.
    """

    def __init__(self, d_model: int, table: Callable[[int], nn.Module] = SinusoidalPositions) -> None:
        super().__init__()
        self.token_width = d_model
        self.table = table(d_model)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x (B, T, D)`` and positions ``(T,)`` or ``(B, T)`` to ``(B, T, D)``."""
        return x + self.table(positions, x.dtype)


class Concatenated(nn.Module):
    """Sets position vectors behind token vectors, which are that much narrower.

    Args:
        d_model: D, of both together.
        width: channels of the position part.
        table: maker of position vectors from their width.
    """

    def __init__(
        self, d_model: int, width: int, table: Callable[[int], nn.Module] = SinusoidalPositions
    ) -> None:
        super().__init__()
        if not 0 < width < d_model:
            raise ValueError(f"the position part must be narrower than d_model {d_model}, not {width}")
        self.token_width = d_model - width
        self.table = table(width)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x (B, T, D - width)`` and positions ``(T,)`` or ``(B, T)`` to ``(B, T, D)``."""
        where = self.table(positions, x.dtype).expand(*x.shape[:-1], -1)
        return torch.cat([x, where], dim=-1)


class NoPositions(nn.Module):
    """Leaves token vectors alone: the mixer knows about order."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.token_width = d_model

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x (B, T, D)`` as it came."""
        return x
