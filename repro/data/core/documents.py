"""Text that is read document by document: blocks that lie in one document each, in the order of the text."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from repro.data.core.draws import Int64s
from repro.data.core.segments import Bools, Segment, rows_from
from repro.errors import UserError


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

    def segment(self, step: int) -> Segment:
        """The block of each row at a step."""
        starts, lengths, first = self.blocks
        rows = np.arange(self.rows, dtype=np.int64)
        blocks = rows * self.steps + step
        targets = rows_from(starts[blocks], self.seq_len)
        return Segment(targets, rows, reset_memory=step == 0, lengths=lengths[blocks], begins=first[blocks])
