"""Means, differences and rates with their uncertainty, for the verdicts of :mod:`repro.evidence.judging.judge`."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

CONFIDENCE = 0.95
DRAWS = 200  # of an estimated error, for a power


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds with its 95 % t-interval.

    Attributes:
        low, high: ends of the interval; None where a single run gives no estimate of the spread.
        variance: sample variance, None for one run.
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


@dataclass(frozen=True)
class Difference:
    """An estimated difference.

    Attributes:
        value: the estimate.
        error: its standard error; with 0 every interval is the point.
        freedom: degrees of freedom of the error; infinite where it is known.
    """

    value: float
    error: float
    freedom: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """The two-sided interval."""
        half = t_quantile(self.freedom, confidence) * self.error if self.error else 0.0
        return self.value - half, self.value + half

    def p_above(self, bound: float) -> float:
        """The p-value against "the true difference is at most ``bound``"."""
        if not self.error:
            return 0.0 if exceeds(self.value, bound) else 1.0
        t = (self.value - bound) / self.error
        return _normal(-t) if math.isinf(self.freedom) else float(_special().stdtr(self.freedom, -t))

    def p_below(self, bound: float) -> float:
        """The p-value against "the true difference is at least ``bound``"."""
        return Difference(-self.value, self.error, self.freedom).p_above(-bound)

    def p_within(self, margin: float) -> float:
        """The p-value against "the true difference is ``margin`` or more": two one-sided tests."""
        return max(self.p_above(-margin), self.p_below(margin))

    def power_above(self, effect: float, level: float) -> float:
        """About the chance that ``p_above(0)`` is at most ``level`` where the true difference is ``effect``.

        The error is taken as the true one; what it is estimated to be varies from draw to draw.
        """
        if not self.error:
            return 1.0
        return statistics.fmean(_normal(effect / self.error - bound) for bound in self._bounds(level))

    def power_within(self, margin: float, level: float) -> float:
        """About the chance that ``p_within(margin)`` is at most ``level`` where there is no true difference."""
        if not self.error:
            return 1.0
        rooms = [max(0.0, margin / self.error - bound) for bound in self._bounds(level)]
        return statistics.fmean(2 * _normal(room) - 1 for room in rooms)

    def _bounds(self, level: float) -> list[float]:
        """Returns equally likely distances beyond a bound, in true errors, that an estimate needs to show it."""
        bound = t_quantile(self.freedom, 1 - 2 * level)
        if math.isinf(self.freedom):
            return [bound]
        half, shares = self.freedom / 2, [(i + 0.5) / DRAWS for i in range(DRAWS)]
        return [bound * math.sqrt(x / half) for x in _special().gammaincinv(half, shares).tolist()]


def exceeds(value: float, bound: float) -> bool:
    """``value > bound`` by more than rounding: a difference of exactly the margin must not depend on it."""
    return value - bound > 1e-9 * max(abs(value), abs(bound))


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and 95 % t-interval of at least one value, one for each seed."""
    n = len(values)
    mean = statistics.fmean(values)
    if n == 1:
        return Estimate(mean, 1, None, None, None)
    variance = statistics.variance(values)
    half = t_quantile(n - 1) * math.sqrt(variance / n) if variance else 0.0
    return Estimate(mean, n, mean - half, mean + half, variance)


def welch(a: Estimate, b: Estimate) -> Difference | None:
    """``a - b`` with unequal variances; None where a spread is unknown."""
    if a.variance is None or b.variance is None:
        return None
    return satterthwaite(a.mean - b.mean, [(a.variance / a.n, a.n - 1), (b.variance / b.n, b.n - 1)])


def satterthwaite(value: float, parts: Iterable[tuple[float, float]]) -> Difference:
    """A difference whose variance is a sum of independent estimates.

    Args:
        value: the difference.
        parts: variance and degrees of freedom of each estimate; infinitely many where it is known.
    """
    uncertain = [(variance, freedom) for variance, freedom in parts if variance > 0]
    total = sum(variance for variance, _ in uncertain)
    spread = sum(variance**2 / freedom for variance, freedom in uncertain)
    return Difference(value, math.sqrt(total), total**2 / spread if spread else math.inf)


def clopper_pearson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """The exact interval of a rate."""
    tail, betaincinv = (1 - confidence) / 2, _special().betaincinv
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, n - successes, 1 - tail)) if successes < n else 1.0
    return low, high


def fisher(a: int, n_a: int, b: int, n_b: int) -> float:
    """The p-value of Fisher's exact test against "the rate behind ``a`` of ``n_a`` is at most that behind ``b``"."""
    total = a + b
    ways = [math.comb(n_a, k) * math.comb(n_b, total - k) for k in range(a, min(n_a, total) + 1)]
    return sum(ways) / math.comb(n_a + n_b, total)


def holm(p_values: Sequence[float], level: float) -> bool:
    """Whether any hypothesis of a family is rejected at a level; the smallest p-value decides."""
    return bool(p_values) and min(p_values) * len(p_values) <= level


@cache
def _special() -> ModuleType:
    """scipy's special functions, imported when they are first needed, since that takes half a second."""
    from scipy import special

    return special


@cache
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """The two-sided Student-t quantile; the normal one for infinitely many degrees of freedom."""
    share, special = (1 + confidence) / 2, _special()
    return float(special.ndtri(share) if math.isinf(freedom) else special.stdtrit(freedom, share))


def _normal(z: float) -> float:
    """P(Z <= z)."""
    return float(_special().ndtr(z))
