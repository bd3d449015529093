"""Places of the rows of each step in a text: streams with memory, windows, shuffled blocks, sentences."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from repro.data.core.draws import Int64s, drawn, shuffled
from repro.data.core.segments import rows_from
from repro.errors import UserError, at_least


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


class Order(Protocol):
    """Positions of the rows of each step."""

    def targets(self, step: int, rows: Int64s) -> Int64s:
        """Targets ``(B, T)`` of some rows of a step."""

    def indices(self, step: int, rows: Int64s) -> Int64s:
        """The number of the stream or block of some rows of a step, ``(B,)``."""

    def reset_memory(self, step: int) -> bool:
        """Whether memories are empty at this step."""

    def context(self, step: int) -> int:
        """Leading targets of the rows of a step that are read, but do not count: they did in the step before."""
        return 0


@dataclass(frozen=True)
class InStreams(Order):
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
class InWindows(Order):
    """Row b is stream b, read in windows that overlap, so that every target of a stream counts once.

    The window of a step ends ``stride`` targets behind the one before and begins up to ``before`` targets ahead of
    those that count. Windows at a stream's beginning reach back to its first token only, and the last one ends with the
    stream.

    Source: ``LMOrderedIterator`` of Transformer-XL's code (data_utils.py:36-47), with ``tgt_len`` = ``stride`` and
    ``ext_len`` = ``before``; the tokens of every batch are equal.

    Attributes:
        length: targets of a stream. Its first token is no target, so that a stream has ``length + 1`` tokens.
        stride: targets of a row that count in one step.
        before: targets ahead of them.
    """

    length: int
    stride: int
    before: int

    @property
    def steps(self) -> int:
        """Global batches of an epoch."""
        return -(-self.length // self.stride)

    def targets(self, step: int, rows: Int64s) -> Int64s:
        begin = step * self.stride - self.context(step)
        end = min((step + 1) * self.stride, self.length)
        return rows_from(rows * (self.length + 1) + begin, end - begin)

    def indices(self, step: int, rows: Int64s) -> Int64s:
        return rows

    def reset_memory(self, step: int) -> bool:
        return step == 0

    def context(self, step: int) -> int:
        return min(step * self.stride, self.before)


def overlapping(n_targets: int, batch_tokens: int, seq_len: int, context: int) -> InWindows:
    """The windows of an epoch with ``context``; their number does not depend on the epoch.

    Raises:
        UserError: a context that leaves nothing to count, sizes that do not divide, or too little text.
    """
    if not 0 <= context < seq_len:
        raise UserError(f"context {context} must be at least 0 and below seq_len {seq_len}")
    rows = rows_per_batch(batch_tokens, seq_len)
    steps_per_epoch(n_targets, batch_tokens)  # refuses a text that is shorter than one batch
    return InWindows((n_targets + 1) // rows - 1, seq_len - context, context)


@dataclass(frozen=True)
class InBlocks(Order):
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
class InRandomWindows(Order):
    """Windows that begin at random tokens, drawn with replacement; memories never carry over.

    The windows of a step depend on its key and number alone.

    Source: ``get_batch`` of nanoGPT (train.py), whose numbers come from one stream for training and evaluation.

    Attributes:
        n_targets: of the text.
        rows: windows of a global batch.
        seq_len: targets of a window.
        key: what windows are drawn from: seed and epoch.
    """

    n_targets: int
    rows: int
    seq_len: int
    key: tuple[int, ...]

    def targets(self, step: int, rows: Int64s) -> Int64s:
        return rows_from(self.indices(step, rows), self.seq_len)

    def indices(self, step: int, rows: Int64s) -> Int64s:
        """The first target of each window, ``(B,)``."""
        return drawn(self.n_targets - self.seq_len + 1, self.rows, *self.key, step)[rows]

    def reset_memory(self, step: int) -> bool:
        return True


@dataclass(frozen=True)
class InSentences(Order):
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
