"""Plans of an epoch over a flat array of tokens: streams with memory, shuffled blocks, sentences.

Every rank plans the same global batches, a pure function of (seed, epoch, step), and takes its rows of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from repro.data.core.draws import Int64s, shuffled
from repro.data.core.segments import Bools, Lazy, Segment, rows_from
from repro.data.core.shares import Share
from repro.errors import UserError

OrderName = Literal["stream", "shuffled", "sentences", "documents"]


def rows_per_batch(batch_tokens: int, seq_len: int) -> int:
    """Rows of the global batch.

    Raises:
        UserError: sizes below 1, or ``batch_tokens`` is no multiple of ``seq_len``; names the nearest multiples.
    """
    if seq_len < 1 or batch_tokens < 1:
        raise UserError(f"seq_len {seq_len} and batch_tokens {batch_tokens} must be at least 1")
    if batch_tokens % seq_len:
        below = batch_tokens // seq_len * seq_len
        near = f"{below} or {below + seq_len}" if below else str(seq_len)
        raise UserError(f"batch_tokens {batch_tokens} is not a multiple of seq_len {seq_len}; use {near}")
    return batch_tokens // seq_len


def steps_per_epoch(n_targets: int, batch_tokens: int) -> int:
    """Global batches of an epoch, the same for every ``seq_len``.

    Raises:
        UserError: not even one.
    """
    if n_targets < batch_tokens:
        raise UserError(
            f"batch_tokens {batch_tokens} is more than the {max(0, n_targets)} targets of the training split"
        )
    return n_targets // batch_tokens


class Order(Protocol):
    """Positions of the rows of each step."""

    def targets(self, step: int, rows: Int64s) -> Int64s:
        """Targets ``(B, T)`` of some rows of a step."""

    def indices(self, step: int, rows: Int64s) -> Int64s:
        """The number of the stream or block of some rows of a step, ``(B,)``."""

    def reset_memory(self, step: int) -> bool:
        """Whether memories are empty at this step."""


@dataclass(frozen=True)
class InStreams:
    """Row b is stream b: a contiguous piece of the text, read on from step to step.

    Source: data loader of Transformer-XL's code; Shortformer's with a cache.
    Deviation: there an epoch ends with a short batch; here every batch is whole, what is left over is dropped.
    """

    steps: int
    seq_len: int

    def targets(self, step: int, rows: Int64s) -> Int64s:
        return rows_from((rows * self.steps + step) * self.seq_len, self.seq_len)

    def indices(self, step: int, rows: Int64s) -> Int64s:
        return rows

    def reset_memory(self, step: int) -> bool:
        return step == 0


@dataclass(frozen=True)
class InBlocks:
    """Blocks of ``seq_len`` in an order of their own for each epoch; memories never carry over.

    Source: fairseq's ``sample-break-mode none``, as Shortformer's baselines use it.
    """

    blocks: Int64s
    rows: int
    seq_len: int

    def targets(self, step: int, rows: Int64s) -> Int64s:
        return rows_from(self.indices(step, rows) * self.seq_len, self.seq_len)

    def indices(self, step: int, rows: Int64s) -> Int64s:
        return self.blocks[step * self.rows + rows]

    def reset_memory(self, step: int) -> bool:
        return True


@dataclass(frozen=True)
class InSentences:
    """Whole sentences in an order of their own for each epoch, then laid into streams.

    Each sentence ends with the symbol that also stands before the first, so what precedes a sentence is the same
    wherever it is moved, and the input of a target stays its predecessor in the file.

    Source: One Billion Word in Transformer-XL's code.
    Deviation: there a row fetches its next sentence when its own is used up; here each row owns a contiguous piece of
    the shuffled text, so that any step can be found without replaying the ones before.

    Attributes:
        streams: of the shuffled text.
        ends: where each sentence ends in the shuffled text, ``(N,)``.
        moved: by how much its targets were moved, ``(N,)``.
    """

    streams: InStreams
    ends: Int64s
    moved: Int64s

    def targets(self, step: int, rows: Int64s) -> Int64s:
        laid = self.streams.targets(step, rows)
        return laid + self.moved[np.searchsorted(self.ends, laid, side="right")]

    def indices(self, step: int, rows: Int64s) -> Int64s:
        return rows

    def reset_memory(self, step: int) -> bool:
        return step == 0


def sentence_order(offsets: Int64s | None, steps: int, seq_len: int, seed: int, epoch: int) -> InSentences:
    """Sentences in the order of one epoch.

    Args:
        offsets: where each sentence begins among the tokens, and the end of the last, ``(N + 1,)``; the first token
            belongs to none. None: the text was not stored sentence by sentence.
        steps: of the epoch.
        seq_len: T.
        seed: of the run.
        epoch: from 0.

    Raises:
        UserError: offsets are None.
    """
    if offsets is None:
        raise UserError(
            "order sentences: this text was not stored sentence by sentence; use stream or shuffled"
        )
    order = shuffled(len(offsets) - 1, seed, epoch)
    first = np.asarray(offsets[:-1], np.int64)[order] - 1
    ends = np.cumsum(np.diff(offsets)[order], dtype=np.int64)
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return InSentences(InStreams(steps, seq_len), ends, first - begins)


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch for one rank, micro-batches of a step one after another.

    Attributes:
        order: where rows lie.
        steps: global batches.
        rows: of the global batch.
        share: this rank's place.
        step_targets: targets of the global batch.
        scored: ``(N,)``, the tokens that count; None is all.
        context: leading targets of every row that are read, but do not count.
        first: the target that counts as target 0.
    """

    order: Order
    steps: int
    rows: int
    share: Share
    step_targets: int
    scored: Bools | None = None
    context: int = 0
    first: int = 0

    def plan(self) -> Lazy[Segment]:
        """Segments in the order of training."""
        self.share.check_even(self.rows, f"{self.rows} streams (batch_tokens / seq_len)")
        return Lazy(self.segment, range(self.steps * self.share.micro_batches))

    def segment(self, i: int) -> Segment:
        """The i-th micro-batch of the epoch."""
        step, micro_batch = divmod(i, self.share.micro_batches)
        rows = self.share.streams(self.rows, micro_batch)
        return Segment(
            self.order.targets(step, rows) + self.first,
            self.order.indices(step, rows),
            self.order.reset_memory(step),
            skip=np.full(len(rows), self.context) if self.context else None,
            micro_batch=micro_batch,
            step_targets=self._counted(step),
        )

    def _counted(self, step: int) -> int:
        if self.scored is None:
            return self.step_targets - self.rows * self.context
        everywhere = self.order.targets(step, np.arange(self.rows, dtype=np.int64))[:, self.context :]
        return int(np.count_nonzero(self.scored[everywhere + self.first + 1]))


def plan_epoch(
    n_targets: int,
    batch_tokens: int,
    seq_len: int,
    order: OrderName,
    seed_epoch: tuple[int, int],
    share: Share,
    scored: Bools | None = None,
    offsets: Int64s | None = None,
    context: int = 0,
    first: int = 0,
) -> Lazy[Segment]:
    """Plans one rank's share of an epoch.

    There are ``n_targets // batch_tokens`` global batches whatever ``seq_len`` is; what is left over is dropped
    (:func:`dropped_in_training`).

    Args:
        n_targets: of the training split.
        batch_tokens: targets of the global batch.
        seq_len: T.
        order: ``stream``, ``shuffled`` or ``sentences``.
        seed_epoch: what the order is drawn from.
        share: this rank's place.
        scored, context, first: see :class:`Epoch`; no ``first`` for ``sentences``.
        offsets: see :func:`sentence_order`; for ``sentences`` only.

    Raises:
        UserError: sizes that do not divide, too little text, no sentences, or nothing that counts.
    """
    if not 0 <= context < seq_len:
        raise UserError(f"context {context} must be at least 0 and below seq_len {seq_len}")
    rows, steps = rows_per_batch(batch_tokens, seq_len), steps_per_epoch(n_targets, batch_tokens)
    orders: dict[OrderName, Callable[[], Order]] = {
        "stream": lambda: InStreams(steps, seq_len),
        "shuffled": lambda: InBlocks(shuffled(n_targets // seq_len, *seed_epoch), rows, seq_len),
        "sentences": lambda: sentence_order(offsets, steps, seq_len, *seed_epoch),
    }
    return Epoch(orders[order](), steps, rows, share, batch_tokens, scored, context, first).plan()


def dropped_in_training(n_targets: int, batch_tokens: int) -> int:
    """Targets that an epoch leaves out."""
    return n_targets - steps_per_epoch(n_targets, batch_tokens) * batch_tokens
