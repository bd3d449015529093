"""Compressions of a sequence: of every block of ``rate`` vectors one is made."""

from abc import ABC, abstractmethod

from torch import Tensor, nn


class Compression(nn.Module, ABC):
    """Makes one vector of each block of ``rate`` vectors; the blocks do not overlap.

    Args:
        d_model: D.
        rate: c, vectors of a block.

    Raises:
        ValueError: ``rate`` below 1.

    Source: Rae et al. 2020, section 3.2.
    Deviation: the authors' code (Sonnet 1) can also make blocks overlap and dilate; its defaults, as here, do neither.
    """

    def __init__(self, d_model: int, rate: int) -> None:
        super().__init__()
        if rate < 1:
            raise ValueError(f"rate must be at least 1, not {rate}")
        self.d_model, self.rate = d_model, rate

    def forward(self, x: Tensor) -> Tensor:
        """``x (B, N·c, D)`` to ``(B, N, D)``."""
        return self.compress(x.unflatten(1, (-1, self.rate)))

    @abstractmethod
    def compress(self, blocks: Tensor) -> Tensor:
        """``(B, N, c, D)`` to ``(B, N, D)``."""


class MeanCompression(Compression):
    """The mean of each block, channel by channel. No parameters."""

    def compress(self, blocks: Tensor) -> Tensor:
        """See the base class."""
        return blocks.mean(2)


class MaxCompression(Compression):
    """The maximum of each block, channel by channel. No parameters."""

    def compress(self, blocks: Tensor) -> Tensor:
        """See the base class."""
        return blocks.amax(2)


class ConvolutionCompression(Compression):
    """A convolution of kernel and stride ``rate`` from all channels to all channels.

    No bias, as in the authors' code.
    """

    def __init__(self, d_model: int, rate: int) -> None:
        super().__init__(d_model, rate)
        self.convolution = nn.Conv1d(d_model, d_model, rate, stride=rate, bias=False)

    def compress(self, blocks: Tensor) -> Tensor:
        """See the base class."""
        return self.convolution(blocks.flatten(1, 2).transpose(1, 2)).transpose(1, 2)
