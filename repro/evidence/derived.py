"""Numbers that are computed from the records behind another number: a quotient, a spread, a rank, a first update.

``derived: {of: table/row/metric, take: ..., reaches?, over?, per?}`` stands beside a published number. ``{row}`` in a
reference is the row's own id. ``take`` is, for the runs that ``of`` is measured on:

``score``, ``spread``, ``rank``
    The number itself; the standard deviation over the seeds; the place of its mean among the rows whose rank is
    published: 1 and the number of those that are better by more than the margin of ``of``.
``hours``, ``step_time``, ``training_speed``
    The time of training, without validation; seconds per update; tokens per second.
``speed``
    Tokens per second of the evaluation that gave the number.
``first``, ``first_hours``
    The first update, or the hours of training until it, at which the validation score is at least as good as the best
    one of the runs behind ``reaches`` (their mean); a seed that never is so has none. Test scores play no part.

``over`` divides a score by the mean of another number, and hours by the mean hours of the runs behind it. ``per``
divides by a number, or by the ``devices`` of the run. Everything is computed within one scale. What rests on the time
of runs is ``timed``: only turns within one job may be judged, and those are measured by a recipe.
"""

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from repro.evidence.judging.statistics import exceeds
from repro.evidence.published import FIRST, OVER_SEEDS, Derivation, Metric, Take
from repro.record import Measurement, RunRecord

Pair = tuple[RunRecord, Measurement]


@dataclass(frozen=True)
class Sources:
    """The measurements behind the references of a derivation, at one scale.

    Attributes:
        measured: pairs of a run and its number, one for each seed.
        metric: that of ``measured``; rows closer than its margin have one rank.
        rows: such pairs for each row whose rank is published.
        reaches: pairs of the number that ``first`` has to reach.
        over: pairs of the divisor.
    """

    measured: tuple[Pair, ...]
    metric: Metric
    rows: Sequence[tuple[Pair, ...]]
    reaches: tuple[Pair, ...]
    over: tuple[Pair, ...]


def derive(rule: Derivation, sources: Sources) -> list[tuple[RunRecord, float]]:
    """Computes the number for each seed; for a spread or a rank one number, with the first run."""
    scores = [measured.value for _, measured in sources.measured]
    if rule.take == "spread":
        return [(sources.measured[0][0], statistics.stdev(scores))] if len(scores) > 1 else []
    if rule.take == "rank":
        return [(sources.measured[0][0], _rank(sources))]
    divisor = _divisor(rule, sources)
    values = []
    for record, measured in sources.measured:
        value = _taken(rule.take, record, measured, sources)
        if value is not None and divisor is not None:
            values.append((record, value / divisor / _shared(rule, record)))
    return values


def _taken(take: Take, record: RunRecord, measured: Measurement, sources: Sources) -> float | None:
    """The number of one run before it is divided; None where the record does not give it."""
    if take == "score":
        return measured.value
    if take == "speed":
        evaluation = record.metric(re.sub(r"/[^_]+", "/tokens_per_s", measured.name))
        return evaluation.value if evaluation else None
    if take in FIRST:
        step = _first(record, measured, sources)
        return step if take == "first" or step is None else training_hours(record, step)
    hours = training_hours(record)
    if take == "hours" or not hours:
        return hours
    return hours * 3600 / record.steps if take == "step_time" else record.tokens / (hours * 3600)


def _rank(sources: Sources) -> float:
    own, margin = _mean(sources.measured), sources.metric.rules.margin
    scaled, size = (margin.scaled, margin.width_at(own)) if margin else (float, 0.0)
    gaps = [sources.metric.sign * (scaled(_mean(row)) - scaled(own)) for row in sources.rows if row]
    return 1.0 + sum(exceeds(gap, size) for gap in gaps)


def _divisor(rule: Derivation, sources: Sources) -> float | None:
    """Returns the divisor ``over``; None where it is unknown or 0."""
    if rule.over is None:
        return 1.0
    if rule.take == "score":
        return _mean(sources.over) or None
    hours = [training_hours(record) for record, _ in sources.over]
    return statistics.fmean(h for h in hours if h is not None) if None not in hours else None


def _shared(rule: Derivation, record: RunRecord) -> float:
    return float(record.hardware["count"] or 1) if rule.per == "devices" else float(rule.per or 1)


def training_hours(record: RunRecord, until: int | None = None) -> float | None:
    """Computes the hours of training up to an update from the tokens and speeds of the curve; None without them."""
    speeds = [(step, value) for step, value in record.curves.get("train/tokens_per_s", ()) if value]
    if not speeds or not record.steps:
        return None
    counted = [1 / value for step, value in speeds if until is None or step <= until] or [1 / speeds[0][1]]
    tokens = record.tokens * (1.0 if until is None else until / record.steps)
    return tokens * statistics.fmean(counted) / 3600


def _first(record: RunRecord, measured: Measurement, sources: Sources) -> int | None:
    sign, best = sources.metric.sign, max if sources.metric.sign > 0 else min
    curves = [[value for _, value in _validation(other, measured)] for other, _ in sources.reaches]
    known = [best(values) for values in curves if values]
    target = statistics.fmean(known) if known else math.inf * sign
    good = (step for step, value in _validation(record, measured) if sign * (value - target) >= 0)
    return next(good, None)


def _validation(record: RunRecord, measured: Measurement) -> list[tuple[int, float]]:
    """Returns the validation curve of a measured number."""
    curve = record.curves.get("val/" + measured.name.partition("/")[2], ())
    return [(step, value) for step, value in curve if value is not None]


def explain_missing(rule: Derivation, made: int, runs: int) -> str:
    """Explains why some runs have no value; empty where all have one."""
    if rule.take in OVER_SEEDS or made == runs:
        return "" if made else "a spread needs two runs"
    done = f"had a validation score that reaches {'/'.join(rule.reaches)}" if rule.reaches else "gave it"
    return f"{made or 'none'} of {runs} runs {done}"


def _mean(pairs: tuple[Pair, ...]) -> float:
    return statistics.fmean(measured.value for _, measured in pairs)
