"""Positions that are added to the input. Those added to queries, keys or scores belong to their mixer."""

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor, nn

from repro.nn.mixer import Layout, MixerOutput, State, Stateless
from repro.nn.positions.axial import AxialPositions


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
    """The table of :func:`sinusoids`, computed on use: no longest length, nothing to store.

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


def split_sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """All sines, then all cosines: ``PE(p) = [sin(p f_i) ..., cos(p f_i) ...]``, ``f_i = 10000^(-i / (width/2 - 1))``.

    Args: as :func:`sinusoids`; a width of at least 4.

    Returns:
        ``(..., width)``.

    Source: fairseq ``SinusoidalPositionalEmbedding``; its first token has index 2, behind the padding's.
    """
    half = width // 2
    steps = torch.arange(half, device=positions.device, dtype=dtype)
    angles = positions.to(dtype)[..., None] * torch.exp(steps * (-math.log(10000.0) / (half - 1)))
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class SplitSinusoids(nn.Module):
    """The table of :func:`split_sinusoids`; nothing to store.

    Args:
        width: channels, even and at least 4.
        first: index of position 0; 2 in models of fairseq, where 1 is the padding's.

    Raises:
        ValueError: ``width`` is odd or below 4, or ``first`` negative.
    """

    def __init__(self, width: int, first: int = 0) -> None:
        super().__init__()
        if width % 2 or width < 4:
            raise ValueError(f"split sinusoids need an even width of at least 4, not {width}")
        if first < 0:
            raise ValueError(f"the first index must be at least 0, not {first}")
        self.width = width
        self.first = first

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Vectors ``(..., width)`` of positions ``(...)``."""
        exact = torch.promote_types(dtype, torch.float32)  # as in SinusoidalPositions
        return split_sinusoids(positions + self.first, self.width, exact).to(dtype)

    def leading(self, count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Vectors ``(count, width)`` of positions 0 to ``count - 1``, remembered between calls: never write to them."""
        # Powers of two, so that one more position seldom makes a new table.
        room = 1 << max(count - 1, 63).bit_length()
        return _leading(room, self.width, self.first, dtype, device)[:count]


@lru_cache(maxsize=16)
def _leading(room: int, width: int, first: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A pure function's values, as ordinary tensors even when first computed in inference mode."""
    with torch.inference_mode(False):
        return SplitSinusoids(width, first)(torch.arange(room, device=device), dtype)


def leading(table: nn.Module, count: int, like: Tensor) -> Tensor:
    """Vectors ``(count, width)`` of a table's positions 0 to ``count - 1``, in the dtype and on the device of ``like``.

    Tables that are pure functions need not compute them anew in every layer and at every token.
    """
    if isinstance(table, SplitSinusoids):
        return table.leading(count, like.dtype, like.device)
    return table(torch.arange(count, device=like.device), like.dtype)


def split_from_two(width: int) -> SplitSinusoids:
    """:class:`SplitSinusoids` as in models of fairseq: position 0 has index 2."""
    return SplitSinusoids(width, first=2)


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

    @property
    def max_length(self) -> int:
        """The number of positions."""
        return self.table.num_embeddings

    def idle(self, seq_len: int) -> int:
        """Trained parameters that positions below ``seq_len`` never reach."""
        unreached = max(0, self.max_length - seq_len)
        return unreached * self.table.embedding_dim if self.table.weight.requires_grad else 0

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        """Vectors ``(..., width)`` of positions ``(...)``."""
        return self.table(positions).to(dtype)


class InputPositions(nn.Module):
    """Base of layers that give token vectors ``(B, T, token_width)`` their positions.

    Attributes:
        token_width: channels of a token vector going in.
    """

    token_width: int


class Added(InputPositions):
    """Adds position vectors to token vectors.

    Args:
        d_model: D.
        table: maker of position vectors from their width.
        restart: positions begin anew with each call, as in blocks that are connected by a memory only.

    Attributes:
        block: tokens after which positions begin anew instead; 0 for each call. See :func:`restart_each`.
    """

    block = 0

    def __init__(
        self, d_model: int, table: Callable[[int], nn.Module] = SinusoidalPositions, restart: bool = False
    ) -> None:
        super().__init__()
        self.token_width = d_model
        self.table = table(d_model)
        self.restart = restart

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x (B, T, D)`` and positions ``(T,)`` or ``(B, T)`` to ``(B, T, D)``."""
        if self.restart:
            positions = positions % self.block if self.block else positions - positions[..., :1]
        return x + self.table(positions, x.dtype)


class Concatenated(InputPositions):
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
        vectors = self.table(positions, x.dtype).expand(*x.shape[:-1], -1)
        return torch.cat([x, vectors], dim=-1)


class NoPositions(InputPositions):
    """Leaves token vectors unchanged: the mixer represents order."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.token_width = d_model

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x (B, T, D)`` as it came."""
        return x


class LayerPositions(Stateless):
    """A learned vector for each position, as a mixer: in a sublayer of its own it adds positions to a layer's input.

    Args:
        d_model: D.
        max_length: positions 0 to ``max_length - 1`` exist; a larger one raises IndexError.

    Source: Al-Rfou et al. 2019, section 2 ("positional embeddings" of every layer).
    """

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.table = LearnedPositions(d_model, max_length)

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        """The vectors of ``layout.positions``, ``(B, T, D)``; of ``x`` only the shape counts.

        Raises:
            ValueError: the layout has no positions.
        """
        if layout.positions is None:
            raise ValueError("per-layer positions need layout.positions")
        return MixerOutput(self.table(layout.positions, x.dtype).expand_as(x), state)


def idle_parameters(model: nn.Module, seq_len: int) -> int:
    """Trained parameters of learned positions that inputs of ``seq_len`` tokens never reach."""
    return sum(table.idle(seq_len) for table in _learned(model))


def longest_window(model: nn.Module) -> int | None:
    """Tokens that a network with learned positions can read at once; None where there is no limit."""
    endless = [added.table for added in _restarting(model) if added.block]
    return min((table.max_length for table in _learned(model) if table not in endless), default=None)


def counts_on(model: nn.Module) -> bool:
    """Whether a network learns positions that count on from call to call, so that they end with the table."""
    restarting = [added.table for added in _restarting(model)]
    return any(table not in restarting for table in _learned(model))


def restart_each(model: nn.Module, block: int) -> None:
    """Lets positions that begin anew with each call do so after ``block`` tokens, for a text read token by token."""
    for added in _restarting(model):
        added.block = block


def _restarting(model: nn.Module) -> list[Added]:
    return [module for module in model.modules() if isinstance(module, Added) and module.restart]


def _learned(model: nn.Module) -> list[LearnedPositions | AxialPositions]:
    return [module for module in model.modules() if isinstance(module, LearnedPositions | AxialPositions)]
