"""Trees of operators over digits as examples of a classifier: the input is a tree, the target its value."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s, digest_of
from repro.data.core.examples import ExampleData, Reader
from repro.data.core.padding import padded
from repro.data.sets.listops.trees import CLOSE, PAD, SYMBOLS, Trees, TreeSet
from repro.data.store import Store
from repro.data.store_data import StoreDataModule
from repro.data.table import slices
from repro.errors import at_least

Tokenisation = Literal["lra", "truncated"]


@dataclass(frozen=True)
class TreeReader:
    """Makes examples of trees; each row has ``max_length`` tokens, the last ones padding.

    Args:
        source: opens the trees, which a worker process does for itself.
        tokens: ``lra`` or ``truncated``, see :class:`ListOpsData`.
        max_length: tokens of a row, T; longer trees are cut.
    """

    source: Callable[[], Trees]
    tokens: Tokenisation
    max_length: int

    @cached_property
    def trees(self) -> Trees:
        """The trees of the split."""
        return self.source()

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)`` with one target, the value of the tree."""
        trees = self.trees
        rows = slices(trees.tokens, trees.offsets, indices)
        if self.tokens == "truncated":
            rows = [row[row != CLOSE] for row in rows]
        inputs, lengths = padded([row[: self.max_length] for row in rows], PAD, least=self.max_length)
        targets = torch.from_numpy(trees.values[indices].astype(np.int64))[:, None]
        return Examples(inputs, targets, lengths=lengths if self.tokens == "lra" else None)


class ListOpsData(StoreDataModule, ExampleData):
    """Trees from a prepared store, or generated at once.

    Two ways of reading them:

    - ``lra``: as the Long Range Arena does. 10 digits, 4 operators and the closing bracket, which its code renames to
      ``X`` lest its tokeniser drops it: 15 ids beside padding, ``input_size`` 16. (Its encoder has one more id for
      unknown tokens, which never occurs.) A row knows its length, so that the last token of the tree is read.
    - ``truncated``: as the released code of Frozen Pretrained Transformers does, to which its published numbers belong.
      Its tokeniser drops all closing brackets, so that different trees look the same: 14 ids beside padding,
      ``input_size`` 15. Rows are cut at its ``max_length`` 512, which most trees exceed, and the last of the 512
      positions is read, although it is padding where a tree is shorter.

    The most frequent value has 17 % of the trees.

    Args:
        batch_size: examples of the global batch.
        max_length: tokens of a row, T. Published trees have up to 1,999 as ``lra``. Longer ones are cut and counted.
        store: ``listops``, ``listops/lra-n2000`` (2,000 trees to train on), or trees to generate in memory.
        tokens: ``lra`` or ``truncated``.
        eval_batch_size: examples of a batch of evaluation.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: a number below 1.

    Source: Tay et al. 2021, section 2.2.1; Lu et al. 2021, section 2.1 "ListOps", and the code of both.
    Deviation: which token has which id depends on the order of a Python set in both codes; here it is fixed. The
        released code scores on the validation file; here both splits are scored, each under its name.
    """

    n_classes = 10
    parts = ("trees", "values")
    content = "trees"

    def __init__(
        self,
        batch_size: int,
        max_length: int,
        store: str | TreeSet = "listops",
        tokens: Tokenisation = "lra",
        eval_batch_size: int = 50,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, max_length=max_length)
        self.generated = store if isinstance(store, TreeSet) else None
        if isinstance(store, str):
            self.store_name, _, self.variant = store.partition("/")
        else:
            self.store_name, self.variant = "listops-generated", ""
        self.tokens: Tokenisation = tokens
        self.seq_len = max_length
        self.input_size = len(SYMBOLS) if tokens == "lra" else len(SYMBOLS) - 1  # the bracket has the last id

    def prepare_data(self) -> None:
        """Opens the store; does nothing for trees that are generated in memory."""
        if self.generated is None:
            super().prepare_data()

    def require_store(self) -> None:
        """Opens the store, unless trees are generated."""
        if self.generated is None:
            super().require_store()

    def setup(self, stage: str | None = None) -> None:
        """Opens the store, or generates the trees."""
        for split in (self.train_split, self.val_split, self.test_split):
            self.size(split)

    def trees(self, split: str) -> Callable[[], Trees]:
        """Opens the trees of a split."""
        return (
            partial(_opened, self.store, split)
            if self.generated is None
            else partial(self.generated.split, split)
        )

    def size(self, split: str) -> int:
        """Trees of a split."""
        return len(self.trees(split)().values)

    def reader(self, split: str) -> Reader:
        """The reader of a split, which makes its examples."""
        return TreeReader(self.trees(split), self.tokens, self.seq_len)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Counts as for all classifiers, and how many trees of each split are cut."""
        by_split = super().counts
        for split, counts in by_split.items():
            counts["cut"] = self._cut(split)
        return by_split

    def _cut(self, split: str) -> int:
        trees = self.trees(split)()
        lengths = np.diff(trees.offsets)
        if self.tokens == "truncated":
            lengths = lengths - np.add.reduceat(trees.tokens == CLOSE, trees.offsets[:-1], dtype=np.int64)
        return int((lengths > self.seq_len).sum())

    @property
    def manifest_sha256(self) -> str:
        """SHA-256 of the store's manifest, or over all that the generated trees depend on."""
        return super().manifest_sha256 if self.generated is None else digest_of(self.generated.settings)


def _opened(store: Store, split: str) -> Trees:
    return Trees(store.values(split, "trees"), store.offsets(split, "trees"), store.values(split, "values"))
