"""Labelled text as examples of a classifier: the input is bytes, the target the label."""

from dataclasses import dataclass

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData, Reader
from repro.data.core.padding import padded
from repro.data.registry import find_data_set
from repro.data.sets.labelled.labelled_text import LABELS, N_SYMBOLS, PAD, TEXT, LabelledText
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.errors import UserError, at_least


@dataclass(frozen=True)
class TextReader:
    """Makes examples of the texts of a split.

    Args:
        store: of labelled text.
        split: its name.
        max_length: bytes of a text at most; longer ones are cut.
    """

    store: Store
    split: str
    max_length: int

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, with one target, the label."""
        rows = [row[: self.max_length] for row in self.store.rows(self.split, TEXT, indices)]
        inputs, lengths = padded(rows, PAD, least=1)
        labels = self.store.values(self.split, LABELS)[indices]
        return Examples(inputs, torch.from_numpy(labels.astype(np.int64))[:, None], lengths=lengths)


class LabelledData(StoreDataModule, ExampleData):
    """Labelled text of one's own, ``repro data prepare NAME --kind labels --from DIR``.

    Args:
        batch_size: examples of the global batch.
        store: name of the data set.
        max_length: bytes of a text at most; longer ones are cut, and counted as ``cut``.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1, or a data set that has no labelled text.
    """

    parts = (TEXT, LABELS)
    content = "labelled text"
    input_size = N_SYMBOLS

    def __init__(
        self,
        batch_size: int,
        store: str,
        max_length: int = 512,
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, max_length=max_length)
        self.store_name, _, self.variant = store.partition("/")
        data_set = find_data_set(self.store_name)
        if not isinstance(data_set, LabelledText):
            raise UserError(f"{self.store_name} has no labelled text; make some with --kind labels")
        self.n_classes = len(data_set.classes)
        self.seq_len = max_length

    def size(self, split: str) -> int:
        """Texts of a split."""
        return len(self.store.values(split, LABELS))

    def reader(self, split: str) -> Reader:
        """The reader of a split, which makes its examples."""
        return TextReader(self.store, split, self.seq_len)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts as for all classifiers, and how many texts of each split are cut."""
        by_split = super().counts
        for split, counts in by_split.items():
            counts["cut"] = int((np.diff(self.store.offsets(split, TEXT)) > self.seq_len).sum())
        return by_split
