"""Sentence pairs for training and evaluating translation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from repro.batches import Evaluation, PairBatch
from repro.data.core.batches import (
    Lengths,
    eval_batches,
    fitting,
    pair_batch,
    rank_part,
    shuffled_batches,
    token_batches,
)
from repro.data.core.datamodule import DataModule
from repro.data.core.draws import Int64s
from repro.data.core.examples import Rows
from repro.data.store import Store
from repro.data.store_data import TokenStoreDataModule
from repro.errors import at_least


@dataclass
class PairTable:
    """The pairs of one split: memory-mapped ids, and batches from them. Cheap to send to a worker process.

    Args:
        store: an opened store.
        split: name or alias.
        source: part to translate from.
        target: part to translate into.
    """

    store: Store
    split: str
    source: str
    target: str

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "lengths"}

    @cached_property
    def lengths(self) -> Lengths:
        """Source and target lengths, eos counted, ``(N, 2)``; 8 bytes a pair."""
        offsets = [self.store.offsets(self.split, part) for part in (self.source, self.target)]
        lengths = np.empty((len(offsets[0]) - 1, 2), np.int32)
        for side in range(2):
            np.subtract(offsets[side][1:], offsets[side][:-1], out=lengths[:, side], casting="same_kind")
        lengths += 1
        return lengths

    def build(self, rows: Rows) -> PairBatch:
        """The batch of some rows."""
        sources = self.store.rows(self.split, self.source, rows.indices)
        targets = self.store.rows(self.split, self.target, rows.indices)
        return pair_batch(sources, targets, rows.indices, rows.step_targets)

    def target_tokens(self, index: Int64s) -> int:
        """Target tokens of some examples, eos counted."""
        return int(self.lengths[index, 1].sum())


class TranslationData(TokenStoreDataModule, DataModule):
    """Batches of sentence pairs from a prepared store.

    The global batch is stated in tokens; ranks and micro-batches (``trainer.accumulate_grad_batches``) take shares of
    it. Source: section 5.1 of Vaswani et al. 2017.

    Args:
        store: ``multi30k``, or with a variant, ``multi30k/sp16000-1a2b3c4d``,
            ``numbers-en-de/bpe512-n17200``.
        vocab_size: size of the shared vocabulary, specials included.
        batch_tokens: slots of the global batch on its longer side, padding counted. A list states the equal batches
            that make a global batch, of different lengths each, as on so many devices of fairseq.
        max_length: longer pairs (tokens on either side, eos counted) are left out in training, and refused as
            input to translate; evaluation uses every pair.
        source_language: part to translate from.
        target_language: part to translate into.
        val_split: name of the validation split.
        test_split: name of the test split, ``test`` or as in the source.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.
        eval_batch_tokens: slots of an evaluation batch on its longer side.
    """

    batch = PairBatch

    def __init__(
        self,
        store: str,
        vocab_size: int,
        batch_tokens: int | list[int],
        max_length: int = 256,
        source_language: str = "en",
        target_language: str = "de",
        val_split: str = "val",
        test_split: str = "test",
        seed: int = 0,
        num_workers: int = 0,
        eval_batch_tokens: int = 4096,
    ) -> None:
        super().__init__(seed, num_workers)
        self.store_name, _, variant = store.partition("/")
        self.variant = variant or f"bpe{vocab_size}"
        self.vocab_size = vocab_size
        at_least(1, eval_batch_tokens=eval_batch_tokens)
        self.batches = batch_tokens if isinstance(batch_tokens, list) else [batch_tokens]
        if len(set(self.batches)) != 1:
            raise ValueError(f"batch_tokens {batch_tokens}: the batches of an update must be equally large")
        self.batch_tokens = sum(self.batches)
        self.planner = shuffled_batches if isinstance(batch_tokens, list) else token_batches
        self.max_length = max_length
        self.source_language = source_language
        self.target_language = target_language
        self.val_split = val_split
        self.test_split = test_split
        self.eval_batch_tokens = eval_batch_tokens
        self._tables: dict[str, PairTable] = {}

    def table(self, split: str) -> PairTable:
        """The pairs of a split."""
        if split not in self._tables:
            self._tables[split] = PairTable(self.store, split, self.source_language, self.target_language)
        return self._tables[split]

    def sources(self, split: str) -> list[str]:
        """Raw source lines of a split."""
        return self.store.lines(split, self.source_language)

    def references(self, split: str) -> list[str]:
        """Raw target lines of a split."""
        return self.store.lines(split, self.target_language)

    def longest(self, split: str) -> int:
        """Tokens of the longest sentence of a split, eos counted."""
        return int(self.table(split).lengths.max())

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        """Sentences and target tokens (eos counted) of a split."""
        counts = self.store.manifest.counts[self.store.split(self.split(evaluation.kind))]
        examples, target = int(counts["examples"]), self.store.part(self.target_language)
        return {"examples": examples, "tokens": int(counts["tokens"][target]) + examples}

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Examples and tokens (eos counted) of the splits in use, and what training leaves out."""
        counts: dict[str, dict[str, int]] = {}
        for split in (self.train_split, self.val_split, self.test_split):
            lengths = used = self.table(split).lengths
            if split == self.train_split:
                used = fitting(lengths, self.batches[0], self.max_length)
            tokens = {"source_tokens": int(lengths[:, 0].sum()), "target_tokens": int(lengths[:, 1].sum())}
            sizes = {"examples": len(lengths), "dropped": len(lengths) - len(used), **tokens}
            counts[self.store.split(split)] = sizes
        return counts

    def plan_epoch(self, epoch: int) -> list[Rows]:
        """The batches of one epoch for this rank, micro-batches of a step one after another.

        Raises:
            UserError: in some epoch an update would have fewer rows than there are ranks and micro-batches.
        """
        table, share, size = self.table(self.train_split), self.share, len(self.batches)
        batches = self.planner(table.lengths, self.batches[0], self.seed, epoch, self.max_length)
        smallest = sorted(batches, key=len)
        for together in {min(size, len(batches)), len(batches) % size or size}:  # in any epoch's order
            rank_part(smallest[:together], share)
        planned = []
        for update in (batches[i : i + size] for i in range(0, len(batches), size)):
            step = sum(map(table.target_tokens, update))
            planned += [
                Rows(rank_part(update, share, part), epoch, step) for part in range(share.micro_batches)
            ]
        return planned

    def builder(self, split: str) -> Callable[[Rows], PairBatch]:
        """Builds the planned batches of a split."""
        return self.table(split).build

    def plan_evaluation(self, evaluation: Evaluation) -> list[Rows]:
        """This rank's whole batches of a split; an empty one where there are fewer batches than ranks."""
        table, (rank, world, _) = self.table(self.split(evaluation.kind)), self.share
        rows = eval_batches(table.lengths, self.eval_batch_tokens)[rank::world] or [np.zeros(0, np.int64)]
        return [Rows(batch, None, table.target_tokens(batch)) for batch in rows]
