"""What classifiers train on: examples of a fixed number of targets, in batches of a fixed number of examples."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from repro.data.batches import Int64s, check_even
from repro.data.loader import FixedLoader, PlannedLoader, ResumingData
from repro.errors import UserError


class Examples(NamedTuple):
    """Some examples of a split.

    Attributes:
        inputs: vectors ``(B, T, C)`` float32, or ids ``(B, T)`` int64.
        targets: classes ``(B, N)`` int64; -1 where there is none, or where it does not count.
        hidden: which targets the input does not show, ``(B, N)`` bool; None where there is no such difference.
        lengths: valid tokens of each row, ``(B,)`` int64, padding is on the right; None means all T.
    """

    inputs: Tensor
    targets: Tensor
    hidden: Tensor | None = None
    lengths: Tensor | None = None


class ExampleBatch(NamedTuple):
    """One rank's rows of a global batch.

    Attributes:
        examples: the rows.
        index: ``(B,)`` int64, which example of the split each row is.
        step_targets: ``()`` int64, targets that count in the whole global batch, over all ranks and micro-batches.
    """

    examples: Examples
    index: Tensor  # type: ignore[assignment]  # hides tuple.index
    step_targets: Tensor


class Reader(Protocol):
    """Makes examples of one split. Cheap to send to a worker process."""

    def __call__(self, indices: Int64s, epoch: int | None) -> Examples:
        """Some examples.

        Args:
            indices: which, ``(B,)``.
            epoch: of training, for what differs from epoch to epoch (augmentation, fresh examples); None outside it.
        """
        ...


class Rows(NamedTuple):
    """Plan of a batch: which examples, in which epoch of training (None outside it), targets of the update."""

    indices: Int64s
    epoch: int | None
    step_targets: int


@dataclass(frozen=True)
class Build:
    """Makes planned batches with a reader."""

    reader: Reader

    def __call__(self, rows: Rows) -> ExampleBatch:
        """The batch of a plan."""
        which = torch.from_numpy(np.ascontiguousarray(rows.indices))
        step = torch.tensor(rows.step_targets, dtype=torch.int64)
        return ExampleBatch(self.reader(rows.indices, rows.epoch), which, step)


class ExampleData(ResumingData, ABC):
    """Batches of examples, whatever they are; what all classifiers train on.

    The global batch is a pure function of (seed, epoch, step): the examples of an epoch in random order, the last
    ``size mod batch_size`` of them left out. Ranks and micro-batches take shares of its rows.

    Args:
        batch_size: examples of the global batch.
        eval_batch_size: examples of a batch of evaluation, which changes memory only.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Attributes:
        store_name: what records call the data.
        input_size: width of an input vector, or how many input ids there are.
        seq_len: input tokens of an example, at most.
        n_targets: targets of an example that count; the mean where that differs, see :meth:`targets_of`.
        n_classes: classes of a target.

    Raises:
        UserError: a number below 1.
    """

    store_name: str
    input_size: int
    seq_len: int
    n_targets: int = 1
    n_classes: int
    train_split: str = "train"
    val_split: str = "val"
    test_split: str = "test"

    def __init__(
        self, batch_size: int, eval_batch_size: int = 50, seed: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__()
        if batch_size < 1 or eval_batch_size < 1:
            raise UserError(
                f"batch_size {batch_size} and eval_batch_size {eval_batch_size} must be at least 1"
            )
        # with few examples and many ranks a rank may have none
        self.allow_zero_length_dataloader_with_multiple_devices = True
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.seed = seed
        self.num_workers = num_workers

    @abstractmethod
    def size(self, split: str) -> int:
        """Examples of a split."""

    @abstractmethod
    def reader(self, split: str) -> Reader:
        """What makes the examples of a split."""

    def targets_of(self, split: str, indices: Int64s, epoch: int | None) -> Int64s:
        """How many targets of some examples count, ``(B,)``; the plan of training asks for whole epochs.

        Args:
            split: name of the split.
            indices: which examples, ``(B,)``.
            epoch: of training; None outside it.
        """
        return np.full(len(indices), self.n_targets, np.int64)

    @property
    @abstractmethod
    def manifest_sha256(self) -> str:
        """What tells the data apart from any other."""

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Examples and targets of the splits in use, and the examples that an epoch of training leaves out."""
        told = {}
        for split in (self.train_split, self.val_split, self.test_split):
            n = self.size(split)
            dropped = n % self.batch_size if split == self.train_split else 0
            targets = int(self.targets_of(split, np.arange(n, dtype=np.int64), None).sum())
            told[split] = {"examples": n, "targets": targets, "dropped": dropped}
        return told

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
        rank, world, parts = self._share()
        used = share_of_batch(self.batch_size, rank, world, parts)
        steps = self.steps_per_epoch
        order = shuffled(self.size(self.train_split), (self.seed, epoch))[: steps * self.batch_size]
        targets = self.targets_of(self.train_split, order, epoch).reshape(steps, self.batch_size).sum(1)
        return [
            Rows(batch[rows], epoch, int(count))
            for batch, count in zip(order.reshape(steps, self.batch_size), targets, strict=True)
            for rows in used
        ]

    def train_dataloader(self) -> PlannedLoader[Rows, ExampleBatch]:
        """Training batches, from the saved position if there is one."""
        build = Build(self.reader(self.train_split))
        return self.placed(PlannedLoader(self.plan_epoch, build, self._share()[2], self.num_workers))

    def val_dataloader(self) -> FixedLoader[Rows, ExampleBatch]:
        """This rank's share of the validation split."""
        return self.eval_loader(self.val_split)

    def test_dataloader(self) -> list[FixedLoader[Rows, ExampleBatch]]:
        """This rank's shares of what the task wants to be tested on."""
        return self.trainer.lightning_module.test_batches()  # type: ignore[union-attr, operator]

    def eval_loader(self, split: str, limit: int | None = None) -> FixedLoader[Rows, ExampleBatch]:
        """This rank's examples of any split, each once over all ranks.

        Lightning passes over the evaluation on a rank without batches, where the other ranks would wait for it:
        such a rank gets one without rows.

        Args:
            split: name of the split.
            limit: only the first so many examples; None for all.
        """
        rank, world, _ = self._share()
        own = np.arange(rank, self.expected(split, limit), world, dtype=np.int64)
        starts = range(0, max(1, len(own)), self.eval_batch_size)
        plan = [Rows(own[at : at + self.eval_batch_size], None, 0) for at in starts]
        return FixedLoader(plan, Build(self.reader(split)), self.num_workers)

    def sampled_loader(self, split: str, batches: int, rows: int) -> FixedLoader[Rows, ExampleBatch]:
        """This rank's share of some random batches of a split, the same in every run.

        Args:
            split: name of the split.
            batches: how many.
            rows: examples of each, drawn without replacement from the split in random order.
        """
        rank, world, _ = self._share()
        order = shuffled(self.size(split), (batches, rows))
        drawn = np.resize(order, batches * rows).reshape(batches, rows)  # goes round a split that is smaller
        plan = [Rows(batch[rank::world], None, 0) for batch in drawn]
        return FixedLoader(plan, Build(self.reader(split)), self.num_workers)

    def expected(self, split: str, limit: int | None = None) -> int:
        """Examples of :meth:`eval_loader` over all ranks."""
        return self.size(split) if limit is None else min(limit, self.size(split))

    def _share(self) -> tuple[int, int, int]:
        """This rank, the number of ranks, micro-batches per step."""
        if self.trainer is None:
            return 0, 1, 1
        return self.trainer.global_rank, self.trainer.world_size, int(self.trainer.accumulate_grad_batches)


def shuffled(n: int, key: tuple[int, ...]) -> Int64s:
    """A random order of ``n`` things, the same on any machine for the same key."""
    # raw output of a bit generator is the same in every version of NumPy, its distributions are not
    drawn = np.random.PCG64(np.random.SeedSequence(key)).random_raw(n)
    return np.argsort(drawn, kind="stable").astype(np.int64)


def share_of_batch(batch_size: int, rank: int, world: int, parts: int) -> list[slice]:
    """Which rows of a global batch the micro-batches of one rank take.

    Raises:
        UserError: the rows cannot be shared evenly; names the numbers that divide them.
    """
    check_even(batch_size, f"batch_size {batch_size}", world, parts)
    return [slice(rank * parts + part, batch_size, world * parts) for part in range(parts)]
