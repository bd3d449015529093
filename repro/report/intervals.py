"""Means with Student-t intervals, from the standard library alone."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with its 95 % t-interval.

    Attributes:
        low, high: ends of the interval; None where one run says nothing of the spread.
        variance: sample variance, 0 for a deterministic number, None where unknown.
    """

    mean: float
    n: int
    low: float | None
    high: float | None
    variance: float | None

    @property
    def half_width(self) -> float | None:
        """Half the interval's length; None where there is no interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def estimate(values: Sequence[float], deterministic: bool = False) -> Estimate:
    """Mean and 95 % t-interval of at least one value.

    Args:
        values: one number per seed.
        deterministic: the number does not depend on the seed, so that one value is its own interval.
    """
    n = len(values)
    mean = statistics.fmean(values)
    if n == 1:
        return Estimate(mean, 1, mean, mean, 0.0) if deterministic else Estimate(mean, 1, None, None, None)
    variance = statistics.variance(values)
    half = t_quantile(n - 1) * math.sqrt(variance / n)
    return Estimate(mean, n, mean - half, mean + half, variance)


def welch(a: Estimate, b: Estimate) -> tuple[float, float] | None:
    """95 % interval of ``mean(a) - mean(b)`` with unequal variances; None where a spread is unknown."""
    if a.variance is None or b.variance is None:
        return None
    difference = a.mean - b.mean
    parts = [(e.variance / e.n, e.n) for e in (a, b) if e.variance]
    total = sum(part for part, _ in parts)
    if not total:
        return difference, difference
    freedom = total**2 / sum(part**2 / (n - 1) for part, n in parts)
    half = t_quantile(freedom) * math.sqrt(total)
    return difference - half, difference + half


@cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """The two-sided Student-t quantile, by bisection of its exact distribution function.

    Args:
        freedom: degrees of freedom, > 0; Welch's need not be whole.
        confidence: probability within ±quantile.
    """
    low, high = 0.0, 1.0
    while _inside(high, freedom) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        if _inside(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _inside(t: float, freedom: float) -> float:
    """P(|T| <= t), through the regularised incomplete beta function."""
    return 1.0 - _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) by its continued fraction, on the side where that converges fast."""
    if x <= 0.0 or x >= 1.0:
        return min(max(x, 0.0), 1.0)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - math.exp(log_front) * _fraction(1.0 - x, b, a) / b
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """1 / (1 + d1 / (1 + d2 / ...)) of I_x(a, b), evaluated from its 300th term back."""
    tail = 1.0
    for i in range(300, 0, -1):
        k = i // 2
        if i % 2:
            d = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        else:
            d = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        tail = 1.0 + d / tail
    return 1.0 / tail
