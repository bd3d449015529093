"""Generated sequences whose symbols are sorted by frequency, which drifts. The same on any machine."""

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.generated import GeneratedData, Purpose, below, raw
from repro.errors import at_least

LARGEST_WEIGHT = 9
_HALF = np.uint64(32)  # bits
_LOW = np.uint64(2**32 - 1)


def by_frequency(tokens: Int64s, symbols: int) -> Int64s:
    """Symbols from the most to the least frequent of each row.

    Equally frequent ones keep the order in which they first occur; those that do not occur follow by number.

    Args:
        tokens: ``(B, n)``, from 0 to ``symbols - 1``.
        symbols: how many there are.

    Returns:
        ``(B, symbols)``.
    """
    rows, n = tokens.shape
    place = (np.arange(rows)[:, None] * symbols + tokens).ravel()
    counts = np.bincount(place, minlength=rows * symbols)
    first = np.tile(n + np.arange(symbols), rows)
    np.minimum.at(first, place, np.tile(np.arange(n), rows))
    order = np.lexsort((first.reshape(rows, symbols), -counts.reshape(rows, symbols)))
    return order.astype(np.int64, copy=False)


class SortingData(GeneratedData):
    """Tokens, a separator, then the symbols by falling frequency, which alone are scored.

    Token j of n, from 1, is drawn from ``(1 - j/n) p_0 + (j/n) p_1``; both distributions are proportional to random
    whole numbers from 1 to 9. The separator is ``symbols``. A guess among the remaining symbols is right for
    ``(1 + 1/2 + ... + 1/symbols) / symbols`` of the answers: 0.18 with 20 symbols.

    Args:
        batch_size: examples of the global batch.
        length: tokens before the separator; published are 4,000, 8,000 and 16,000.
        symbols: there are.
        fixed: every epoch of training has the same examples, as published; False draws new ones.
        train_examples: of an epoch.
        eval_examples: of the validation split and of the test split.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        vocab_size: ids there are: the symbols, the separator, and one that never occurs.

    Raises:
        UserError: a number below 1, or fewer than two symbols.

    Source: Martins et al. 2022, the sorting task, and ``sorting/generate_data.py`` of the authors' code; with its order
        of equal and absent symbols.
    Deviation: their code puts the last id where no target is; here that is -1. The id is kept, as their models have it.
    """

    store_name = "sorting"
    made_of = ("length", "symbols", "fixed")

    def __init__(
        self,
        batch_size: int,
        length: int = 4_000,
        symbols: int = 20,
        fixed: bool = True,
        train_examples: int = 8_000,
        eval_examples: int = 800,
        eval_batch_size: int = 8,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, train_examples, eval_examples, eval_batch_size, seed, num_workers)
        at_least(1, length=length)
        at_least(2, symbols=symbols)
        self.length, self.symbols, self.fixed = length, symbols, fixed
        self.vocab_size = self.input_size = self.n_classes = symbols + 2
        self.seq_len = length + symbols
        self.n_targets = symbols

    def tokens(self, split: str, index: int, epoch: int | None) -> Int64s:
        """The symbols before the separator of one example, ``(length,)``."""
        n, symbols = self.length, self.symbols
        drawn = raw(2 * symbols + n, Purpose.SORTING, split, None if self.fixed else epoch, index)
        weights = 1 + below(drawn[: 2 * symbols].reshape(2, symbols), LARGEST_WEIGHT)
        # 32 bits choose a distribution, the other 32 a symbol of it: in whole numbers, which no machine rounds
        halves, places = drawn[2 * symbols :], np.arange(1, n + 1, dtype=np.uint64)
        last = ((halves >> _HALF) * np.uint64(n) < places << _HALF).astype(np.int64)
        totals = weights.sum(1)
        point = ((halves & _LOW) * totals.astype(np.uint64)[last] >> _HALF).astype(np.int64)
        # of both distributions, each symbol repeated by its weight
        table = np.repeat(np.tile(np.arange(symbols), 2), weights.ravel())
        return table[point + totals[0] * last]

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, length + symbols)``, the last answer not among them, and what follows each; -1 where not scored."""
        n, symbols = self.length, self.symbols
        drawn = [self.tokens(split, int(i), epoch) for i in indices]
        tokens = np.array(drawn, np.int64).reshape(len(indices), n)
        answers = by_frequency(tokens, symbols)
        separator = np.full((len(indices), 1), symbols, np.int64)
        targets = np.full((len(indices), n + symbols), -1, np.int64)
        targets[:, n:] = answers
        inputs = np.concatenate([tokens, separator, answers[:, :-1]], 1)
        return Examples(torch.from_numpy(inputs), torch.from_numpy(targets))
