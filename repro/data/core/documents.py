"""Text that is read document by document: blocks that lie in one document each, in the order of the text."""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from repro.data.core.draws import Int64s
from repro.data.core.segments import Bools, Lazy, Segment, rows_from
from repro.data.core.shares import Share
from repro.errors import UserError, at_least


@dataclass(frozen=True)
class DocumentRows:
    """Blocks of documents, laid onto rows that are read block after block, for training and for evaluation.

    Each document is cut into blocks of ``seq_len`` targets from its beginning; the last one may be shorter. The first
    token of a document is no target, since only another document precedes it. Each row has equally many consecutive
    blocks; the blocks that are left over at the end of the text belong to none. A row may begin inside a document.

    Args:
        offsets: the first token of each document, and the end of the last, ``(N + 1,)``.
        seq_len: most targets of a block, T.
        rows: over all ranks.

    Raises:
        UserError: a size below 1.
    """

    offsets: Int64s
    seq_len: int
    rows: int = 1

    def __post_init__(self) -> None:
        at_least(1, seq_len=self.seq_len, rows=self.rows)

    def until(self, n_targets: int) -> "DocumentRows":
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

    def segment(
        self, step: int, rows: Int64s, micro_batch: int = 0, step_targets: int | None = None
    ) -> Segment:
        """The blocks of some rows at a step."""
        starts, lengths, first = self.blocks
        blocks = rows * self.steps + step
        return Segment(
            rows_from(starts[blocks], self.seq_len),
            rows,
            reset_memory=step == 0,
            micro_batch=micro_batch,
            step_targets=step_targets,
            lengths=lengths[blocks],
            begins=first[blocks],
        )

    def plan_epoch(self, share: Share) -> Lazy[Segment]:
        """One rank's batches of an epoch of training, micro-batches of a step one after another.

        Raises:
            UserError: rows that the ranks cannot share.
        """
        share.check_even(self.rows, f"{self.rows} streams (batch_tokens / seq_len)")
        return Lazy(partial(self._micro_batch, share), range(self.steps * share.micro_batches))

    def _micro_batch(self, share: Share, i: int) -> Segment:
        step, micro_batch = divmod(i, share.micro_batches)
        step_targets = int(self.blocks[1][step : self.rows * self.steps : self.steps].sum())
        return self.segment(step, share.streams(self.rows, micro_batch), micro_batch, step_targets)

    def dropped(self, n_targets: int) -> int:
        """Targets that are not scored: those in front of documents, and those of the blocks that are left over."""
        return n_targets - self.until(n_targets).n_targets

    def plan(self, n_targets: int, rank: int = 0, world: int = 1) -> Lazy[Segment]:
        """This rank's batches of an evaluation; none where there are more ranks than rows."""
        cut, rows = self.until(n_targets), np.arange(rank, self.rows, world, dtype=np.int64)
        return Lazy(partial(cut.segment, rows=rows), range(cut.steps if rows.size else 0))
