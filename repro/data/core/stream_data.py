"""Data of all language models: a flat array of tokens for each split, in streams, blocks, sentences or documents."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from repro.batches import Evaluation, StreamBatch, TextCut
from repro.data.core import orders
from repro.data.core.datamodule import DataModule
from repro.data.core.draws import Int64s
from repro.data.core.segments import NOTHING, Array, Bools, Lazy, Segment, build_batch
from repro.errors import UserError, at_least


@dataclass(frozen=True)
class Stage:
    """The first epochs of a training, at a length of their own.

    Source: staged training, section 4 of Press et al. 2021.

    Args:
        epochs: how many.
        seq_len: targets of a row during them.

    Raises:
        UserError: a number below 1.
    """

    epochs: int
    seq_len: int

    def __post_init__(self) -> None:
        at_least(1, epochs=self.epochs, seq_len=self.seq_len)


@dataclass
class Column:
    """Tokens of a split and which of them count. Sent to a worker process without the tokens, if these are a store's.

    Args:
        source: opens the tokens, ``(N,)``.
        scored: ``(N,)`` bool, the tokens that count where they are targets; None is all of them.
    """

    source: Callable[[], Array]
    scored: Bools | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "tokens"}

    @cached_property
    def tokens(self) -> Array:
        """The tokens, ``(N,)``."""
        return self.source()

    @property
    def n_targets(self) -> int:
        """All tokens but the first."""
        return max(0, len(self.tokens) - 1)

    def counted(self, n_targets: int) -> int:
        """Scored ones among the first ``n_targets`` targets."""
        return n_targets if self.scored is None else int(np.count_nonzero(self.scored[1 : n_targets + 1]))

    def build(self, segment: Segment) -> StreamBatch:
        """The batch of a segment."""
        return build_batch(self.tokens, segment, self.scored)


class StreamData(DataModule):
    """Batches of a flat array of tokens of any kind; the data of all language models.

    The global batch is stated in tokens: ``batch_tokens // seq_len`` rows, of which ranks and micro-batches take
    shares. Every epoch has equally many batches whatever ``seq_len`` is, so a stage changes neither the number of
    updates nor the tokens of one.

    Args:
        batch_tokens: targets of the global batch.
        seq_len: targets of a row, T, after all stages.
        order: ``stream`` (memory may be carried), ``shuffled`` (blocks), ``random`` (windows drawn with replacement),
            ``sentences``, or ``documents`` (streams whose rows stop at the end of a document, see
            :class:`repro.data.core.orders.DocumentRows`).
        stages: the first epochs, at other lengths.
        context: leading targets of every row of training that are read, but do not count. Windows then overlap, so
            that every target counts once an epoch; only with order ``stream`` and without stages.
        shards: an epoch is one of so many equal parts of the training text, in turn: where a stage is shorter than the
            whole text.
        seed: of the order of training; `repro run` sets it to the run's.
        num_workers: processes that build batches ahead.

    Raises:
        UserError: ``batch_tokens`` is no multiple of a ``seq_len``.
    """

    batch = StreamBatch
    selections = (TextCut,)

    def __init__(
        self,
        batch_tokens: int,
        seq_len: int,
        order: orders.OrderName = "stream",
        stages: list[Stage] | None = None,
        context: int = 0,
        shards: int = 1,
        seed: int = 0,
        num_workers: int = 0,
    ) -> None:
        super().__init__(seed, num_workers)
        self.batch_tokens = batch_tokens
        self.seq_len = seq_len
        self.order: orders.OrderName = order
        self.stages = list(stages or [])
        self.context = context
        if shards < 1 or (shards > 1 and order in ("sentences", "documents")):
            raise UserError(f"shards must be at least 1, and 1 with order {order}, not {shards}")
        if order == "documents" and stages:
            raise UserError("order documents does not support stages; leave stages out")
        if context and (stages or order != "stream"):
            raise UserError(
                f"context {context} needs order stream, not {order}, and no stages; leave context out"
            )
        self.shards = shards
        self._columns: dict[str, Column] = {}
        for length in self.lengths:
            orders.rows_per_batch(batch_tokens, length)

    @property
    def lengths(self) -> list[int]:
        """Targets of a row, in each stage and after all."""
        return [*(stage.seq_len for stage in self.stages), self.seq_len]

    @abstractmethod
    def tokens(self, split: str) -> Array:
        """All tokens of a split, ``(N,)``."""

    def source(self, split: str) -> Callable[[], Array]:
        """Opens the tokens of a split, in a worker process anew."""
        return partial(np.asarray, self.tokens(split))

    def scored(self, split: str) -> Bools | None:
        """The tokens of a split that count as targets, ``(N,)`` bool; None is all of them."""
        return None

    def sentences(self, split: str) -> Int64s | None:
        """First tokens of sentences (see :func:`repro.data.core.orders.InSentences`); None if not known."""
        return None

    def documents(self, split: str) -> Int64s:
        """The first token of each document of a split, and the end of the last, ``(N + 1,)``.

        Raises:
            UserError: they are not known.
        """
        raise UserError(
            f"{self.store_name} has no documents: use order stream, and protocols without documents"
        )

    def column(self, split: str) -> Column:
        """Tokens and mask of a split."""
        if split not in self._columns:
            self._columns[split] = Column(self.source(split), self.scored(split))
        return self._columns[split]

    def seq_len_of(self, epoch: int) -> int:
        """Targets of a row in an epoch."""
        for stage in self.stages:
            if epoch < stage.epochs:
                return stage.seq_len
            epoch -= stage.epochs
        return self.seq_len

    def global_batches(self, epoch: int) -> orders.Order:
        """The batches of an epoch of training, each with the rows of all ranks.

        Without a context there are ``n_targets // batch_tokens`` whatever ``seq_len`` is; what is left over is dropped.
        An epoch of random windows has as many targets as one of blocks, but not each of them once.

        Raises:
            UserError: too little text, or no sentences where they are asked for.
        """
        n_targets, seq_len, key = self._epoch_targets, self.seq_len_of(epoch), (self.seed, epoch)
        rows = orders.rows_per_batch(self.batch_tokens, seq_len)
        if self.order == "documents":
            return orders.DocumentRows(self.documents(self.train_split), seq_len, rows)
        steps = orders.steps_per_epoch(n_targets, self.batch_tokens)
        if self.context:
            return orders.overlapping(n_targets, self.batch_tokens, seq_len, self.context)
        if self.order == "shuffled":
            return orders.InBlocks(rows, steps, seq_len, n_targets // seq_len, key)
        if self.order == "random":
            return orders.InRandomWindows(rows, steps, seq_len, n_targets, key)
        if self.order == "stream":
            return orders.InStreams(rows, steps * seq_len, seq_len)
        offsets = self.sentences(self.train_split)
        if offsets is None:
            raise UserError(
                "order sentences: this text was not stored sentence by sentence; use stream or shuffled"
            )
        return orders.InSentences(rows, steps * seq_len, seq_len, offsets, key)

    @property
    def steps_per_epoch(self) -> int:
        """Updates of an epoch.

        Raises:
            UserError: the text is too short for one.
        """
        return self.global_batches(0).steps

    @property
    def _epoch_targets(self) -> int:
        return self.column(self.train_split).n_targets // self.shards

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """Tokens and targets of the splits in use, and the targets that an epoch of training leaves out."""
        counts, used = {}, self.shards * self.global_batches(0).n_targets
        for split in self.splits:
            column = self.column(split)
            dropped = column.n_targets - used if split == self.train_split else 0
            scored = column.counted(column.n_targets)
            counts[split] = {"tokens": len(column.tokens), "targets": scored, "dropped": dropped}
        return counts

    def plan_epoch(self, epoch: int) -> Lazy[Segment]:
        """The batches of one epoch for this rank, micro-batches of a step one after another.

        Raises:
            UserError: rows that the ranks cannot share, also those of another stage.
        """
        for length in (self.seq_len, *(stage.seq_len for stage in self.stages)):
            rows = orders.rows_per_batch(self.batch_tokens, length)
            self.share.check_even(rows, f"{rows} streams of {length} tokens (batch_tokens / seq_len)")
        first, scored = epoch % self.shards * self._epoch_targets, self.column(self.train_split).scored
        return orders.epoch_of_rank(self.global_batches(epoch), self.share, scored, first)

    def builder(self, split: str) -> Callable[[Segment], StreamBatch]:
        """Builds the planned batches of a split."""
        return self.column(split).build

    def plan_evaluation(self, evaluation: Evaluation) -> Sequence[Segment]:
        """This rank's batches of a split, cut according to the evaluation."""
        planned = orders.evaluation_of_rank(self._evaluated(evaluation), self.share.rank, self.share.world)
        return planned if len(planned) else [NOTHING]

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        """Scored targets over all ranks."""
        column, order = self.column(self.split(evaluation.kind)), self._evaluated(evaluation)
        if isinstance(order, orders.InRandomWindows):
            windows = map(order.segment, range(order.steps))
            return {"tokens": sum(int(window.counting(column.scored).sum()) for window in windows)}
        return {"tokens": column.counted(order.n_targets)}

    def _evaluated(self, evaluation: Evaluation) -> orders.Order:
        """The batches of an evaluation, each with the rows of all ranks; see :class:`repro.batches.TextCut`.

        With streams, the last ``n_targets % rows`` targets of the split belong to none and are not scored, as in
        Transformer-XL's code.
        """
        split, cut = self.split(evaluation.kind), evaluation.selection
        cut = cut if isinstance(cut, TextCut) else TextCut(self.seq_len)
        n_targets = self.column(split).n_targets
        if cut.tokens is not None:
            n_targets = min(n_targets, cut.tokens)
        if cut.batches is not None:
            return orders.InRandomWindows(cut.rows, cut.batches, cut.seq_len, n_targets, (self.seed,))
        if cut.documents:
            return orders.DocumentRows(self.documents(split), cut.seq_len, cut.rows).up_to(n_targets)
        if cut.stride is None:
            if n_targets < cut.rows:
                raise UserError(
                    f"{split} has {n_targets} targets, too few for an evaluation in {cut.rows} rows"
                )
            return orders.InStreams(cut.rows, n_targets // cut.rows, cut.seq_len)
        return orders.Windows(cut.rows, cut.stride, cut.seq_len, n_targets)
