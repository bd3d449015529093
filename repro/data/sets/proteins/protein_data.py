"""Proteins as examples of a classifier: the input is amino acids, the target the fold."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData, Reader
from repro.data.core.padding import padded
from repro.data.sets.proteins.remote_homology import N_FOLDS, PAD, SYMBOLS
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.errors import UserError, at_least


@dataclass(frozen=True)
class ProteinReader:
    """Makes examples of the proteins of a split that are not too long.

    Args:
        store: of proteins.
        split: its name.
        max_length: ids of a sequence at most, ``<cls>`` and ``<sep>`` counted.
    """

    store: Store
    split: str
    max_length: int

    @cached_property
    def kept(self) -> Int64s:
        """Indices of the proteins of the split that are used."""
        lengths = np.diff(self.store.offsets(self.split, "residues"))
        return np.flatnonzero(lengths <= self.max_length).astype(np.int64)

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, T the longest of these, with one target, the fold; ``i`` counts the proteins in use."""
        examples = self.kept[indices]
        inputs, lengths = padded(self.store.rows(self.split, "residues", examples), PAD, least=1)
        folds = self.store.values(self.split, "folds")[examples]
        targets = torch.from_numpy(folds.astype(np.int64))[:, None]
        return Examples(inputs, targets, lengths=lengths)


class HomologyData(StoreDataModule, ExampleData):
    """Remote homology of TAPE from a prepared store.

    Sequences longer than ``max_length`` are left out of every split and counted as ``left_out``. Lu et al. 2021 do the
    same, and multiply accuracies by 0.9739 for it (they count 236,224 of 242,560 examples); scores here are of the
    examples in use, so multiply before comparing, best by the share that the counts of the record give.

    The test split ``test`` is TAPE's fold holdout, ``test_fold_holdout``, and ``val`` its ``valid``; the released code
    of Lu et al. scores on ``valid``. The metrics of both are in the record.

    Args:
        batch_size: examples of the global batch.
        store: ``remote-homology``.
        max_length: ids of a sequence at most, ``<cls>`` and ``<sep>`` counted.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1.

    Source: Rao et al. 2019, section 3; Lu et al. 2021, section 2.1 "Remote homology detection", and the code of both.
    Deviation: the paper has 25 input ids, its code 30 as here (TAPE's vocabulary). Its code has 1,200 outputs, five
        more than there are folds. It leaves out whole batches of similarly long sequences whose longest is too long,
        and reads the last position of a batch, although shorter rows have padding there; here the last token is read.
    """

    parts = ("residues", "folds")
    content = "proteins"
    n_classes = N_FOLDS
    input_size = len(SYMBOLS)

    def __init__(
        self,
        batch_size: int,
        store: str = "remote-homology",
        max_length: int = 1024,
        eval_batch_size: int = 8,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, max_length=max_length)
        self.store_name, _, self.variant = store.partition("/")
        self.seq_len = max_length

    def check(self, store: Store) -> None:
        """Refuses a store with a split of which no protein is used.

        Raises:
            UserError: all proteins of a split are too long.
        """
        for split in (self.train_split, self.val_split, self.test_split):
            if not len(ProteinReader(store, split, self.seq_len).kept):
                raise UserError(f"every protein of {split} is longer than max_length {self.seq_len}")

    def size(self, split: str) -> int:
        """Proteins of a split that are not too long."""
        return len(ProteinReader(self.store, split, self.seq_len).kept)

    def reader(self, split: str) -> Reader:
        """The reader of a split, which makes its examples."""
        return ProteinReader(self.store, split, self.seq_len)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts as for all classifiers, and how many proteins of each split are too long."""
        by_split = super().counts
        for split, counts in by_split.items():
            stored = len(self.store.offsets(split, "residues")) - 1
            counts["left_out"] = stored - counts["examples"]
        return by_split
