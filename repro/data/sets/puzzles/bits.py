"""Generated puzzles over bits: remember a string, and add two strings. The same on any machine."""

from functools import cached_property
from typing import Any

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s, digest_of, stream
from repro.data.core.examples import ExampleData
from repro.data.core.generated import SPLITS, GeneratedData
from repro.errors import UserError, at_least

GENERATOR_VERSION = 1
Bits = np.ndarray[Any, np.dtype[np.uint8]]


class BitMemoryData(GeneratedData):
    """Some strings, and one of them again with half of its bits hidden.

    Inputs are the strings in patches, 1 for a set bit, -1 for one not set, 0 for a hidden one; targets are the bits of
    the repeated string. Whoever only copies what is shown and guesses the rest is right in three of four: chance is
    75 % of all bits, 50 % of the hidden ones.

    Args:
        batch_size: examples of the global batch.
        bits: of a string.
        strings: to remember.
        patch: bits of an input vector; divides ``bits``.
        train_examples: of an epoch; every epoch has fresh ones.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: ``patch`` does not divide ``bits``, or a number below 1.

    Source: Lu et al. 2021, section 2.1 "Bit memory"; generator of the authors' code.
    """

    store_name = "bit-memory"
    made_of = ("bits", "strings", "patch", "per_epoch")
    n_classes = 2

    def __init__(
        self,
        batch_size: int,
        bits: int = 1000,
        strings: int = 5,
        patch: int = 50,
        train_examples: int = 100_000,
        eval_examples: int = 500,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        at_least(1, bits=bits, strings=strings, patch=patch)
        if bits % patch:
            raise UserError(f"patch {patch} does not divide the {bits} bits of a string")
        self.bits, self.strings, self.per_epoch = bits, strings, train_examples
        self.input_size = self.patch = patch
        self.seq_len = (strings + 1) * bits // patch
        self.n_targets = bits

    @cached_property
    def manifest_sha256(self) -> str:
        """SHA-256 over the generator's version and settings, which determine the data."""
        return digest_of({"generator": GENERATOR_VERSION, **self.settings, **self.sizes})

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Vectors ``((strings + 1) bits / patch, patch)`` with ``bits`` targets."""
        fresh = indices + (epoch or 0) * self.per_epoch
        drawn = np.array([self._draw(split, int(i)) for i in fresh], np.uint8)
        drawn = drawn.reshape(len(fresh), self.strings + 1, self.bits)
        memories, visible = drawn[:, : self.strings], drawn[:, self.strings].astype(bool)
        queries = self._queries(split, fresh)
        answers = memories[np.arange(len(fresh)), queries]
        signs = memories.astype(np.float32) * 2 - 1
        query = np.where(visible, signs[np.arange(len(fresh)), queries], np.float32(0))
        inputs = np.concatenate([signs, query[:, None]], axis=1)
        inputs = inputs.reshape(len(fresh), self.seq_len, self.patch)
        targets, hidden = torch.from_numpy(answers.astype(np.int64)), torch.from_numpy(~visible)
        return Examples(torch.from_numpy(inputs), targets, hidden)

    def _draw(self, split: str, index: int) -> Bits:
        """``(strings + 1, bits)`` random bits; the last string marks the bits that are shown."""
        count = (self.strings + 1) * self.bits
        raw = _generator(split, index).random_raw(-(-count // 64))
        return np.unpackbits(raw.astype("<u8").view(np.uint8))[:count].reshape(-1, self.bits)

    def _queries(self, split: str, indices: Int64s) -> Int64s:
        # the first number of the bits' generator after a jump, so that it is none of theirs
        drawn = [int(_generator(split, int(i)).jumped().random_raw()) >> 11 for i in indices]
        return np.array(drawn, np.int64) % self.strings


def _generator(split: str, index: int) -> np.random.PCG64:
    return stream(GENERATOR_VERSION, SPLITS.index(split), index)


class BitXorData(ExampleData):
    """All pairs of strings of a few bits; the target is their element-wise exclusive or. Chance is 50 %.

    Inputs are the bits of both strings, one a token, 0 or 1. Example ``i`` is the number ``i`` in bits.

    There are only ``4^bits`` examples, 1,024 of two strings of 5. Training draws from all of them, and every split is
    all of them, so accuracy measures what was memorised; the paper, too, tests on examples drawn anew from the same.

    Args:
        batch_size: examples of the global batch.
        bits: of a string, at most 10.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: ``bits`` out of range.

    Source: Lu et al. 2021, section 2.1 "Bit XOR".
    """

    n_classes = 2
    input_size = 1

    def __init__(
        self, batch_size: int, bits: int = 5, eval_batch_size: int = 256, seed: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        if not 1 <= bits <= 10:
            raise UserError(f"bits must be between 1 and 10, not {bits}: every pair of strings is an example")
        self.store_name = "bit-xor"
        self.bits = bits
        self.seq_len = 2 * bits
        self.n_targets = bits

    def size(self, split: str) -> int:
        """``4^bits`` for every split."""
        return int(4**self.bits)

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Vectors ``(2 bits, 1)`` with ``bits`` targets."""
        both = (indices[:, None] >> np.arange(2 * self.bits - 1, -1, -1)) & 1
        targets = both[:, : self.bits] ^ both[:, self.bits :]
        return Examples(torch.from_numpy(both.astype(np.float32)[..., None]), torch.from_numpy(targets))

    @cached_property
    def manifest_sha256(self) -> str:
        """SHA-256 over the number of bits, which is all there is."""
        return digest_of({"generator": GENERATOR_VERSION, "bits": self.bits})
