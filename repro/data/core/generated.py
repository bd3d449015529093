"""Base of generated examples: raw random numbers, the same on any machine, and datamodules without a store."""

from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from repro.data.core.draws import Int64s, Raw, digest_of, stream
from repro.data.core.examples import ExampleData
from repro.errors import at_least

GENERATOR_VERSION = 1
SPLITS = ("train", "val", "test")
# What a stream of random numbers is for: streams of different purposes share nothing.
Purpose = IntEnum(
    "Purpose", "WORD COPY COPY_LENGTH SPEECH SPEECH_LENGTH TEMPLATE NOISE SORTING DIALOGUE", start=0
)


def raw(count: int, purpose: Purpose, split: str, epoch: int | None, index: int = 0) -> Raw:
    """The first ``count`` numbers, 64 random bits each, of the stream of one example or of one split.

    Args:
        count: how many.
        purpose: of the numbers.
        split: ``train``, ``val`` or ``test``.
        epoch: of training; None is 0.
        index: of the example.
    """
    key = [GENERATOR_VERSION, purpose, SPLITS.index(split), epoch or 0, index]
    return stream(*key).random_raw(count)


def below(numbers: Raw, limit: int) -> Int64s:
    """Random whole numbers from 0 to ``limit - 1``, of the shape of ``numbers``."""
    # 64 bits for a handful of values: no bias to speak of
    return (numbers % np.uint64(limit)).astype(np.int64)


def lengths_between(
    shortest: int, longest: int, purpose: Purpose, split: str, indices: Int64s, epoch: int | None
) -> Int64s:
    """A random length of each example, ``(B,)``, uniform from ``shortest`` to ``longest``.

    They come from one stream for the whole split and epoch, so that they are known without drawing the examples.
    """
    drawn = raw(int(indices.max(initial=-1)) + 1, purpose, split, epoch)
    return shortest + below(drawn[indices], longest - shortest + 1)


class GeneratedData(ExampleData):
    """Examples made from random numbers: fresh ones in every epoch of training, always the same for evaluation.

    Args:
        batch_size: examples of the global batch.
        train_examples: of an epoch.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        made_of: names of the attributes on which the examples depend, beside their split.

    Raises:
        UserError: a number below 1.
    """

    made_of: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        batch_size: int,
        train_examples: int,
        eval_examples: int,
        eval_batch_size: int,
        seed: int,
        num_workers: int,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, train_examples=train_examples, eval_examples=eval_examples)
        self.sizes = {"train": train_examples, "val": eval_examples, "test": eval_examples}

    def size(self, split: str) -> int:
        """Examples of a split; of one epoch for training."""
        return self.sizes[split]

    def raw(self, count: int, purpose: Purpose, split: str, indices: Int64s, epoch: int | None) -> Raw:
        """Random numbers of some examples, ``(B, count)``, 64 random bits each; see :func:`raw`."""
        drawn = [raw(count, purpose, split, epoch, int(i)) for i in indices]
        return np.array(drawn, np.uint64).reshape(len(indices), count)

    @property
    def settings(self) -> dict[str, Any]:
        """The values of ``made_of``."""
        return {name: getattr(self, name) for name in self.made_of}

    @cached_property
    def manifest_sha256(self) -> str:
        """SHA-256 over the generator's version and settings, which determine the data."""
        spec = {"generator": GENERATOR_VERSION, "name": self.store_name, **self.settings, "sizes": self.sizes}
        return digest_of(spec)
