"""Ordering claims: does our data show the orderings that the paper shows, whichever way it falls?

A claim is a published trend at one scale. Two rows are compared by the *advantage* of the one the paper ranks
higher, in the good direction, with its 95 % Welch interval:

* the advantage is *shown* when mean and interval lie above ``-tolerance``, where the trend's tolerance makes
  smaller differences a tie; without a tolerance they must lie above 0;
* the order is *contradicted* when mean and interval lie below ``-tolerance``.

``holds``: every adjacent pair is shown. ``does not``: some pair, adjacent or not, is contradicted.
``undecided``: all else, such as missing rows, single seeds, or a tie in the paper that is none here.
"""

import itertools
from dataclasses import dataclass

from repro.errors import UserError, nearest
from repro.recipe import SCALES
from repro.report.compare import Comparison
from repro.report.header import Goal, Support
from repro.report.intervals import Estimate, welch
from repro.report.published import Metric, Paper, Trend
from repro.report.samples import Sample


@dataclass(frozen=True)
class Standing:
    """Our number for one row of a claim; ``sample`` is None where no recipe stands for the row."""

    row: str
    label: str
    sample: Sample | None

    @property
    def estimate(self) -> Estimate | None:
        """Mean over seeds, or None."""
        return self.sample.estimate if self.sample else None


@dataclass(frozen=True)
class Claim:
    """One trend at one scale (None where no recipe stands for any of its rows)."""

    paper: Paper
    trend: Trend
    scale: str | None
    standings: tuple[Standing, ...]
    verdict: str  # holds | does not | undecided | not run | no config
    notes: tuple[str, ...]


def claims(comparison: Comparison) -> list[Claim]:
    """Every trend of every paper, at each scale that has recipes for its rows."""
    found = []
    for paper in comparison.papers:
        wanted = _wanted(comparison, paper)
        for trend in paper.trends.values():
            rows = trend.order_best_first
            built = {scale: sum((trend.id, scale, row) in wanted for row in rows) for scale in SCALES}
            # One row alone says nothing of an order; at paper scale it is listed all the same.
            scales = [scale for scale, n in built.items() if n >= (1 if scale == "paper" else 2)]
            found += [_claim(comparison, paper, trend, scale, wanted) for scale in scales]
            if not scales:
                standings = tuple(Standing(row, _label(paper, trend, row), None) for row in rows)
                found.append(Claim(paper, trend, None, standings, "no config", ()))
    return found


def _wanted(comparison: Comparison, paper: Paper) -> dict[tuple[str, str, str], list[Goal | Support]]:
    """Who stands for ``(trend, scale, row)``: entries of ``supports`` first, then those of ``reproduces``."""
    tables = {trend.id: (trend.table, trend.metric) for trend in paper.trends.values()}
    found: dict[tuple[str, str, str], list[Goal | Support]] = {}
    headers = [h for h in comparison.headers.values() if h.recipe.paper == paper.key]
    for header in headers:
        for support in header.supports(tables):
            rows = paper.trends[support.trend].order_best_first
            if support.row not in rows:
                where = f"{support.experiment} at scale {support.scale}: supports {support.trend}"
                raise UserError(f"{where}: no row {support.row!r}{nearest(support.row, rows)}")
            found.setdefault((support.trend, support.scale, support.row), []).append(support)
    for header in headers:
        for goal in header.goals:
            for trend in paper.trends.values():
                if (trend.table, trend.metric) == (goal.table, goal.metric):
                    found.setdefault((trend.id, goal.scale, goal.row), []).append(goal)
    return found


def _claim(
    comparison: Comparison,
    paper: Paper,
    trend: Trend,
    scale: str,
    wanted: dict[tuple[str, str, str], list[Goal | Support]],
) -> Claim:
    standings, notes = [], []
    chosen: list[Goal | Support] = []
    for row in trend.order_best_first:
        here = wanted.get((trend.id, scale, row), [])
        if here:
            chosen.append(here[0])
            others = sorted({w.experiment for w in here[1:]} - {here[0].experiment})
            notes += [f"{row}: also {', '.join(others)}"] if others else []
        sample = comparison.sample(here[0]) if here else None
        standings.append(Standing(row, _label(paper, trend, row), sample))
        notes += [f"{row}: {note}" for note in sample.notes] if sample else []
    if all(s.estimate is None for s in standings):
        return Claim(paper, trend, scale, tuple(standings), "not run", tuple(notes))
    metric = paper.tables[trend.table].metrics[trend.metric]
    problem = _incomparable(standings, chosen)
    if problem:
        return Claim(paper, trend, scale, tuple(standings), "undecided", (problem, *notes))
    tolerance = _tolerance(trend, chosen)
    verdict, why = _decide(standings, _sign(metric, chosen), tolerance, _ties(paper, trend, tolerance))
    return Claim(paper, trend, scale, tuple(standings), verdict, (*why, *notes))


def _decide(standings: list[Standing], sign: int, tolerance: float, ties: set[str]) -> tuple[str, list[str]]:
    have = [s for s in standings if s.estimate is not None]
    contradicted = [
        f"{b.row} beats {a.row}"
        for a, b in itertools.combinations(have, 2)
        if _below(_advantage(a, b, sign), -tolerance)
    ]
    if contradicted:
        return "does not", contradicted
    missing = [s.row for s in standings if s.estimate is None]
    why = [f"no number for {', '.join(missing)}"] if missing else []
    open_pairs = 0
    for a, b in itertools.pairwise(have):
        advantage = _advantage(a, b, sign)
        if advantage is None:
            why.append(f"{a.row}, {b.row}: one seed says nothing of the spread")
        elif not _above(advantage, -tolerance):
            open_pairs += 1
            why.append(f"{a.row}, {b.row}: the interval includes the other order")
        elif a.row in ties and advantage[0] > tolerance:
            why.append(f"{a.row}, {b.row}: a tie in the paper, further apart here")
    return ("undecided" if why else "holds"), why


def _advantage(a: Standing, b: Standing, sign: int) -> tuple[float, float, float] | None:
    """Low end, mean and high end of how much better ``a`` is than ``b``."""
    if a.estimate is None or b.estimate is None:
        return None
    interval = welch(a.estimate, b.estimate)
    if interval is None:
        return None
    low, high = sorted(end * sign for end in interval)
    return low, (a.estimate.mean - b.estimate.mean) * sign, high


def _above(advantage: tuple[float, float, float] | None, bound: float) -> bool:
    return advantage is not None and advantage[0] > bound


def _below(advantage: tuple[float, float, float] | None, bound: float) -> bool:
    return advantage is not None and advantage[2] < bound


def _ties(paper: Paper, trend: Trend, tolerance: float) -> set[str]:
    """Rows that the paper shows level with the next one: equal, or within the trend's own tolerance.

    Without a ``tolerance`` of ours nothing counts as level, and so there are none.
    """
    values = {r: row.values.get(trend.metric) for r, row in paper.tables[trend.table].rows.items()}
    found = set()
    for a, b in itertools.pairwise(trend.order_best_first):
        first, second = values[a], values[b]
        if tolerance and first is not None and second is not None and abs(first - second) <= trend.tolerance:
            found.add(a)
    return found


def _tolerance(trend: Trend, chosen: list[Goal | Support]) -> float:
    """The largest that a ``supports`` entry names, else the trend's own."""
    own = [w.tolerance for w in chosen if isinstance(w, Support) and isinstance(w.tolerance, float)]
    return max(own) if own else trend.tolerance


def _sign(metric: Metric, chosen: list[Goal | Support]) -> int:
    ways = {w.better for w in chosen if isinstance(w, Support) and w.better}
    return {"higher": 1, "lower": -1}[ways.pop()] if ways else metric.sign


def _incomparable(standings: list[Standing], chosen: list[Goal | Support]) -> str | None:
    """Why the rows' numbers cannot be compared with each other, or None."""
    units = {s.sample.unit for s in standings if s.sample and s.sample.unit}
    if len(units) > 1:
        return f"units differ: {', '.join(sorted(units))}"
    signatures = {name for s in standings if s.sample for name in _signatures(s.sample)}
    if len(signatures) > 1:
        return f"scored differently: {'; '.join(sorted(signatures))}"
    ways = {w.better for w in chosen if isinstance(w, Support)}
    if {"higher", "lower"} <= ways:
        return "the recipes disagree on whether higher is better"
    return None


def _signatures(sample: Sample) -> list[str]:
    """How the scorer signed the numbers of a row; none where it does not sign."""
    measured = (m for r in sample.records for m in r.metrics if m.name == sample.wanted.measured)
    return [str(m.protocol["signature"]) for m in measured if "signature" in m.protocol]


def _label(paper: Paper, trend: Trend, row: str) -> str:
    return paper.tables[trend.table].rows[row].label
