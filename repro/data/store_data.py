"""Bases of datamodules over a prepared store: any, one with a tokeniser, and one of sequences with a label each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
import torch

from repro.batches import Examples
from repro.data.core.datamodule import DataModule
from repro.data.core.draws import Int64s
from repro.data.core.examples import ExampleData
from repro.data.core.segments import Array, padded
from repro.data.prepare import ensure_generated, open_store
from repro.data.registry import find_data_set
from repro.data.store import Store, store_path, verify
from repro.data.table import slices
from repro.data.tokenizers.loading import AnyTokenizer, load_tokenizer
from repro.errors import UserError, at_least

PAD = 0
Columns = tuple[Array, Array, Array]  # ids of all rows, their offsets `(N + 1,)`, labels `(N,)`


class StoreDataModule(DataModule):
    """Data from a prepared store; combined with a kind of data: ``SpeechData(StoreDataModule, ExampleData)``.

    Attributes:
        store_name: name of the data set.
        variant: which of its stores; empty for its default.
        parts: columns that the store must have; empty for any.
        content: what these columns are, for messages.
        verified: whether this process has checked every hash.
    """

    parts: ClassVar[tuple[str, ...]] = ()
    content: ClassVar[str] = ""
    verified = False

    def prepare_data(self) -> None:
        """Makes the missing store of a generated source and checks every hash, once; downloads nothing."""
        if not self.verified:  # Lightning calls it again for training and for the test
            ensure_generated(self.store_name, self.variant)
            verify(self.store)
            self.verified = True

    def require_store(self) -> bool:
        """Opens the store, unless it is missing and a run generates it."""
        data_set = find_data_set(self.store_name)
        path = store_path(self.store_name, self.variant or data_set.default_variant)
        return (path.exists() or not data_set.generated) and bool(self.store)

    def setup(self, stage: str | None = None) -> None:
        """Opens the store."""
        _ = self.store

    @cached_property
    def store(self) -> Store:
        """The opened store.

        Raises:
            UserError: it is missing, corrupt, or holds something else.
        """
        data_set = find_data_set(self.store_name)
        variant = self.variant or data_set.default_variant
        data_set.check_variant(variant)
        store = open_store(self.store_name, variant)
        if self.parts and tuple(store.manifest.parts) != self.parts:
            raise UserError(f"store {store.name} holds {', '.join(store.manifest.parts)}, not {self.content}")
        self.check(store)
        return store

    def check(self, store: Store) -> None:
        """Refuses a store that does not hold what is needed, with a UserError."""

    @property
    def manifest_sha256(self) -> str:
        """SHA-256 of the store's manifest."""
        return self.store.manifest_sha256


class TokenStoreDataModule(StoreDataModule):
    """Tokens from a prepared store, whose vocabulary must have ``vocab_size`` symbols.

    Attributes:
        added_symbols: symbols that are in no tokeniser, counted in ``vocab_size``.
    """

    added_symbols: ClassVar[int] = 0

    def check(self, store: Store) -> None:
        """Refuses a store without tokens, or with another vocabulary size."""
        if not store.manifest.tokenizer:
            raise UserError(f"store {store.name} holds {', '.join(store.manifest.parts)}, not tokens")
        size = store.manifest.tokenizer["size"] + self.added_symbols
        if size != self.vocab_size:
            remedy = f"--model.net.vocabulary.size {size} sets it in network and data"
            raise UserError(f"store {store.name} has a vocabulary of {size}, not {self.vocab_size}; {remedy}")

    @cached_property
    def tokenizer(self) -> AnyTokenizer:
        """The tokeniser of the text."""
        return load_tokenizer(self.store.tokenizer_path)


@dataclass(frozen=True)
class RowReader:
    """Makes examples of the rows of a split. Cheap to send to a worker process, which opens the rows itself.

    Args:
        source: opens the rows.
        longest: ids of a sequence at most.
        cut: longer ones are cut; else they are left out.
        least: T is at least this.
    """

    source: Callable[[], Columns]
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

    def __call__(self, indices: Int64s) -> Examples:
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
        UserError: a number below 1; when the store is opened, a split of which no sequence is used.
    """

    cut: ClassVar[bool] = True

    def __init__(
        self, batch_size: int, store: str, max_length: int, eval_batch_size: int, seed: int, num_workers: int
    ) -> None:
        super().__init__(batch_size, eval_batch_size, seed, num_workers)
        at_least(1, max_length=max_length)
        self.store_name, _, self.variant = store.partition("/")
        self.seq_len = max_length

    def check(self, store: Store) -> None:
        """Refuses a store with a split of which no sequence is used."""
        for split in self.splits:
            if not len(RowReader(partial(_stored, store, split, self.parts), self.seq_len, self.cut).kept):
                raise UserError(
                    f"store {store.name}: no sequence of {split} has at most max_length {self.seq_len} tokens"
                )

    def rows(self, split: str) -> Callable[[], Columns]:
        """Opens the rows of a split."""
        return partial(_stored, self.store, split, self.parts)

    @cached_property
    def readers(self) -> dict[str, RowReader]:
        """The reader of each split."""
        return {split: RowReader(self.rows(split), self.seq_len, self.cut) for split in self.splits}

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Ids ``(B, T)``, with one target, the label; ``indices`` count the rows in use."""
        return self.readers[split](indices)

    def size(self, split: str) -> int:
        """Sequences of a split that are used."""
        return len(self.readers[split].kept)

    def too_long(self, split: str) -> dict[str, int]:
        """How many sequences of a split are longer."""
        longer = self.readers[split].lengths > self.seq_len
        return {"cut" if self.cut else "left_out": int(longer.sum())}


def _stored(store: Store, split: str, parts: tuple[str, ...]) -> Columns:
    ids, labels = parts
    return store.values(split, ids), store.offsets(split, ids), store.values(split, labels)
