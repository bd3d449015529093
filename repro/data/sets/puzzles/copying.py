"""Generated puzzles over symbols: copy a sequence. Next-token data, the same on any machine."""

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import GeneratedData, Purpose, below, lengths_between
from repro.errors import UserError, at_least


class DuplicationData(GeneratedData):
    """Examples ``0 w 0 w``: symbols of ``w`` are uniform, from 1; only the second ``w`` is scored.

    Chance is one in ``symbols``.

    Args:
        batch_size: examples of the global batch.
        length: tokens of an example, ``2 |w| + 2``.
        symbols: to draw from, 0 not among them.
        train_examples: of an epoch; every epoch has fresh ones.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        vocab_size: ids there are.

    Raises:
        UserError: an odd ``length`` or one below 4, or another number below 1.

    Source: Kitaev et al. 2020, section 5, "synthetic task".
    """

    store_name = "duplication"
    made_of = ("length", "symbols")

    def __init__(
        self,
        batch_size: int,
        length: int = 1024,
        symbols: int = 127,
        train_examples: int = 12_800,
        eval_examples: int = 1_280,
        eval_batch_size: int = 64,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        at_least(1, symbols=symbols)
        if length < 4 or length % 2:
            raise UserError(
                f"length must be even and at least 4, not {length}: two zeros and a sequence twice"
            )
        self.symbols = symbols
        self.vocab_size = self.input_size = self.n_classes = symbols + 1
        self.seq_len = self.length = length
        self.n_targets = length // 2 - 1

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, length)``, and what follows each of them."""
        half = self.length // 2
        tokens = np.zeros((len(indices), 2, half), np.int64)
        drawn = self.raw(half - 1, Purpose.WORD, split, indices, epoch)
        tokens[:, :, 1:] = 1 + below(drawn, self.symbols)[:, None]
        targets = np.full((len(indices), self.length), -1, np.int64)
        targets[:, half:-1] = tokens[:, 1, 1:]
        return Examples(torch.from_numpy(tokens.reshape(-1, self.length)), torch.from_numpy(targets))


class CopyData(GeneratedData):
    """Some symbols, a zero, the same symbols, then zeros; the zero and the copy are scored.

    How many symbols there are differs from example to example, uniformly. The zero is scored at the last symbol before
    it, and no other target is in the first half: an output of 0 there is always right. Chance is about one in
    ``symbols``.

    Args:
        batch_size: examples of the global batch.
        length: tokens of an example, at least ``2 longest + 1``.
        shortest: symbols, at least.
        longest: symbols, at most.
        symbols: to draw from, 0 not among them.
        train_examples: of an epoch; every epoch has fresh ones.
        eval_examples: of the validation split and of the test split; the paper's code has 20 batches of 64.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        vocab_size: ids there are.

    Raises:
        UserError: lengths that do not fit, or a number below 1.

    Source: Katharopoulos et al. 2020, section 4.1.1; generator of the authors' code.
    """

    store_name = "copy"
    made_of = ("length", "shortest", "longest", "symbols")

    def __init__(
        self,
        batch_size: int,
        length: int = 128,
        shortest: int = 32,
        longest: int = 62,
        symbols: int = 10,
        train_examples: int = 6_400,
        eval_examples: int = 1_280,
        eval_batch_size: int = 64,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        at_least(1, shortest=shortest, symbols=symbols)
        at_least(shortest, longest=longest)
        if length < 2 * longest + 1:
            raise UserError(f"length {length} has no room for twice {longest} symbols and a zero between")
        self.shortest, self.longest, self.symbols = shortest, longest, symbols
        self.vocab_size = self.input_size = self.n_classes = symbols + 1
        self.seq_len = self.length = length
        self.n_targets = (shortest + longest) // 2 + 1

    def lengths(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Number of symbols of each example before its copy, ``(B,)``."""
        return lengths_between(self.shortest, self.longest, Purpose.COPY_LENGTH, split, indices, epoch)

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """The number of targets of each example: its symbols plus one, ``(B,)``."""
        return self.lengths(split, indices, epoch) + 1

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, length)``, and what follows each of them."""
        n = self.lengths(split, indices, epoch)[:, None]
        words = 1 + below(self.raw(self.longest, Purpose.COPY, split, indices, epoch), self.symbols)
        words = np.pad(words, ((0, 0), (0, 1)))  # a zero to point at
        place, zero = np.arange(self.length), self.longest
        second = np.where((place > n) & (place <= 2 * n), place - n - 1, zero)
        source = np.where(place < n, place, second)
        tokens = np.take_along_axis(words, source, axis=1)
        following = np.pad(tokens[:, 1:], ((0, 0), (0, 1)))
        targets = np.where((place >= n - 1) & (place < 2 * n), following, -1)
        return Examples(torch.from_numpy(tokens), torch.from_numpy(targets))
