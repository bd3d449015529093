"""The batches of an epoch or of an evaluation over a text: streams with memory, windows, shuffled blocks, sentences.

Deviation: in the official codes an epoch ends with a short batch; in training every batch here is whole, and what is
left over is dropped.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from repro.data.core.draws import Int64s, drawn, shuffled
from repro.data.core.segments import Bools, Lazy, Segment, rows_from
from repro.data.core.shares import Share
from repro.errors import UserError, at_least

OrderName = Literal["stream", "shuffled", "random", "sentences", "documents"]


def rows_per_batch(batch_tokens: int, seq_len: int) -> int:
    """Rows of the global batch.

    Raises:
        UserError: sizes below 1, or ``batch_tokens`` is no multiple of ``seq_len``; names the nearest multiples.
    """
    at_least(1, seq_len=seq_len, batch_tokens=batch_tokens)
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


@dataclass(frozen=True)
class InStreams:
    """Row b is stream b: a contiguous piece of the text, read on from step to step. The last step may be shorter.

    Source: data loader of Transformer-XL's code; Shortformer's with a cache.
    Deviation: there the first token of every stream is no target; here only that of the split is none.

    Attributes:
        rows: streams.
        length: targets of a stream.
        seq_len: targets of a row, T.
    """

    rows: int
    length: int
    seq_len: int

    @property
    def steps(self) -> int:
        """Number of batches."""
        return -(-self.length // self.seq_len)

    @property
    def n_targets(self) -> int:
        """Targets of all streams."""
        return self.rows * self.length

    def segment(self, step: int) -> Segment:
        """The batch of a step."""
        begin, rows = step * self.seq_len, np.arange(self.rows, dtype=np.int64)
        width = min(self.seq_len, self.length - begin)
        return Segment(rows_from(rows * self.length + begin, width), rows, reset_memory=step == 0)


@dataclass(frozen=True)
class InWindows(InStreams):
    """Row b is stream b, read in windows that overlap, so that every target of a stream counts once.

    The window of a step ends ``seq_len`` targets behind the one before and begins up to ``before`` targets ahead of
    those that count. Windows at a stream's beginning reach back to its first token only, and the last one ends with the
    stream.

    Source: ``LMOrderedIterator`` of Transformer-XL's code (data_utils.py:36-47), with ``tgt_len`` = ``seq_len`` and
    ``ext_len`` = ``before``; the tokens of every batch are equal.

    Attributes:
        length: targets of a stream. Its first token is no target, so that a stream has ``length + 1`` tokens.
        seq_len: targets of a row that count in one step.
        before: targets ahead of them.
    """

    before: int

    def segment(self, step: int) -> Segment:
        """The batch of a step."""
        context, rows = self._context(step), np.arange(self.rows, dtype=np.int64)
        begin, end = step * self.seq_len - context, min((step + 1) * self.seq_len, self.length)
        return Segment(
            rows_from(rows * (self.length + 1) + begin, end - begin),
            rows,
            reset_memory=step == 0,
            skip=np.full(self.rows, context),
            reread=self._context(step + 1) if step + 1 < self.steps else 0,
        )

    def _context(self, step: int) -> int:
        """Leading targets of the rows of a step that do not count: they did in the step before."""
        return min(step * self.seq_len, self.before)


def overlapping(n_targets: int, batch_tokens: int, seq_len: int, context: int) -> InWindows:
    """The windows of an epoch with ``context``; their number does not depend on the epoch.

    Raises:
        UserError: a context that leaves nothing to count, or sizes that do not divide.
    """
    if not 0 <= context < seq_len:
        raise UserError(f"context {context} must be at least 0 and below seq_len {seq_len}")
    rows = rows_per_batch(batch_tokens, seq_len)
    return InWindows(rows, (n_targets + 1) // rows - 1, seq_len - context, context)


@dataclass(frozen=True)
class InBlocks:
    """Blocks of ``seq_len`` in an order of their own for each epoch; memories never carry over.

    Source: fairseq's ``sample-break-mode none``, as Shortformer's baselines use it.

    Attributes:
        rows: blocks of a batch.
        steps: number of batches.
        seq_len: targets of a block.
        n_blocks: of the text.
        key: numbers that the order of blocks is drawn from.
    """

    rows: int
    steps: int
    seq_len: int
    n_blocks: int
    key: tuple[int, ...]

    @property
    def n_targets(self) -> int:
        """Targets of all batches."""
        return self.rows * self.steps * self.seq_len

    @cached_property
    def blocks(self) -> Int64s:
        """Numbers of the blocks in the order of the epoch."""
        return shuffled(self.n_blocks, *self.key)

    def segment(self, step: int) -> Segment:
        """The batch of a step."""
        blocks = self.blocks[step * self.rows : (step + 1) * self.rows]
        return Segment(rows_from(blocks * self.seq_len, self.seq_len), blocks, reset_memory=True)


@dataclass(frozen=True)
class InRandomWindows:
    """Windows that begin at random tokens, drawn with replacement; memories never carry over.

    The windows of a step depend on its key and number alone.

    Source: ``get_batch`` and ``estimate_loss`` of nanoGPT (train.py), whose numbers come from one stream.
    Deviation: there every evaluation of a run draws other windows; here they depend on the seed alone.

    Attributes:
        rows: windows of a batch.
        steps: number of batches.
        seq_len: targets of a window.
        n_targets: of the text.
        key: numbers that windows are drawn from: the seed, in training also the epoch.

    Raises:
        UserError: the text is shorter than a window.
    """

    rows: int
    steps: int
    seq_len: int
    n_targets: int
    key: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.n_targets < self.seq_len:
            raise UserError(f"seq_len {self.seq_len} is more than the {self.n_targets} targets of the split")

    def segment(self, step: int) -> Segment:
        """The batch of a step; the index of a row is the first target of its window."""
        starts = drawn(self.n_targets - self.seq_len + 1, self.rows, *self.key, step)
        return Segment(rows_from(starts, self.seq_len), starts, reset_memory=True)


@dataclass(frozen=True)
class InSentences(InStreams):
    """Whole sentences in an order of their own for each epoch, then laid into streams.

    Each sentence ends with the symbol that also stands before the first, so what precedes a sentence is the same
    wherever it is moved, and the input of a target stays its predecessor in the file.

    Source: One Billion Word in Transformer-XL's code.
    Deviation: there a row fetches its next sentence when its own is used up; here each row owns a contiguous piece of
    the shuffled text, so that any step can be found without replaying the ones before.

    Attributes:
        offsets: where each sentence begins among the tokens, and the end of the last, ``(N + 1,)``; the first token
            belongs to none.
        key: numbers that the order of sentences is drawn from.
    """

    offsets: Int64s
    key: tuple[int, ...]

    @cached_property
    def moved(self) -> tuple[Int64s, Int64s]:
        """The end of each sentence in the shuffled text and the shift of its targets, ``(N,)`` each."""
        order = shuffled(len(self.offsets) - 1, *self.key)
        first = np.asarray(self.offsets[:-1], np.int64)[order] - 1
        ends = np.cumsum(np.diff(self.offsets)[order], dtype=np.int64)
        begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return ends, first - begins

    def segment(self, step: int) -> Segment:
        """The batch of a step."""
        laid, (ends, moved) = super().segment(step), self.moved
        sentences = np.searchsorted(ends, laid.targets, side="right")
        return replace(laid, targets=laid.targets + moved[sentences])


@dataclass(frozen=True)
class Windows:
    """Independent windows that overlap, for evaluation: each target is scored in one of them.

    The first window scores all of its targets, every later one its last ``stride``: those have at least
    ``seq_len - stride`` tokens before them. ``stride = seq_len`` evaluates blocks without overlap, ``stride = 1`` token
    by token. The last window is short where the text ends, and a batch of its own: nothing is padded.

    Source: section 2 of Press et al. 2021.

    Attributes:
        rows: windows of a batch.
        stride: by how many targets a window is moved on, at most ``seq_len``.
        seq_len: targets of a window, T.
        n_targets: of the text.
    """

    rows: int
    stride: int
    seq_len: int
    n_targets: int

    @property
    def whole(self) -> int:
        """Windows of full length."""
        return max(0, (self.n_targets - self.seq_len) // self.stride + 1)

    @property
    def steps(self) -> int:
        """Number of batches."""
        covered = self.seq_len + (self.whole - 1) * self.stride if self.whole else 0
        return -(-self.whole // self.rows) + int(covered < self.n_targets)

    def segment(self, step: int) -> Segment:
        """The batch of a step: whole windows, or at the end the short one."""
        first, width = step * self.rows, self.seq_len
        windows = np.arange(first, min(self.whole, first + self.rows), dtype=np.int64)
        if first >= self.whole:
            windows, width = np.array([self.whole], np.int64), self.n_targets - self.whole * self.stride
        skip = np.where(windows == 0, 0, self.seq_len - self.stride)
        return Segment(rows_from(windows * self.stride, width), windows, reset_memory=True, skip=skip)


@dataclass(frozen=True)
class DocumentRows:
    """Blocks of documents, laid onto rows that are read block after block, for training and for evaluation.

    Each document is cut into blocks of ``seq_len`` targets from its beginning; the last one may be shorter. The first
    token of a document is no target, since only another document precedes it. Each row has equally many consecutive
    blocks; those that are left over at the end of the text belong to none and are not scored. A row may begin inside a
    document.

    Args:
        offsets: the first token of each document, and the end of the last, ``(N + 1,)``.
        seq_len: most targets of a block, T.
        rows: over all ranks.
    """

    offsets: Int64s
    seq_len: int
    rows: int = 1

    def up_to(self, n_targets: int) -> "DocumentRows":
        """The blocks of the first ``n_targets`` targets of the text."""
        inside = self.offsets[self.offsets <= n_targets]
        return DocumentRows(np.append(inside, n_targets + 1), self.seq_len, self.rows)

    @cached_property
    def blocks(self) -> tuple[Int64s, Int64s, Bools]:
        """First target and number of targets of each block, and whether its document begins there."""
        edges: Int64s = np.asarray(self.offsets, np.int64)
        starts, targets = edges[:-1], edges[1:] - edges[:-1] - 1
        counts = -(-targets // self.seq_len)
        number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        before = number * self.seq_len
        lengths = np.minimum(self.seq_len, np.repeat(targets, counts) - before)
        return np.repeat(starts, counts) + before, lengths, number == 0

    @property
    def steps(self) -> int:
        """Blocks of each row.

        Raises:
            UserError: not even one.
        """
        count = len(self.blocks[0])
        if count < self.rows:
            raise UserError(
                f"the documents have {count} blocks of at most {self.seq_len} tokens, too few for {self.rows} rows"
            )
        return count // self.rows

    @property
    def n_targets(self) -> int:
        """Targets of all rows."""
        return int(self.blocks[1][: self.steps * self.rows].sum())

    def segment(self, step: int) -> Segment:
        """The block of each row at a step."""
        starts, lengths, first = self.blocks
        rows = np.arange(self.rows, dtype=np.int64)
        blocks = rows * self.steps + step
        targets = rows_from(starts[blocks], self.seq_len)
        return Segment(targets, rows, reset_memory=step == 0, lengths=lengths[blocks], begins=first[blocks])


# The batches of an epoch or of an evaluation, each with the rows of all ranks: `rows` of a batch, the number of batches
# (`steps`), the targets that count, or that may be drawn, over all of them (`n_targets`), and the batch of a step.
Order = InStreams | InBlocks | InRandomWindows | Windows | DocumentRows


def evaluation_of_rank(order: Order, rank: int, world: int) -> Lazy[Segment]:
    """A rank's batches of an evaluation; none where there is nothing left for it.

    It takes every ``world``-th batch of independent windows. A stream belongs to one rank, as its memory does: there it
    takes every ``world``-th row of all batches.
    """
    if isinstance(order, Windows | InRandomWindows):
        return Lazy(order.segment, range(rank, order.steps, world))
    rows = np.arange(rank, order.rows, world, dtype=np.int64)
    return Lazy(partial(_taken, order, rows), range(order.steps if rows.size else 0))


def _taken(order: Order, rows: Int64s, step: int) -> Segment:
    return order.segment(step).take(rows)


def epoch_of_rank(order: Order, share: Share, scored: Bools | None, first: int) -> Lazy[Segment]:
    """A rank's batches of an epoch, micro-batches of a step one after another; ranks must share the rows evenly.

    Args:
        order: the global batches.
        share: this rank's place.
        scored: ``(N,)``, the tokens that count; None is all.
        first: the target that counts as target 0.
    """
    place = partial(_micro_batch, order, share, scored, first)
    return Lazy(place, range(order.steps * share.micro_batches))


def _micro_batch(order: Order, share: Share, scored: Bools | None, first: int, i: int) -> Segment:
    step, micro_batch = divmod(i, share.micro_batches)
    whole = order.segment(step)
    if first:
        whole = replace(whole, targets=whole.targets + first)
    rows = share.streams(order.rows, micro_batch)
    mine = whole if rows.size == order.rows else whole.take(rows)
    step_targets = int(np.count_nonzero(whole.counting(scored)))
    return replace(mine, micro_batch=micro_batch, step_targets=step_targets)
