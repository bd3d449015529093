"""Data of classifiers: examples with a fixed number of targets, in batches of a fixed number of examples."""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from repro.batches import Evaluation, ExampleBatch, Examples, FirstExamples, RandomBatches
from repro.data.core.datamodule import DataModule
from repro.data.core.draws import Int64s, shuffled
from repro.errors import UserError, at_least


class Rows(NamedTuple):
    """Plan of a batch: which examples, in which epoch of training (None outside it), targets of the update."""

    indices: Int64s
    epoch: int | None
    step_targets: int


class ExampleData(DataModule):
    """Batches of examples of any kind; the data of all classifiers.

    An epoch has its examples in random order, the last ``size mod batch_size`` of them left out. Ranks and
    micro-batches take shares of the rows of a global batch.

    Args:
        batch_size: examples of the global batch.
        eval_batch_size: examples of a batch of evaluation; changes memory, and what a network that hashes draws.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        input_size: width of an input vector, or how many input ids there are.
        seq_len: input tokens of an example, at most.
        n_targets: targets of an example that count; the mean where that differs, 1 where only a store tells, see
            :meth:`targets_of`.
        n_classes: classes of a target.

    Raises:
        UserError: a number below 1.
    """

    batch = ExampleBatch
    selections = (FirstExamples, RandomBatches)
    input_size: int
    seq_len: int
    n_targets: int = 1
    n_classes: int

    def __init__(
        self, batch_size: int, eval_batch_size: int = 50, seed: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__(seed, num_workers)
        at_least(1, batch_size=batch_size, eval_batch_size=eval_batch_size)
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size

    @abstractmethod
    def size(self, split: str) -> int:
        """Examples of a split."""

    @abstractmethod
    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        """Some examples; called in worker processes.

        Args:
            split: name of the split.
            indices: which, ``(B,)``.
            epoch: of training, for what differs from epoch to epoch (augmentation, fresh examples); None outside it.
        """

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """Scored targets of some examples, ``(B,)``; the plan of training calls it for whole epochs.

        Args:
            split: name of the split.
            indices: which examples, ``(B,)``.
            epoch: of training; None outside it.
        """
        return np.full(len(indices), self.n_targets, np.int64)

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Examples and targets of the splits in use, the examples that an epoch of training leaves out, and
        :meth:`too_long`.
        """
        counts = {}
        for split in self.splits:
            n = self.size(split)
            dropped = n % self.batch_size if split == self.train_split else 0
            targets = int(self.targets_of(split, np.arange(n, dtype=np.int64), None).sum())
            counts[split] = {"examples": n, "targets": targets, "dropped": dropped, **self.too_long(split)}
        return counts

    def too_long(self, split: str) -> dict[str, int]:
        """How many examples of a split are too long, by what is done with them; empty where none can be."""
        return {}

    @property
    def steps_per_epoch(self) -> int:
        """Updates of an epoch.

        Raises:
            UserError: not even one.
        """
        n = self.size(self.train_split)
        if n < self.batch_size:
            raise UserError(f"batch_size {self.batch_size} is more than the {n} examples of training")
        return n // self.batch_size

    def plan_epoch(self, epoch: int) -> list[Rows]:
        """The batches of one epoch for this rank, micro-batches of a step one after another."""
        share, steps = self.share, self.steps_per_epoch
        share.check_even(self.batch_size, f"batch_size {self.batch_size}")
        used = [share.examples(self.batch_size, micro_batch) for micro_batch in range(share.micro_batches)]
        order = shuffled(self.size(self.train_split), self.seed, epoch)[: steps * self.batch_size]
        targets = self.targets_of(self.train_split, order, epoch).reshape(steps, self.batch_size).sum(1)
        return [
            Rows(batch[rows], epoch, int(count))
            for batch, count in zip(order.reshape(steps, self.batch_size), targets, strict=True)
            for rows in used
        ]

    def builder(self, split: str) -> Callable[[Rows], ExampleBatch]:
        """Builds the planned batches of a split."""
        return partial(self.build, split)

    def build(self, split: str, rows: Rows) -> ExampleBatch:
        """The batch of a plan."""
        examples = self.examples(split, rows.indices, rows.epoch)
        counts = examples.targets.flatten() >= 0
        if not bool(counts.all()):
            examples = examples._replace(scored=counts.nonzero()[:, 0])
        indices = torch.from_numpy(np.ascontiguousarray(rows.indices))
        return ExampleBatch(examples, indices, rows.step_targets)

    def plan_evaluation(self, evaluation: Evaluation) -> list[Rows]:
        """This rank's batches of a whole split, its first examples, or random batches of it."""
        drawn, (rank, world, _) = evaluation.selection, self.share
        if isinstance(drawn, RandomBatches):  # of examples without replacement, in random order
            order = shuffled(self.size(self.split(evaluation.kind)), drawn.batches, drawn.rows)
            table = np.resize(order, (drawn.batches, drawn.rows))  # goes round a split that is smaller
            return [Rows(batch[rank::world], None, 0) for batch in table]
        # each example once over all ranks; a batch without rows where this one has none
        own = np.arange(rank, self.expected(evaluation)["examples"], world, dtype=np.int64)
        starts = range(0, max(1, len(own)), self.eval_batch_size)
        return [Rows(own[start : start + self.eval_batch_size], None, 0) for start in starts]

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        """Examples of an evaluation over all ranks."""
        size, selection = self.size(self.split(evaluation.kind)), evaluation.selection
        if isinstance(selection, RandomBatches):
            size = selection.batches * selection.rows
        elif isinstance(selection, FirstExamples):
            size = min(size, selection.count)
        return {"examples": size}
