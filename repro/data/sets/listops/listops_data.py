"""Trees of operators over digits as examples of a classifier: the input is a tree, the target its value."""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Literal

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.draws import Int64s, digest_of
from repro.data.core.segments import padded
from repro.data.sets.listops.trees import CLOSE, PAD, SYMBOLS, TreeSet
from repro.data.store_data import Columns, RowData, RowReader
from repro.data.table import slices

Tokenisation = Literal["lra", "truncated"]


class TruncatedTreeReader(RowReader):
    """Makes examples of trees without their closing brackets, all positions of which are read; see
    :class:`ListOpsData`.
    """

    @property
    def lengths(self) -> Int64s:
        """Tokens of every tree of the split without its closing brackets, ``(N,)``."""
        tokens, offsets, _ = self.source()
        return super().lengths - np.add.reduceat(tokens == CLOSE, offsets[:-1], dtype=np.int64)

    def __call__(self, indices: Int64s) -> Examples:
        """Ids ``(B, T)``, the last ones padding, with one target, the value of the tree."""
        tokens, offsets, values = self.source()
        rows = [row[row != CLOSE][: self.longest] for row in slices(tokens, offsets, indices)]
        inputs, _ = padded(rows, PAD, least=self.least)
        return Examples(inputs, torch.from_numpy(values[indices].astype(np.int64))[:, None])


class ListOpsData(RowData):
    """Trees from a prepared store, or generated at once.

    Two ways of reading them:

    - ``lra``: as the Long Range Arena does. 10 digits, 4 operators and the closing bracket, which its code renames to
      ``X`` lest its tokeniser drops it: 15 ids beside padding, ``input_size`` 16. (Its encoder has one more id for
      unknown tokens, which never occurs.) A row states its length, so that the last token is read.
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
        self.generated = store if isinstance(store, TreeSet) else None
        name = store if isinstance(store, str) else "listops-generated"
        super().__init__(batch_size, name, max_length, eval_batch_size, seed, num_workers)
        self.tokens: Tokenisation = tokens
        self.input_size = len(SYMBOLS) if tokens == "lra" else len(SYMBOLS) - 1  # the bracket has the last id

    def prepare_data(self) -> None:
        """Opens the store; does nothing for trees that are generated in memory."""
        if self.generated is None:
            super().prepare_data()

    def require_store(self) -> bool:
        """Opens the store, unless trees are generated."""
        return self.generated is not None or super().require_store()

    def setup(self, stage: str | None = None) -> None:
        """Opens the store, or generates the trees."""
        for split in self.splits:
            self.size(split)

    def rows(self, split: str) -> Callable[[], Columns]:
        """Opens the trees of a split."""
        return super().rows(split) if self.generated is None else partial(self.generated.split, split)

    @cached_property
    def readers(self) -> dict[str, RowReader]:
        """The reader of each split."""
        reader = RowReader if self.tokens == "lra" else TruncatedTreeReader
        return {split: reader(self.rows(split), self.seq_len, least=self.seq_len) for split in self.splits}

    @property
    def manifest_sha256(self) -> str:
        """SHA-256 of the store's manifest, or over all that the generated trees depend on."""
        return super().manifest_sha256 if self.generated is None else digest_of(self.generated.settings)
