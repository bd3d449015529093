"""Interpolated Kneser-Ney models with modified discounts, by sorting. NumPy only.

A row is a context, its farthest symbol first, and the symbol behind it. :func:`windows` makes the rows of a text. Rows
of other things are allowed, too, such as a pixel behind its neighbours.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Ints = np.ndarray[Any, np.dtype[Any]]
Floats = np.ndarray[Any, np.dtype[np.float64]]


class Level(NamedTuple):
    """The counts for one length of the context.

    Attributes:
        contexts: sorted keys of the contexts, made of the farthest symbol and the number of the shorter context.
        grams: sorted keys of the grams, made of the number of the context and the symbol.
        kept: the count of each gram less its discount.
        totals: the sum of the counts of each context.
        freed: the sum of the discounts of each context.
    """

    contexts: Ints
    grams: Ints
    kept: Floats
    totals: Floats
    freed: Floats


class KneserNey:
    """Probabilities of symbols behind their contexts.

    For the longest contexts grams are counted, for each shorter one the different symbols in front of a gram. The freed
    mass of a context goes to the shorter context, that of the empty context to the uniform distribution. An unknown
    context is passed over.

    Args:
        rows: ``(N, n)``, to learn from.
        size: the number of symbols; the last column is below it.
        reach: the other columns are below it; None is ``size + 1``, for :func:`windows`.

    Source: Chen and Goodman 1999, sections 3 and 4.1.6, interpolated.
    """

    def __init__(self, rows: Ints, size: int, reach: int | None = None) -> None:
        self.size, self.reach = size, reach or size + 1
        symbols = rows[:, -1].astype(np.int64)
        number = np.zeros(len(rows), np.int64)  # of the context of each row
        contexts = np.zeros(1, np.int64)
        levels: list[tuple[Ints, Ints, Ints]] = []
        gram = symbols[:0]
        for place in range(1, rows.shape[1] + 1):
            shorter = gram
            if place > 1:
                contexts, number = np.unique(self._longer(rows, place, number), return_inverse=True)
            keys = number * size + symbols
            grams, first, gram, counts = np.unique(
                keys, return_index=True, return_inverse=True, return_counts=True
            )
            if levels:
                levels[-1] = (*levels[-1][:2], np.bincount(shorter[first]))
            levels.append((contexts, grams, counts))
        self.levels = [self._level(*level) for level in levels]

    def bits(self, rows: Ints) -> Floats:
        """The information of the last column of rows ``(M, n)`` in bits, ``(M,)``."""
        symbols = rows[:, -1].astype(np.int64)
        number = np.zeros(len(rows), np.int64)
        p = np.full(len(rows), 1.0 / self.size)
        for place, level in enumerate(self.levels, 1):
            if place > 1:
                found = _find(level.contexts, self._longer(rows, place, number))
                number = np.where(number < 0, -1, found)
            gram = _find(level.grams, number * self.size + symbols)
            kept = np.where(gram < 0, 0.0, level.kept[gram])
            p = np.where(number < 0, p, (kept + level.freed[number] * p) / level.totals[number])
        return -np.log2(p)

    def _longer(self, rows: Ints, place: int, number: Ints) -> Ints:
        return number * self.reach + rows[:, -place]

    def _level(self, contexts: Ints, grams: Ints, counts: Ints) -> Level:
        discounts = discounts_of(counts)[np.minimum(counts, 3)]
        totals, freed = (
            np.bincount(grams // self.size, weights, len(contexts)) for weights in (counts, discounts)
        )
        return Level(contexts, grams, counts - discounts, totals, freed)


def discounts_of(counts: Ints) -> Floats:
    """The discounts of counts 0, 1, 2 and above; 0.5 for each where the formula gives none, as for few symbols."""
    n = np.bincount(np.minimum(counts, 5), minlength=6)[1:5].astype(np.float64)
    steps = np.arange(1, 4)
    if n.all():
        discounts = steps - (steps + 1) * n[0] / (n[0] + 2 * n[1]) * n[1:] / n[:-1]
        if (discounts > 0).all():
            return np.append(0.0, discounts)
    return np.array([0.0, 0.5, 0.5, 0.5])


def windows(tokens: Ints, n: int, pad: int) -> Ints:
    """Rows ``(N, n)`` of a text: each token behind the ``n - 1`` before it, ``pad`` in front of the first."""
    padded = np.concatenate([np.full(n - 1, pad), tokens]).astype(np.min_scalar_type(pad))
    return sliding_window_view(padded, n)


def _find(keys: Ints, wanted: Ints) -> Ints:
    """The places of wanted keys among sorted ones; -1 for a key that is not there."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)
