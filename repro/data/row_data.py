"""Stores whose rows are a sequence of ids and a label: the data of classifiers of text, trees and proteins."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData
from repro.data.core.padding import padded
from repro.data.core.segments import Array
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.data.table import slices
from repro.errors import at_least

PAD = 0
Rows = tuple[Array, Array, Array]  # ids of all rows, their offsets `(N + 1,)`, labels `(N,)`


@dataclass(frozen=True)
class RowReader:
    """Makes examples of the rows of a split. Cheap to send to a worker process, which opens the rows itself.

    Args:
        source: opens the rows.
        longest: ids of a sequence at most.
        cut: longer ones are cut; else they are left out.
        least: T is at least this.
    """

    source: Callable[[], Rows]
    longest: int
    cut: bool = True
    least: int = 1

    @property
    def lengths(self) -> Int64s:
        """Ids of every row of the split, ``(N,)``."""
        _, offsets, _ = self.source()
        return np.diff(offsets)

    @cached_property
    def kept(self) -> Int64s:
        """Indices of the rows of the split that are used."""
        lengths = self.lengths
        return np.flatnonzero((lengths <= self.longest) | self.cut).astype(np.int64)

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, with one target, the label; ``indices`` count the rows in use."""
        ids, offsets, labels = self.source()
        chosen = self.kept[indices]
        rows = [row[: self.longest] for row in slices(ids, offsets, chosen)]
        inputs, lengths = padded(rows, PAD, least=self.least)
        return Examples(inputs, torch.from_numpy(labels[chosen].astype(np.int64))[:, None], lengths=lengths)


class RowData(StoreDataModule, ExampleData):
    """Sequences of ids with a label each, from a prepared store.

    Args:
        batch_size: examples of the global batch.
        store: name of the data set, perhaps with a variant.
        max_length: ids of a sequence at most.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training.
        num_workers: processes that build batches ahead.

    Attributes:
        parts: the columns of ids and of labels.
        cut: longer sequences are cut and counted as ``cut``; else they are left out and counted as ``left_out``.

    Raises:
        UserError: a number below 1.
    """

    cut: ClassVar[bool] = True

    def __init__(
        self, batch_size: int, store: str, max_length: int, eval_batch_size: int, seed: int, num_workers: int
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, max_length=max_length)
        self.store_name, _, self.variant = store.partition("/")
        self.seq_len = max_length

    def rows(self, split: str) -> Callable[[], Rows]:
        """Opens the rows of a split."""
        return partial(_stored, self.store, split, self.parts)

    def reader(self, split: str) -> RowReader:
        """The reader of a split, which makes its examples."""
        return RowReader(self.rows(split), self.seq_len, self.cut)

    def size(self, split: str) -> int:
        """Sequences of a split that are used."""
        return len(self.reader(split).kept)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts as for all classifiers, and how many sequences of each split are longer."""
        by_split = super().counts
        for split, counts in by_split.items():
            longer = int((self.reader(split).lengths > self.seq_len).sum())
            counts["cut" if self.cut else "left_out"] = longer
        return by_split


def _stored(store: Store, split: str, parts: tuple[str, ...]) -> Rows:
    ids, labels = parts
    return store.values(split, ids), store.offsets(split, ids), store.values(split, labels)
