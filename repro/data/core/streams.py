"""Plans of an epoch over a flat array of tokens.

Every rank plans the same global batches, a pure function of (seed, epoch, step), and takes its rows of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from repro.data.core.draws import Int64s, shuffled
from repro.data.core.orders import (
    InBlocks,
    InRandomWindows,
    InStreams,
    Order,
    overlapping,
    rows_per_batch,
    sentence_order,
    steps_per_epoch,
)
from repro.data.core.segments import Bools, Lazy, Segment
from repro.data.core.shares import Share
from repro.errors import UserError

OrderName = Literal["stream", "shuffled", "random", "sentences", "documents"]


@dataclass(frozen=True)
class Epoch:
    """The batches of one epoch for one rank, micro-batches of a step one after another.

    Attributes:
        order: the global batches.
        share: this rank's place.
        scored: ``(N,)``, the tokens that count; None is all.
        first: the target that counts as target 0.
    """

    order: Order
    share: Share
    scored: Bools | None = None
    first: int = 0

    def plan(self) -> Lazy[Segment]:
        """Segments in the order of training.

        Raises:
            UserError: rows that the ranks cannot share.
        """
        self.share.check_even(self.order.rows, f"{self.order.rows} streams (batch_tokens / seq_len)")
        return Lazy(self.segment, range(self.order.steps * self.share.micro_batches))

    def segment(self, i: int) -> Segment:
        """The i-th micro-batch of the epoch."""
        step, micro_batch = divmod(i, self.share.micro_batches)
        whole = self.order.segment(step)
        whole = replace(whole, targets=whole.targets + self.first)
        mine = whole.take(self.share.streams(self.order.rows, micro_batch))
        step_targets = int(np.count_nonzero(whole.counting(self.scored)))
        return replace(mine, micro_batch=micro_batch, step_targets=step_targets)


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

    There are ``n_targets // batch_tokens`` global batches whatever ``seq_len`` is; what is left over is dropped.
    With a ``context`` windows overlap, and there are more (:class:`InWindows`). An epoch
    of random windows has as many targets as one of blocks, but not each of them once.

    Args:
        n_targets: of the training split.
        batch_tokens: targets of the global batch.
        seq_len: T.
        order: ``stream``, ``shuffled``, ``random`` or ``sentences``.
        seed_epoch: what the order is drawn from.
        share: this rank's place.
        scored, first: see :class:`Epoch`; no ``first`` for ``sentences``.
        offsets: see :func:`sentence_order`; for ``sentences`` only.
        context: leading targets of a row that are read, but do not count; for ``stream`` only.

    Raises:
        UserError: sizes that do not divide, too little text, no sentences, or nothing that counts.
    """
    rows = rows_per_batch(batch_tokens, seq_len)
    if context:
        if order != "stream":
            raise UserError(f"context {context} goes with order stream, not {order}")
        return Epoch(overlapping(n_targets, batch_tokens, seq_len, context), share, scored, first).plan()
    steps = steps_per_epoch(n_targets, batch_tokens)
    streams = InStreams(rows, steps * seq_len, seq_len)
    orders: dict[OrderName, Callable[[], Order]] = {
        "stream": lambda: streams,
        "shuffled": lambda: InBlocks(rows, steps, seq_len, shuffled(n_targets // seq_len, *seed_epoch)),
        "random": lambda: InRandomWindows(rows, steps, seq_len, n_targets, seed_epoch),
        "sentences": lambda: sentence_order(offsets, streams, *seed_epoch),
    }
    return Epoch(orders[order](), share, scored, first).plan()
