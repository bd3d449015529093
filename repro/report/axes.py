"""Axes of figures: which kind fits the values, where a value lies, which ticks are drawn."""

import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

Value = int | float | str

FEW = (
    8  # so many ticks at most on a logarithmic axis, and so many measured values may be the ticks themselves
)
TIGHT = 0.08  # ticks nearer to each other, as a part of the axis, would run into each other
WORD, PER_LETTER, MOST = (
    0.14,
    0.03,
    0.6,
)  # parts of an axis: a word's place, what a letter needs, all words at most
FACTOR_X, FACTOR_Y = 8, 30  # an axis is logarithmic where its values span more


@dataclass(frozen=True)
class Axis:
    """The range of an axis, and words at its end.

    Attributes:
        low: where it begins; a logarithm where there is a base.
        high: where its numbers end.
        base: of the logarithm, 2 or 10; 0 for an axis that has none.
        words: values that are no numbers: each has a place of its own behind the numbers.
        marked: the ticks; empty for round numbers.
    """

    low: float
    high: float
    base: int = 0
    words: tuple[str, ...] = ()
    marked: tuple[float, ...] = ()

    @property
    def word_share(self) -> float:
        """The part of the axis that each word has."""
        if not self.words:
            return 0.0
        if self.low == self.high:
            return 1.0 / len(self.words)
        longest = max(len(word) for word in self.words)
        return min(max(WORD, PER_LETTER * longest), MOST / len(self.words))

    @property
    def number_share(self) -> float:
        """The part of the axis that the numbers have."""
        return 1.0 - self.word_share * len(self.words)

    def share(self, value: Value) -> float:
        """How far along the axis a value lies, from 0 to 1."""
        if isinstance(value, str):
            return 1.0 - self.word_share * (len(self.words) - self.words.index(value) - 0.5)
        bent = math.log(value, self.base) if self.base else value
        return (bent - self.low) / (self.high - self.low) * self.number_share

    def ticks(self) -> list[tuple[float, str]]:
        """How far along the axis the ticks are, and what stands there."""
        words = [(self.share(word), word) for word in self.words]
        if self.low == self.high:
            return words
        return [(self.share(tick), self._said(tick)) for tick in self._numbers()] + words

    def _numbers(self) -> list[float]:
        if self.base:
            return log_ticks(self.low, self.high, self.base)
        return list(self.marked) or ticks(self.low, self.high)

    def _said(self, tick: float) -> str:
        if self.base == 2:
            return in_powers(tick)
        if self.base and not 1e-3 <= tick < 1e5:
            return re.sub(r"e([+-])0*", lambda found: "e" + found[1].strip("+"), f"{tick:.0e}")
        return f"{tick:,.6g}"


def linear(values: Iterable[float]) -> Axis:
    """An axis without logarithm, a little wider than the values, never empty."""
    low, high = extremes(values)
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return Axis(low if low == 0 else low - margin, high + margin)


def logarithmic(values: Iterable[float], base: int) -> Axis:
    """An axis of logarithms, a little wider than the values, which are above 0 and not all the same."""
    low, high = (math.log(value, base) for value in extremes(values))
    margin = (high - low) * 0.04
    return Axis(low - margin, high + margin, base)


def of_scores(values: Iterable[float]) -> Axis:
    """An axis of what was measured: logarithms to 10 where it is positive and spans more than a factor 30."""
    there = list(values)
    return logarithmic(there, 10) if spans(there, FACTOR_Y) else linear(there)


def of_settings(values: Iterable[Value]) -> Axis:
    """An axis of what was set: logarithms to 2 where numbers span more than a factor 8; words behind the numbers."""
    there = list(values)
    words = tuple(dict.fromkeys(value for value in there if isinstance(value, str)))
    numbers = sorted({value for value in there if not isinstance(value, str)})
    if not numbers:
        return Axis(0.0, 0.0, words=words)
    axis = logarithmic(numbers, 2) if spans(numbers, FACTOR_X) else linear(numbers)
    gaps = [b - a for a, b in itertools.pairwise(numbers)]
    readable = len(numbers) <= FEW and all(gap >= TIGHT * (axis.high - axis.low) for gap in gaps)
    return Axis(axis.low, axis.high, axis.base, words, tuple(numbers) if readable else ())


def spans(values: list[float], factor: float) -> bool:
    """Whether all values are above 0 and the largest is more than ``factor`` times the smallest."""
    low, high = extremes(values)
    return low > 0 and high > factor * low


def extremes(values: Iterable[float]) -> tuple[float, float]:
    """The smallest and the largest."""
    there = list(values)
    return min(there), max(there)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) within a range."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def log_ticks(low: float, high: float, base: int) -> list[float]:
    """Powers of the base within a range of exponents, evenly thinned; 2 and 5 times those of ten where few."""
    exponents = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
    if base == 10 and len(exponents) < 3:
        fine = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
        return [float(f"{x:.12g}") for x in fine if low - 1e-9 <= math.log10(x) <= high + 1e-9]
    every = -(-len(exponents) // FEW)
    return [float(base) ** e for e in exponents[::every]]


def in_powers(value: float) -> str:
    """``512``, ``1K`` for 1024, ``64K``, ``2M``."""
    for size, letter in ((2**30, "G"), (2**20, "M"), (2**10, "K")):
        if value >= size and value % size == 0:
            return f"{value / size:,.0f}{letter}"
    return f"{value:,.6g}"
