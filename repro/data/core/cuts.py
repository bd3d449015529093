"""Cuts of a split for evaluation: streams with memory, windows that overlap, or a random sample of windows."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from repro.data.core.orders import InRandomWindows, InStreams, rows_of_rank
from repro.data.core.segments import Lazy, Segment, rows_from
from repro.errors import UserError


class Cut(Protocol):
    """A cut of a split for evaluation; over all ranks every target that is not dropped is scored once."""

    def plan(self, n_targets: int, rank: int = 0, world: int = 1) -> Lazy[Segment]:
        """This rank's batches; none where there is nothing left for it."""

    def dropped(self, n_targets: int) -> int:
        """Targets at the end of the split that are not scored."""


@dataclass(frozen=True)
class Streams:
    """Contiguous streams read segment by segment with carried memory, the last, short segment included.

    A stream belongs to one rank, as its memory does. The split is cut into ``rows`` equal streams: the
    ``n_targets % rows`` targets at its end belong to none and are dropped, as in Transformer-XL's code; with one row
    nothing is.

    Deviation: there the first token of every stream is no target; here only that of the split is none.

    Args:
        seq_len: targets of a segment, T.
        rows: streams over all ranks.
    """

    seq_len: int
    rows: int = 1

    def dropped(self, n_targets: int) -> int:
        """Targets at the end of the split that are not scored."""
        return n_targets % self.rows

    def plan(self, n_targets: int, rank: int = 0, world: int = 1) -> Lazy[Segment]:
        """This rank's batches; none where there are more ranks than streams."""
        return rows_of_rank(InStreams(self.rows, n_targets // self.rows, self.seq_len), rank, world)


@dataclass(frozen=True)
class Windows:
    """Independent windows that overlap, each target scored in one of them.

    The first window scores all of its targets, every later one its last ``stride``: those have at least
    ``seq_len - stride`` tokens before them. ``stride = seq_len`` evaluates blocks without overlap, ``stride = 1`` token
    by token. The last window is short where the text ends, and a batch of its own: nothing is padded.

    Source: section 2 of Press et al. 2021.

    Args:
        seq_len: targets of a window, T.
        stride: by how many targets a window is moved on, at most ``seq_len``.
        rows: windows of a batch.
    """

    seq_len: int
    stride: int
    rows: int = 1

    def dropped(self, n_targets: int) -> int:
        """None: every target is scored."""
        return 0

    def plan(self, n_targets: int, rank: int = 0, world: int = 1) -> Lazy[Segment]:
        """This rank's batches: every ``world``-th."""
        whole, short = self._counts(n_targets)
        batches = -(-whole // self.rows) + short
        return Lazy(partial(self._segment, n_targets), range(rank, batches, world))

    def _counts(self, n_targets: int) -> tuple[int, int]:
        """Whole windows, and short ones (0 or 1)."""
        if n_targets < self.seq_len:
            return 0, int(n_targets > 0)
        whole, rest = divmod(n_targets - self.seq_len, self.stride)
        return whole + 1, int(rest > 0)

    def _segment(self, n_targets: int, i: int) -> Segment:
        """The i-th batch of all ranks: whole windows, or at the end the short one."""
        whole, _ = self._counts(n_targets)
        first, width = i * self.rows, self.seq_len
        windows = np.arange(first, min(whole, first + self.rows), dtype=np.int64)
        if first >= whole:
            windows, width = np.array([whole], np.int64), n_targets - whole * self.stride
        skip = np.where(windows == 0, 0, self.seq_len - self.stride)
        return Segment(rows_from(windows * self.stride, width), windows, reset_memory=True, skip=skip)


@dataclass(frozen=True)
class RandomWindows:
    """Independent windows that begin at random tokens, drawn with replacement; every target of a window is scored.

    A sample: some targets of the split are scored more than once and others not at all.

    Source: ``estimate_loss`` of nanoGPT (train.py).
    Deviation: there every evaluation of a run draws other windows; here they depend on the seed alone.

    Args:
        seq_len: targets of a window, T.
        rows: windows of a batch.
        batches: how many batches.
        seed: what windows are drawn from.
    """

    seq_len: int
    rows: int
    batches: int
    seed: int

    def dropped(self, n_targets: int) -> int:
        """None is left out on purpose."""
        return 0

    def plan(self, n_targets: int, rank: int = 0, world: int = 1) -> Lazy[Segment]:
        """This rank's batches: every ``world``-th.

        Raises:
            UserError: the split is shorter than a window.
        """
        if n_targets < self.seq_len:
            raise UserError(f"seq_len {self.seq_len} is more than the {n_targets} targets of the split")
        order = InRandomWindows(self.rows, self.batches, self.seq_len, n_targets, (self.seed,))
        return Lazy(order.segment, range(rank, self.batches, world))
