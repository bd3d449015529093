"""The rules by which a number or a claim is judged, explained in ``docs/results.md``.

A *number* is a mean over seeds beside one published number. A *claim* is an order of rows. Neither rule uses records,
recipes or files.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from repro.evidence.judging.margins import Margin
from repro.evidence.judging.statistics import (
    Difference,
    Estimate,
    clopper_pearson,
    estimate,
    exceeds,
    fisher,
    holm,
    satterthwaite,
    welch,
)  # fmt: skip
from repro.evidence.published import Metric, Rules
from repro.seeds import show_ranges

LEVEL = 0.05
EXTENDED_LEVEL = 0.025  # of a result that was undecided and then extended to more seeds
# How many of a number's declared seeds are judged, and at which error: the first three; if these leave it open, five.
LOOKS = ((3, LEVEL), (5, EXTENDED_LEVEL))
SEEDS = 3  # of each row of a claim, at least
RATE_SEEDS = 5  # the fewest of a 0/1 outcome, in a claim
RATE = "0/1"  # the unit of outcomes that are 0 or 1
MORE = (4, 5, 6, 8, 10, 15, 20, 30, 50, 100)  # numbers of seeds that are tried out on an undecided result


@dataclass(frozen=True)
class Verdict:
    """The verdict, with a reason where it is not obvious.

    Attributes:
        seeds: of an undecided claim: how many of each row would decide it; 0 where that is not known.
    """

    word: str
    why: str = ""
    seeds: int = 0


def judge_number(
    scores: Mapping[int, float],
    published: float,
    rules: Rules,
    metric: Metric,
    updates: int,
    seeds: Sequence[int],
    level: float,
) -> Verdict:
    """The verdict of a number at the paper's scale by one of :data:`LOOKS`.

    Args:
        scores: of each of the seeds that has a number, at least one.
        published: the paper's number.
        rules: what is declared beside it.
        metric: its column; the unit ``0/1`` marks outcomes.
        updates: of our training.
        seeds: the judged ones; while one has no number, the verdict is ``open``.
        level: error of the look.
    """
    margin = rules.margin
    if margin is None or rules.kind in ("timed", "derived"):
        return Verdict("timed" if rules.kind in ("timed", "ratio") else "derived")
    if rules.kind == "computed":
        return Verdict("differs" if _beyond(scores.values(), published, margin) else "agrees")
    if _is_short(scores.values(), rules, metric.sign, updates):
        return Verdict("short budget", f"{updates:,} of {rules.updates:,} updates")
    if missing := [seed for seed in seeds if seed not in scores]:
        return Verdict("open", f"no number of seed {show_ranges(missing)}")
    if len(seeds) < SEEDS:
        return Verdict("open", f"{len(seeds)} of {SEEDS} seeds are declared")
    ours = estimate([margin.scaled(score) for score in scores.values()])
    if _at_chance(ours, published, rules, margin, metric.sign):
        return Verdict("at chance")
    word = _compare(ours, published, rules, margin, metric.unit, level)
    return Verdict(word, _undecided(ours, published, rules, margin, metric.unit) if word == "open" else "")


def _beyond(scores: Iterable[float], published: float, margin: Margin) -> bool:
    gaps = (abs(margin.scaled(score) - margin.scaled(published)) for score in scores)
    return any(exceeds(gap, margin.width_at(published)) for gap in gaps)


def _is_short(scores: Iterable[float], rules: Rules, sign: int, updates: int) -> bool:
    """Fewer updates than the paper's, and some seed below the ceiling."""
    if rules.updates is None or updates >= rules.updates:
        return False
    return rules.ceiling is None or any(score * sign < rules.ceiling * sign for score in scores)


def _at_chance(ours: Estimate, published: float, rules: Rules, margin: Margin, sign: int) -> bool:
    """Neither the published number nor any of our interval is better than chance by more than twice the margin."""
    if rules.chance is None or ours.low is None or ours.high is None:
        return False
    level, near = margin.scaled(rules.chance), 2 * margin.width_at(rules.chance)
    ends = (margin.scaled(published), ours.low, ours.high)
    return not any(exceeds(sign * (end - level), near) for end in ends)


def _compare(ours: Estimate, published: float, rules: Rules, margin: Margin, unit: str, level: float) -> str:
    """``reproduced``, ``higher``, ``lower`` or ``open``."""
    size = margin.width_at(published)
    if unit == RATE:
        inner = _rate_interval(ours, published, rules, 1 - 2 * level)
        outer = _rate_interval(ours, published, rules, 1 - level)
    else:
        gap = difference(ours, margin.scaled(published), rules)
        inner, outer = gap.interval(1 - 2 * level), gap.interval(1 - level)
    if exceeds(inner[0], -size) and exceeds(size, inner[1]):
        return "reproduced"
    if exceeds(outer[0], size) or exceeds(-size, outer[1]):
        return "higher" if outer[0] + outer[1] > 0 else "lower"
    return "open"


def difference(ours: Estimate, published: float, rules: Rules) -> Difference:
    """Subtracts the published number from ours. Without a printed spread it counts as one more run like ours."""
    assert ours.variance is not None
    gap = ours.mean - published
    sampled = _sampling_variance(published, rules)
    if rules.noise is None:
        return satterthwaite(gap, [(ours.variance * (1 + 1 / ours.n), ours.n - 1), (sampled, math.inf)])
    theirs = rules.noise.sd**2 / rules.noise.runs
    parts = [(ours.variance / ours.n, ours.n - 1), (theirs, rules.noise.runs - 1), (sampled, math.inf)]
    return satterthwaite(gap, parts)


def _sampling_variance(published: float, rules: Rules) -> float:
    """The binomial variance of a percentage that was scored on another random sample than ours, in points²."""
    if rules.sampled is None:
        return 0.0
    share = min(max(published / 100, 0.0), 1.0)
    return share * (1 - share) / rules.sampled * 100**2


def _rate_interval(ours: Estimate, published: float, rules: Rules, confidence: float) -> tuple[float, float]:
    """Interval of the difference of two rates, each with an exact one at half the error; the paper's is one run."""
    runs = rules.noise.runs if rules.noise else 1
    level = (1 + confidence) / 2
    low, high = clopper_pearson(round(ours.mean * ours.n), ours.n, level)
    their_low, their_high = clopper_pearson(round(published * runs), runs, level)
    return low - their_high, high - their_low


def _undecided(ours: Estimate, published: float, rules: Rules, margin: Margin, unit: str) -> str:
    """States whether the last look would decide, at the same mean and spread, and why no number of seeds would."""

    def decides(n: int) -> bool:
        more = Estimate(ours.mean, n, None, None, ours.variance)
        return _compare(more, published, rules, margin, unit, EXTENDED_LEVEL) != "open"

    last, _ = LOOKS[-1]
    word = "do not" if ours.n >= last else "would" if decides(last) else "would not"
    is_one_run = not (rules.noise or unit == RATE or decides(MORE[-1]))
    why = ": the published number is itself one run of this spread" if is_one_run else " at this spread"
    return f"{last} seeds {word} decide{why}"


@dataclass(frozen=True)
class PublishedRows:
    """The printed numbers of a claim's rows.

    Attributes:
        numbers: of the rows, best first; None where it prints none.
        apart: closer numbers than this are a tie; None: no two are.
        not_worse: whether the claim is only that no row is worse than the next, by more than our margin.
        same_quantity: whether ours are numbers of the same kind, so that differences can be compared in proportion.
    """

    numbers: Sequence[float | None]
    apart: Margin | None
    not_worse: bool = False
    same_quantity: bool = True

    def relation(self, i: int, j: int) -> str:
        """The claimed relation of two rows: ``>=``, or ``=`` where they are printed within the margin, else ``>``."""
        first, second = self.numbers[i], self.numbers[j]
        if self.not_worse:
            return ">="
        if first is None or second is None or self.apart is None:
            return ">"
        gap = abs(self.apart.scaled(first) - self.apart.scaled(second))
        return ">" if exceeds(gap, self.apart.width_at(first)) else "="

    def effect(self, i: int, j: int, ours: Estimate, margin: Margin | None) -> float:
        """Returns the difference of ours if proportional to the printed one; the margin where that is unknown."""
        first, second = self.numbers[i] or 0.0, self.numbers[j] or 0.0
        if not self.same_quantity or not first or not second:
            return margin.width_at(ours.mean) if margin else 0.0
        if margin and margin.is_log:
            return abs(math.log(abs(second / first)))
        return abs((second - first) / first * ours.mean)


@dataclass(frozen=True)
class Pair:
    """Two rows of a claim.

    Attributes:
        names: the row that the paper ranks higher, then the other.
        ahead: by how much the first is better.
        relation: the claimed one, see :meth:`PublishedRows.relation`.
        margin: within which ours count as equal; 0 where none is declared.
        effect: the paper's difference in proportion, on the scale of ours; 0 where none is known.
        is_step: whether the paper ranks the two rows next to each other.
    """

    names: tuple[str, str]
    ahead: "Ahead"
    relation: str
    margin: float
    effect: float
    is_step: bool

    def is_shown(self, level: float) -> bool:
        """Whether the order, the tie, or that the first is not worse, is shown."""
        if self.relation == "=":
            return self.ahead.p_within(self.margin) <= level
        return self.ahead.p_above(-self.margin if self.relation == ">=" else 0.0) <= level

    def power(self, level: float) -> float | None:
        """Returns the power: the chance that as many seeds show a difference like the paper's, or true equality.

        None where it is unknown: for outcomes, and if neither the paper's number nor a margin gives its size.
        """
        size = self.effect if self.relation == ">" else self.margin
        if isinstance(self.ahead, RateAhead) or not size:
            return None
        power = self.ahead.power_within if self.relation == "=" else self.ahead.power_above
        return power(size, level)

    @property
    def contradictions(self) -> list[tuple[float, str]]:
        """p-values of what would contradict the paper, with what each would show."""
        a, b = self.names
        if self.relation == ">":
            reversed_ = (self.ahead.p_below(0.0), f"{b} is ahead of {a}")
            equal = (self.ahead.p_within(self.margin), f"{a} and {b} are equal")
            return [reversed_, equal] if self.margin else [reversed_]
        if not self.margin:
            return []
        ahead = (self.ahead.p_above(self.margin), f"{a} is ahead of {b} by more than the margin")
        behind = (self.ahead.p_below(-self.margin), f"{b} is ahead of {a} by more than the margin")
        return [behind] if self.relation == ">=" else [ahead, behind]


@dataclass(frozen=True)
class RateAhead:
    """The rate ``a`` of ``n_a`` less that of ``b``, by Fisher's exact test; only which is higher can be shown."""

    a: int
    n_a: int
    b: int
    n_b: int

    def p_above(self, bound: float) -> float:
        return 1.0 if bound else fisher(self.a, self.n_a, self.b, self.n_b)

    def p_below(self, bound: float) -> float:
        return RateAhead(self.b, self.n_b, self.a, self.n_a).p_above(-bound)

    def p_within(self, margin: float) -> float:
        return 1.0


Ahead = Difference | RateAhead


def judge_claim(
    rows: Sequence[tuple[str, Sequence[float]]],
    printed: PublishedRows,
    margin: Margin | None,
    sign: int,
    unit: str,
    extended: bool = False,
) -> Verdict:
    """The verdict of an order of rows, best first as the paper prints them.

    Args:
        rows: name and scores over seeds of each.
        printed: what the paper prints of them.
        margin: of our scores; None where none is declared, and then nothing is shown to be equal.
        sign: +1 where higher is better, -1 where lower is.
        unit: of our scores; ``0/1`` marks outcomes.
        extended: whether the seeds of some row are those of a second, larger try.
    """
    needed = RATE_SEEDS if unit == RATE else SEEDS
    few = [f"{name}: {len(scores)} of {needed} seeds" for name, scores in rows if len(scores) < needed]
    if few:
        return Verdict("no clear order", "; ".join(few), needed)
    scale = margin.scaled if margin else float
    bests = [estimate([scale(score) for score in scores]) for _, scores in rows]
    level = EXTENDED_LEVEL if extended else LEVEL

    def pairs_of(estimates: list[Estimate]) -> list[Pair]:
        """Every two rows, in the order of the paper."""
        return [
            Pair(
                (rows[i][0], rows[j][0]),
                _ahead(estimates[i], estimates[j], sign, unit),
                printed.relation(i, j),
                margin.width_at(estimates[i].mean) if margin else 0.0,
                printed.effect(i, j, estimates[i], margin),
                is_step=j == i + 1,
            )
            for i, j in itertools.combinations(range(len(rows)), 2)
        ]

    pairs = pairs_of(bests)
    if verdict := _decided(pairs, level):
        return verdict
    why = "not shown: " + ", ".join(_comparison(pair, level) for pair in _not_shown(pairs, level))
    if unit == RATE:
        return Verdict("no clear order", why)
    for n in (n for n in MORE if n > min(best.n for best in bests)):
        more = [Estimate(best.mean, max(n, best.n), None, None, best.variance) for best in bests]
        if _decided(pairs_of(more), EXTENDED_LEVEL):
            return Verdict("no clear order", f"{why}; {n} seeds a row would decide at this spread", n)
    return Verdict("no clear order", f"{why}; {MORE[-1]} seeds a row would not decide at this spread")


def _decided(pairs: list[Pair], level: float) -> Verdict | None:
    """``same order`` or ``other order``; None where neither is shown."""
    if not _not_shown(pairs, level):
        return Verdict("same order")
    against = [contradiction for pair in pairs for contradiction in pair.contradictions]
    if holm([p for p, _ in against], level):
        return Verdict("other order", min(against)[1])
    return None


def _not_shown(pairs: list[Pair], level: float) -> list[Pair]:
    return [pair for pair in pairs if pair.is_step and not pair.is_shown(level)]


def _comparison(pair: Pair, level: float) -> str:
    power = pair.power(level)
    known = "" if power is None else f" (power {_percent(power)})"
    return f"{pair.names[0]} {pair.relation} {pair.names[1]}{known}"


def _percent(share: float) -> str:
    return "above 99 %" if share > 0.99 else "below 1 %" if share < 0.01 else f"{100 * share:.0f} %"


def _ahead(a: Estimate, b: Estimate, sign: int, unit: str) -> Ahead:
    if unit == RATE:
        better, worse = (a, b) if sign > 0 else (b, a)
        return RateAhead(round(better.mean * better.n), better.n, round(worse.mean * worse.n), worse.n)
    gap = welch(a, b)
    assert gap is not None
    return Difference(gap.value * sign, gap.error, gap.freedom)
