"""Ordering claims: does our data show the orders that the paper shows?

A claim is a published trend at one scale; :func:`repro.evidence.judge.judge_claim` decides it. Its rows must
share data, protocol, tokens and updates, unless the trend says that they vary.
"""

from dataclasses import dataclass, replace
from statistics import fmean

from repro import text
from repro.errors import UserError, nearest
from repro.evidence.compare import Comparison
from repro.evidence.entries import DERIVED, preference
from repro.evidence.header import Goal, Support
from repro.evidence.judge import Printed, judge_claim
from repro.evidence.published import Metric, Paper, Terms, Trend
from repro.evidence.rules import Margin, check_date, default_margin
from repro.evidence.selection import Sample, protocol_of
from repro.evidence.statistics import Estimate
from repro.recipe import SCALES

DECIDED = ("holds", "does not")
OPEN = ("incomplete", "not run", "no recipe", "out of reach")
BUDGET = "budget"  # in `varies`: updates and training tokens
SAME_TOKENS = 0.02  # of one budget may differ by so much: batches hold whole sentences
SAME_ITEMS = 0.005  # streams cut in another way leave out other last tokens


@dataclass(frozen=True)
class Standing:
    """Our number for one row of a claim; ``sample`` is None where no recipe supplies the row."""

    row: str
    label: str
    sample: Sample | None

    @property
    def scores(self) -> list[float]:
        """Our numbers, one for each seed."""
        return [m.value for _, m in self.sample.measured] if self.sample and self.estimate else []

    @property
    def estimate(self) -> Estimate | None:
        """Mean over seeds, or None."""
        return self.sample.estimate if self.sample else None


@dataclass(frozen=True)
class Claim:
    """One trend at one scale (None where no recipe supplies any of its rows).

    Attributes:
        verdict: ``holds``, ``does not``, ``undecided``, ``incomplete``, ``not run``, ``no recipe``, or ``out of reach``
            (rows have no record, and the published file says why).
        notes: why, and what weakens it.
        mechanism: why the task alone decides the order; then it is no evidence for the paper's claim.
        repeats: the trend that uses the same data, and counts in its place; or None.
    """

    paper: Paper
    trend: Trend
    scale: str | None
    standings: tuple[Standing, ...]
    verdict: str
    notes: tuple[str, ...]
    mechanism: str | None = None
    repeats: str | None = None

    @property
    def is_counted(self) -> bool:
        """Whether the verdict is evidence of its own."""
        return self.mechanism is None and self.repeats is None

    @property
    def data(self) -> list[str]:
        """The names of the data of the records behind it."""
        records = [record for s in self.standings if s.sample for record in s.sample.records]
        return sorted({str(record.data["name"]) for record in records if record.data.get("name")})

    @property
    def relations(self) -> list[str]:
        """What is claimed of each row and the next: ``>``, ``=`` or ``>=``."""
        printed = _printed(self.paper, self.trend)
        return [printed.relation(i, i + 1) for i in range(len(self.standings) - 1)]


def claims(comparison: Comparison) -> list[Claim]:
    """Every trend of every paper, at each scale that has recipes for its rows."""
    results = []
    for paper in comparison.papers:
        candidates = _candidates(comparison, paper)
        own = []
        for trend in paper.trends.values():
            rows = trend.order_best_first
            built = {scale: sum((trend.id, scale, row) in candidates for row in rows) for scale in SCALES}
            # One row alone shows no order; at paper scale it is listed nevertheless.
            scales = [scale for scale, n in built.items() if n >= (1 if scale == "paper" else 2)]
            own += [_claim(comparison, paper, trend, scale, candidates) for scale in scales]
            if not scales:
                standings = tuple(Standing(row, _label(paper, trend, row), None) for row in rows)
                why = trend.at.get("paper", Terms()).out_of_reach
                verdict = "out of reach" if why else "no recipe"
                own.append(Claim(paper, trend, None, standings, verdict, (why,) if why else ()))
        results += [replace(claim, repeats=_repeated(claim, own)) for claim in own]
    return results


def evidence(claims: list[Claim], paper: str, trend: str) -> Claim | None:
    """A trend at the scale that says most: with records, no mechanism check, decided, the largest; or None."""
    return min(
        (c for c in claims if (c.paper.key, c.trend.id) == (paper, trend)),
        key=lambda c: (
            c.verdict in OPEN,
            c.mechanism is not None,
            c.verdict not in DECIDED,
            SCALES.index(c.scale or "cpu"),
        ),
        default=None,
    )


def _repeated(claim: Claim, others: list[Claim]) -> str | None:
    """The trend at the same scale that judges the same numbers and more; of two with the same ones, the first."""
    own, place = _numbers(claim), next(i for i, other in enumerate(others) if other is claim)
    if not own:
        return None
    for i, other in enumerate(others):
        theirs = _numbers(other)
        if other.scale == claim.scale and (own < theirs or (own == theirs and i < place)):
            return other.trend.id
    return None


def _numbers(claim: Claim) -> set[tuple[str, ...]]:
    """The numbers that a claim judges; none where it is open."""
    if claim.verdict in OPEN:
        return set()
    goals = [s.sample.wanted for s in claim.standings if s.sample]
    return {(w.experiment, w.measured, text.mapping(w.protocol)) for w in goals}


def _candidates(comparison: Comparison, paper: Paper) -> dict[tuple[str, str, str], list[Goal | Support]]:
    """The entries for each ``(trend, scale, row)``: those of ``supports`` first, then those of ``reproduces``."""
    tables = {trend.id: (trend.table, trend.metric) for trend in paper.trends.values()}
    goals: dict[tuple[str, str, str], list[Goal | Support]] = {}
    headers = [h for h in comparison.headers.values() if h.recipe.paper == paper.key]
    for header in headers:
        for support in header.supports(tables):
            rows = paper.trends[support.trend].order_best_first
            if support.row not in rows:
                where = f"{support.experiment} at scale {support.scale}: supports {support.trend}"
                raise UserError(f"{where}: no row {support.row!r}{nearest(support.row, rows)}")
            goals.setdefault((support.trend, support.scale, support.row), []).append(support)
    for header in headers:
        for goal in header.goals:
            for trend in paper.trends.values():
                if (trend.table, trend.metric) == (goal.table, goal.metric):
                    goals.setdefault((trend.id, goal.scale, goal.row), []).append(goal)
    for trend in paper.trends.values():
        for row in trend.order_best_first:
            entry = comparison.entries.get((paper.key, trend.table, row, trend.metric))
            for cell in entry.cells if entry else ():
                if cell.goal.measured == DERIVED:
                    goals.setdefault((trend.id, cell.goal.scale, row), []).append(cell.goal)
    return goals


def _claim(
    comparison: Comparison,
    paper: Paper,
    trend: Trend,
    scale: str,
    candidates: dict[tuple[str, str, str], list[Goal | Support]],
) -> Claim:
    standings, notes = [], []
    chosen: list[Goal | Support] = []
    for row in trend.order_best_first:
        matches = candidates.get((trend.id, scale, row), [])
        first = _first(comparison, matches, paper.tables[trend.table].metrics[trend.metric].sign)
        if first:
            chosen.append(first)
            others = sorted({w.experiment for w in matches} - {first.experiment})
            notes += [f"{row}: also {', '.join(others)}"] if others else []
        sample = comparison.sample(first) if first else None
        standings.append(Standing(row, _label(paper, trend, row), sample))
        notes += [f"{row}: {note}" for note in sample.notes] if sample else []
    terms = trend.at.get(scale, Terms())
    claim = Claim(paper, trend, scale, tuple(standings), "not run", tuple(notes), terms.mechanism)
    if terms.out_of_reach and not all(s.estimate for s in standings):
        return replace(claim, verdict="out of reach", notes=(terms.out_of_reach, *notes))
    if all(s.estimate is None for s in standings):
        return claim
    metric = paper.tables[trend.table].metrics[trend.metric]
    extended = [w for w in chosen if comparison.headers[w.experiment, w.scale].recipe.extended]
    problem = (
        _unclean(standings)
        or _incomparable(standings, chosen, trend.varies)
        or _unfinished(comparison, standings, extended)
    )
    if problem and all(s.estimate for s in standings):
        return replace(claim, verdict="undecided", notes=(problem, *notes))
    unit = next(s.sample.unit for s in standings if s.sample and s.sample.unit)
    printed = replace(_printed(paper, trend), same_quantity=_same_quantity(unit, metric.unit))
    margin = terms.margin or _usual_margin(unit, metric)
    judged = [record for s in standings if s.sample for record, _ in s.sample.measured]
    for one, its_unit in ((printed.apart, metric.unit), (margin, unit)):
        check_date(one, its_unit, judged, f"{trend.id} at scale {scale}")
    verdict = judge_claim(
        [(s.row, s.scores) for s in standings], printed, margin, _sign(metric, chosen), unit, bool(extended)
    )
    why = [verdict.why + _missing_hours(standings, verdict.seeds)] if verdict.why else []
    level = ["extended: judged at 2.5 %"] if extended else []
    return replace(claim, verdict=verdict.word, notes=(*why, *level, *notes))


def _first(comparison: Comparison, matches: list[Goal | Support], sign: int) -> Goal | Support | None:
    """Of the entries for a row the first that names the claim; else the one that counts for the published number."""
    if not matches or isinstance(matches[0], Support):
        return matches[0] if matches else None
    return min(matches, key=lambda wanted: preference(comparison.sample(wanted), sign))


def _printed(paper: Paper, trend: Trend) -> Printed:
    table = paper.tables[trend.table]
    numbers = [table.rows[row].values.get(trend.metric) for row in trend.order_best_first]
    return Printed(numbers, trend.margin or table.metrics[trend.metric].rules.margin, trend.not_worse)


def _unfinished(
    comparison: Comparison, standings: list[Standing], extended: list[Goal | Support]
) -> str | None:
    """The extension of which not all declared seeds have run, or None: it is judged once."""
    for s in standings:
        if s.sample and s.estimate and s.sample.wanted in extended:
            declared = len(comparison.headers[s.sample.wanted.experiment, s.sample.wanted.scale].seeds)
            if s.estimate.n < declared:
                return f"extended, and not complete: {s.row} has {s.estimate.n} of {declared} seeds"
    return None


def _same_quantity(unit: str, other: str) -> bool:
    """Whether two units are of one kind, as perplexities per word and per byte are."""
    return unit == other or default_margin(unit) == default_margin(other) is not None


def _missing_hours(standings: list[Standing], seeds: int) -> str:
    """What so many seeds a row would still take, one run after the other, at the mean time of those that ran."""
    rows = [[record.wall_seconds for record, _ in s.sample.measured] for s in standings if s.sample]
    seconds = sum(max(0, seeds - len(row)) * fmean(row) for row in rows if row)
    return f" (about {text.duration(seconds)} more)" if seconds else ""


def _usual_margin(unit: str, metric: Metric) -> Margin | None:
    """Of numbers in a unit: the published metric's where it is the same unit, else the unit's default."""
    return metric.rules.margin if unit == metric.unit else default_margin(unit)


def _sign(metric: Metric, chosen: list[Goal | Support]) -> int:
    ways = {w.better for w in chosen if isinstance(w, Support) and w.better}
    return {"higher": 1, "lower": -1}[ways.pop()] if ways else metric.sign


def _unclean(standings: list[Standing]) -> str | None:
    names = [s.row for s in standings if s.sample and s.estimate and not s.sample.clean]
    return f"not all commits are clean: {', '.join(names)}" if names else None


def _incomparable(
    standings: list[Standing], chosen: list[Goal | Support], varies: frozenset[str]
) -> str | None:
    """The first required property in which the rows' numbers differ, or None."""
    if {"higher", "lower"} <= {w.better for w in chosen if isinstance(w, Support)}:
        return "the recipes disagree on whether higher is better"
    measured = [pair for s in standings if s.sample for pair in s.sample.measured]
    protocols = [protocol_of(m) for _, m in measured]
    keys = dict.fromkeys(key for protocol in protocols for key in protocol)
    shared = {
        key: [text.mapping({key: p[key]}) if key in p else f"no {key}" for p in protocols] for key in keys
    }
    shared |= {
        "unit": [m.unit for _, m in measured],
        "split": [m.split for _, m in measured],
        "data": [str(record.data.get("name")) for record, _ in measured],
        BUDGET: [f"{record.steps:,} updates" for record, _ in measured],
    }
    for key, values in shared.items():
        if key not in varies and len(set(values)) > 1:
            return f"the rows differ in {key}: {'; '.join(sorted(set(values))[:3])}"
    amounts = {BUDGET: ("tokens trained on", [record.tokens for record, _ in measured], SAME_TOKENS)}
    amounts["items"] = ("items scored", [m.count or 0 for _, m in measured], SAME_ITEMS)
    for key, (quantity, counts, share) in amounts.items():
        if key not in varies and counts and max(counts) - min(counts) > share * max(counts):
            return f"the rows differ in {quantity}: {min(counts):,} to {max(counts):,}"
    return None


def _label(paper: Paper, trend: Trend, row: str) -> str:
    return paper.tables[trend.table].rows[row].label
