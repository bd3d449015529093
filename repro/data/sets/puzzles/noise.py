"""Random vectors and random pictures: data for measurements without learning."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import ExampleGenerator, GeneratedData, Purpose, below
from repro.errors import UserError, at_least


@dataclass(frozen=True)
class Noise(ExampleGenerator):
    """Uniform vectors of variance 1.

    Args:
        width: channels.
        seq_len: vectors of an example.
    """

    width: int
    seq_len: int

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Vectors ``(B, T, C)``, and a target 0 for each example."""
        drawn = self.raw(self.seq_len * self.width, Purpose.NOISE, indices, epoch)
        x = ((drawn / 2.0**64 - 0.5) * 12**0.5).astype(np.float32)
        x = x.reshape(len(indices), self.seq_len, self.width)
        return Examples(torch.from_numpy(x), torch.zeros(len(indices), 1, dtype=torch.long))


class NoiseData(GeneratedData[Noise]):
    """:class:`Noise`.

    Args:
        batch_size: examples of the global batch.
        width: channels of a vector.
        seq_len: vectors of an example.
        examples: of each split.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1.
    """

    store_name = "noise"
    n_classes = 1

    def __init__(
        self,
        batch_size: int,
        width: int,
        seq_len: int = 64,
        examples: int = 64,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, examples, examples, batch_size, seed, num_workers)
        at_least(1, width=width, seq_len=seq_len)
        self.table = Noise("train", width, seq_len)
        self.input_size = width
        self.seq_len = seq_len


@dataclass(frozen=True)
class NoisePixels(ExampleGenerator):
    """Pictures whose values are drawn uniformly, as sequences.

    Args:
        n_values: of a picture.
    """

    n_values: int

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """All values but the last, and all but the first, ``(B, n_values - 1)``."""
        values = torch.from_numpy(below(self.raw(self.n_values, Purpose.NOISE, indices, epoch), 256))
        return Examples(values[:, :-1], values[:, 1:])


class NoisePixelData(GeneratedData[NoisePixels]):
    """:class:`NoisePixels`, for measuring how fast pictures of a shape are drawn; there is nothing to learn.

    Args:
        batch_size: examples of the global batch.
        shape: height, width and channels of a picture.
        examples: of each split.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        vocab_size: levels of a value.
        whole: the first value is not predicted.

    Raises:
        UserError: a shape that is none, or a number below 1.
    """

    store_name = "noise-pixels"
    whole = False

    def __init__(
        self, batch_size: int, shape: list[int], examples: int = 8, seed: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__(batch_size, examples, examples, batch_size, seed, num_workers)
        if len(shape) != 3 or min(shape) < 1 or math.prod(shape) < 2:
            raise UserError(f"shape must be height, width and channels, not {shape}")
        self.shape = tuple(shape)
        self.table = NoisePixels("train", math.prod(shape))
        self.seq_len = self.n_targets = math.prod(shape) - 1
        self.vocab_size = self.input_size = self.n_classes = 256
