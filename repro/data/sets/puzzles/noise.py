"""Random vectors and random pictures: data for measurements without learning."""

import math

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import GeneratedData, Purpose, below
from repro.errors import UserError, at_least


class NoiseData(GeneratedData):
    """Uniform vectors of variance 1.

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
    made_of = ("width", "seq_len")
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
        self.input_size = self.width = width
        self.seq_len = seq_len

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Vectors ``(B, T, C)``, and a target 0 for each example."""
        drawn = self.raw(self.seq_len * self.width, Purpose.NOISE, split, indices, epoch)
        x = ((drawn / 2.0**64 - 0.5) * 12**0.5).astype(np.float32)
        x = x.reshape(len(indices), self.seq_len, self.width)
        return Examples(torch.from_numpy(x), torch.zeros(len(indices), 1, dtype=torch.long))


class NoisePixelData(GeneratedData):
    """Pictures whose values are drawn uniformly, as sequences, for measuring how fast pictures of a shape are drawn.

    There is nothing to learn.

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
    made_of = ("n_values",)
    whole = False

    def __init__(
        self, batch_size: int, shape: list[int], examples: int = 8, seed: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__(batch_size, examples, examples, batch_size, seed, num_workers)
        if len(shape) != 3 or min(shape) < 1 or math.prod(shape) < 2:
            raise UserError(f"shape must be height, width and channels, not {shape}")
        self.shape = tuple(shape)
        self.n_values = math.prod(shape)
        self.seq_len = self.n_targets = self.n_values - 1
        self.vocab_size = self.input_size = self.n_classes = 256

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """All values but the last, and all but the first, ``(B, n_values - 1)``."""
        drawn = self.raw(self.n_values, Purpose.NOISE, split, indices, epoch)
        values = torch.from_numpy(below(drawn, 256))
        return Examples(values[:, :-1], values[:, 1:])
