"""Batches of a language model, built from segments of a flat array of tokens; and ragged rows as one padded array.

Token ``i + 1`` is *target* ``i``: it is predicted from the tokens up to ``i``, so N tokens have N - 1 targets and the
first token is never one. A *segment* is a table of targets, ``(rows, length)``; planning is arithmetic on their
numbers and holds no tokens (:mod:`repro.data.core.orders`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, overload

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from repro.batches import StreamBatch
from repro.data.core.draws import Int64s

Item = TypeVar("Item")
Array = np.ndarray[Any, Any]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
UNSCORED = -1


@dataclass(frozen=True)
class Segment:
    """The tokens of one batch.

    Attributes:
        targets: numbers of the targets, ``(B, T)``.
        indices: which stream, block or window each row is, ``(B,)``.
        reset_memory: the memory of these rows starts anew.
        skip: leading columns that are context only, ``(B,)``; None scores all.
        micro_batch: its number within the step.
        step_targets: scored targets of the whole global batch; None counts those of this batch.
        lengths: how many columns of each row are tokens, the others are padding, ``(B,)``; None means all.
        begins: in which rows a document begins, ``(B,)``; None means in none.
        reread: how many of the last tokens of each row the next batch reads again.
    """

    targets: Int64s
    indices: Int64s
    reset_memory: bool
    skip: Int64s | None = None
    micro_batch: int = 0
    step_targets: int | None = None
    lengths: Int64s | None = None
    begins: Bools | None = None
    reread: int = 0

    def take(self, rows: Int64s) -> "Segment":
        """Some of its rows."""
        columns = ("targets", "indices", "skip", "lengths", "begins")
        present = {name: getattr(self, name) for name in columns if getattr(self, name) is not None}
        return replace(self, **{name: column[rows] for name, column in present.items()})

    def counting(self, scored: Bools | None) -> Bools:
        """Whether each target counts, ``(B, T)``: it is no context, no padding, and one of the tokens that count.

        Args:
            scored: ``(N,)``, the tokens that count where they are targets; None is all of them.
        """
        place = np.arange(self.targets.shape[1])
        counts: Bools = np.ones(self.targets.shape, np.bool_)
        if self.skip is not None:
            counts &= place >= self.skip[:, None]
        if self.lengths is not None:
            counts &= place < self.lengths[:, None]
        if scored is not None:
            counts &= scored[np.minimum(self.targets + 1, len(scored) - 1)]  # padding may lie behind the end
        return counts


class Lazy(Sequence[Item], Generic[Item]):
    """A sequence whose items are made on access; slices are lazy too."""

    def __init__(self, make: Callable[[int], Item], span: range) -> None:
        self._make = make
        self._span = span

    def __len__(self) -> int:
        return len(self._span)

    def __iter__(self) -> Iterator[Item]:
        return map(self._make, self._span)  # that of the base class takes an item's IndexError for the end

    @overload
    def __getitem__(self, i: int) -> Item: ...
    @overload
    def __getitem__(self, i: slice) -> "Lazy[Item]": ...
    def __getitem__(self, i: int | slice) -> "Item | Lazy[Item]":
        return Lazy(self._make, self._span[i]) if isinstance(i, slice) else self._make(self._span[i])


def build_batch(tokens: Array, segment: Segment, scored: Bools | None = None) -> StreamBatch:
    """The batch of a segment.

    Args:
        tokens: ``(N,)``.
        segment: which targets.
        scored: ``(N,)``, the tokens that count where they are targets; None is all of them.
    """
    if segment.lengths is not None:  # padding may lie beyond the end
        segment = replace(segment, targets=np.minimum(segment.targets, len(tokens) - 2))
    counts = segment.counting(scored)
    targets = np.asarray(tokens[segment.targets + 1], np.int64)
    targets[~counts] = UNSCORED
    places = np.flatnonzero(counts).astype(np.int64, copy=False)
    begins = segment.begins if segment.begins is not None and segment.begins.any() else None
    return StreamBatch(
        ids=torch.from_numpy(np.asarray(tokens[segment.targets], np.int64)),
        targets=torch.from_numpy(targets),
        scored=None if len(places) == targets.size else torch.from_numpy(places),
        indices=torch.from_numpy(np.asarray(segment.indices, np.int64)),
        reset_memory=segment.reset_memory,
        micro_batch=segment.micro_batch,
        step_targets=len(places) if segment.step_targets is None else segment.step_targets,
        lengths=None if segment.lengths is None else torch.from_numpy(segment.lengths),
        begins=None if begins is None else torch.from_numpy(begins),
        reread=segment.reread,
    )


def rows_from(starts: Int64s, length: int) -> Int64s:
    return starts[:, None] + np.arange(length, dtype=np.int64)


def padded(
    rows: Sequence[Array],
    fill: float,
    dtype: DTypeLike = np.int64,
    shape: tuple[int, ...] = (),
    least: int = 0,
) -> tuple[Tensor, Tensor]:
    """Stacks rows of different lengths.

    Args:
        rows: ``(L_i, *shape)`` each.
        fill: value behind the end of a row.
        dtype: of the result.
        shape: of a value.
        least: L is at least this.

    Returns:
        ``(B, L, *shape)``, and the lengths ``(B,)`` in int64.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    width = max(least, int(lengths.max(initial=0)))
    table = np.full((len(rows), width, *shape), fill, dtype)
    if rows:
        table[np.arange(width) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(table), torch.from_numpy(lengths)


NOTHING = Segment(np.zeros((0, 1), np.int64), np.zeros(0, np.int64), reset_memory=True)
"""A batch without rows, for a rank without work."""
