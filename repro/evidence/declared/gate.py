"""The gate decides whether a test of a claim is fair. It is computed for every outcome alike.

``declared``
    The test was declared, as it stands, before its first judged run started.
``column``
    The measurement has the protocol of the paper's column that the test cites: the same kind of quantity, windows that
    overlap or not, and an attention as long as in training or longer.
``settled``
    In the last quarter of training the validation metric of each row moves by less than half of the gap that is judged;
    of a gap smaller than the margin: by less than half the margin. The movement is that of a fitted line, mean over
    seeds.
``room``
    No two rows that are compared lie within the margin of the same floor or ceiling, or beyond it. (One row at a bound
    makes a difference look smaller, never larger.)
``competent``
    The reference row reaches the level that a simple method or a published result sets.
``tuned``
    Each row has the best of the same values of one setting, tried on seeds that are not judged in runs that differ from
    the judged ones in nothing else, or only in a declared number of updates.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from repro.evidence import text
from repro.evidence.declared.fair_tests import FairTest, Sweep
from repro.evidence.judging.margins import Margin
from repro.evidence.judging.statistics import exceeds
from repro.evidence.published import Metric
from repro.recipe import Recipe
from repro.record import Measurement, RunRecord
from repro.yamls import Config, flatten, short

UNTRAINED = 1  # update of a run that trains nothing: a run must have one
LAST = 0.75  # of training: where the last quarter begins
# Settings of how long a run trains.
LENGTH = ("trainer.max_steps", "trainer.val_check_interval", ".schedule.steps")
END = 0.875  # the last point of a curve must lie beyond
# Metrics of which less is better.
LOWER = ("loss", "nll", "ppl", "bpb", "bpc", "bpd", "bits", "per", "failed")
LIKELIHOODS = ("perplexity", "bits", "nats", "nll", "loss")
ACCURACIES = ("percent", "%", "accuracy", "points")

Measured = Sequence[tuple[RunRecord, Measurement]]
Choice = Callable[..., float]  # min or max


@dataclass(frozen=True)
class Condition:
    """A condition of the gate.

    Attributes:
        name: name of the condition, see the module's docstring.
        met: whether it holds.
        why: the numbers behind the decision.
    """

    name: str
    met: bool
    why: str


@dataclass(frozen=True)
class GateRow:
    """A row of a test with its numbers.

    Attributes:
        name: id of the row.
        measured: one pair for each seed.
        began: when the first of its runs began, those without a record or with a withdrawn one included.
        tuning: records of its experiment and scale on seeds that are not judged.
    """

    name: str
    measured: Measured
    began: datetime
    tuning: Sequence[RunRecord] = ()

    @property
    def mean(self) -> float:
        """Mean over seeds."""
        return statistics.fmean(m.value for _, m in self.measured)


def gate(
    test: FairTest, rows: Sequence[GateRow], column: Metric, margin: Margin | None, declared: Condition
) -> list[Condition]:
    """Computes every condition; a test is fair where all are met.

    Args:
        test: the declaration.
        rows: best first, each with at least one number.
        column: the cited column.
        margin: of the measured numbers; None where none is known.
        declared: whether the test was declared before its runs.
    """
    conditions = [declared, _column(test, rows, column), _room(test, rows, margin)]
    if test.tuned == "nothing":
        updates = max(record.steps for row in rows for record, _ in row.measured)
        trained = Condition("tuned", False, f"tuned: nothing, but {updates:,} updates were made")
        return [*conditions, trained] if updates > UNTRAINED else conditions
    is_lower_better = (test.better or column.better) == "lower"
    competent = _competent(test, rows, is_lower_better)
    tuned = _tuned(test, rows, is_lower_better if test.curve_is_own else is_lower(test.settled_curve))
    return [*conditions, _settled(test, rows, margin), competent, tuned]


def _column(test: FairTest, rows: Sequence[GateRow], column: Metric) -> Condition:
    unit, problems = rows[0].measured[0][1].unit, []
    if kind_of(unit) != kind_of(column.unit) and not test.other_quantity:
        problems.append(f"{unit} is not what {column.name} measures ({column.unit})")
    for row in rows:
        record, measured = row.measured[0]
        attention = _attention(measured.protocol, record.config)
        for fact, published, own in (
            ("overlapping windows", column.overlap, _overlaps(measured.protocol)),
            ("attention beside that of training", column.attention, attention),
        ):
            if None not in (published, own) and published != own:
                words = f"{text.word(own)}, of {column.name}: {text.word(published)}"
                problems.append(f"{row.name}: {fact}: {words}")
    why = "; ".join(problems) or test.other_quantity or f"as {column.name}"
    return Condition("column", not problems, why)


def kind_of(unit: str) -> str:
    """The kind of a quantity: ``likelihood``, ``accuracy``, or the unit itself."""
    for kind, words in (("likelihood", LIKELIHOODS), ("accuracy", ACCURACIES)):
        if any(word in unit.lower() for word in words):
            return kind
    return unit


def _overlaps(protocol: Mapping[str, Any]) -> bool | None:
    stride, length = protocol.get("stride"), protocol.get("seq_len")
    return None if stride is None or length is None else stride < length


def _attention(protocol: Mapping[str, Any], config: Mapping[str, Any]) -> str | None:
    """Compares the attention of a score with training: ``trained`` (as far back), ``longer``, ``shorter``; or None."""
    trained = value_of(config, "data.seq_len")
    if trained is None or protocol.get("seq_len") is None:
        return None
    memory = value_of(config, "model.net.blocks.mixers.0.mem_len")
    reach, usual = protocol["seq_len"] + (protocol.get("mem_len") or 0), trained + (memory or 0)
    return "trained" if reach == usual else "longer" if reach > usual else "shorter"


def _room(test: FairTest, rows: Sequence[GateRow], margin: Margin | None) -> Condition:
    floor, ceiling = bounds_of(rows[0].measured[0][1].unit)
    bounds = (floor if test.floor is None else test.floor, ceiling if test.ceiling is None else test.ceiling)
    named = [(row.name, row.mean) for row in rows]
    near = [words for pair in pairwise(named) if (words := at_bound(pair, bounds, margin))]
    return Condition("room", not near, "; ".join(near) or "no two compared rows at a floor or ceiling")


def bounds_of(unit: str) -> tuple[float | None, float | None]:
    """The floor and the ceiling of a quantity, which no model can pass."""
    if kind_of(unit) == "likelihood":
        return (1.0 if "perplexity" in unit.lower() else 0.0), None
    return (0.0, 100.0) if kind_of(unit) == "accuracy" or "BLEU" in unit else (None, None)


def at_bound(
    rows: Sequence[tuple[str, float]], bounds: tuple[float | None, float | None], margin: Margin | None
) -> str:
    """Names the floor or ceiling within whose margin all rows (name, mean) lie, or beyond it; empty where none is."""
    for name, bound, inside in zip(("floor", "ceiling"), bounds, (1, -1), strict=True):
        if bound is not None and not any(
            exceeds(inside * (mean - bound), _size(margin, bound)) for _, mean in rows
        ):
            return f"{' and '.join(row for row, _ in rows)} at the {name} of {bound:g}"
    return ""


def _size(margin: Margin | None, reference: float) -> float:
    """Returns a margin in the unit of the numbers."""
    if margin is None:
        return 0.0
    return abs(reference) * (margin.size - 1) if margin.is_log else margin.width_at(reference)


def _settled(test: FairTest, rows: Sequence[GateRow], margin: Margin | None) -> Condition:
    curve, worst = test.settled_curve, []
    for i, row in enumerate(rows):
        moves = [movement(record.curves.get(curve, ()), record.steps) for record, _ in row.measured]
        known = [move for move in moves if move is not None]
        if len(known) < len(moves):
            return Condition("settled", False, f"{row.name}: {curve} does not cover the last quarter")
        gaps = [abs(row.mean - other.mean) for other in (*rows[max(i - 1, 0) : i], *rows[i + 1 : i + 2])]
        limit = _allowed(test, max(min(gaps), _size(margin, row.mean)) / 2)
        move = statistics.fmean(known)
        worst.append((abs(move) / limit if limit else float("inf"), row.name, move, limit))
    _, name, move, limit = max(worst)
    words = f"{name}: {curve} moves by {text.signed(move)} in the last quarter; allowed {text.number(limit)}"
    return Condition("settled", abs(move) < limit, words)


def _allowed(test: FairTest, half: float) -> float:
    """Returns the largest allowed movement of a curve: half of the judged gap, or what the test declares."""
    if test.settled.within is None:
        return half
    return min(test.settled.within, half) if test.curve_is_own else test.settled.within


def movement(points: Sequence[Sequence[Any]], steps: int) -> float | None:
    """The change of a curve over the last quarter of training.

    It is that of a line of least squares through the points of the quarter and the one before, as single validations
    are noisy.

    Args:
        points: ``[step, value]``; values before the last quarter that are None are left out.
        steps: of the whole training.

    Returns:
        None where the curve does not cover the last quarter, or has no number there.
    """
    if any(value is None for step, value in points if step > LAST * steps):
        return None
    known = [(step, value) for step, value in points if value is not None]
    before = [point for point in known if point[0] <= LAST * steps]
    last = before[-1:] + known[len(before) :]
    if not before or last[-1][0] <= END * steps:
        return None
    slope, _ = statistics.linear_regression([step for step, _ in last], [value for _, value in last])
    return slope * (1 - LAST) * steps


def _competent(test: FairTest, rows: Sequence[GateRow], is_lower_better: bool) -> Condition:
    level = test.competent
    if level is None:
        return Condition("competent", False, "no level is declared")
    row = next(row for row in rows if row.name == level.row)
    named = [record.metric(level.measured) if level.measured else own for record, own in row.measured]
    scores = [score for score in named if score is not None]
    if not scores:
        return Condition("competent", False, f"{level.row} has no {level.measured}")
    lower = kind_of(scores[0].unit) == "likelihood" if level.measured else is_lower_better
    mean = statistics.fmean(score.value for score in scores)
    reached = mean <= level.level if lower else mean >= level.level
    words = f"{level.row} has {text.number(mean)}; {level.method}: {level.level:g}"
    return Condition("competent", reached, words)


def _tuned(test: FairTest, rows: Sequence[GateRow], is_lower_better: bool) -> Condition:
    """Whether each row has the best value of the sweep; the direction is that of the validation curve."""
    if test.tuned == "paper":
        fits, words = test.scale == "paper", "settings of the paper"
        return Condition("tuned", fits, words if fits else f"{words} at scale {test.scale}")
    if not isinstance(test.tuned, Sweep):
        return Condition("tuned", False, "no sweep is declared")
    problems = [problem for row in rows if (problem := _untuned(test, test.tuned, row, is_lower_better))]
    values = test.tuned.values
    words = f"{test.tuned.key} from {', '.join(f'{value:g}' for value in values)} for each row"
    ends = (min(values), max(values))
    edge = [row.name for row in rows if value_of(row.measured[0][0].config, test.tuned.key) in ends]
    words += f"; the best is the smallest or largest that was tried: {', '.join(edge)}" if edge else ""
    return Condition("tuned", not problems, "; ".join(problems) or words)


def _untuned(test: FairTest, sweep: Sweep, row: GateRow, is_lower_better: bool) -> str:
    """Explains why a row's value is not the best of the sweep; empty where it is.

    The first clean record of each value and seed counts, if it was there before the first judged run began.
    """
    choose: Choice = min if is_lower_better else max
    scores: dict[float, dict[int, float]] = {value: {} for value in sweep.values}
    judged, updates = row.measured[0][0], sweep.updates or row.measured[0][0].steps
    for record in sorted(row.tuning, key=lambda record: record.finished):
        value, best = value_of(record.config, sweep.key), _best(record, test.settled_curve, choose)
        declared = record.seed in sweep.seeds and value in sweep.values and record.steps == updates
        fit = record.dirty is False and datetime.fromisoformat(record.finished) <= row.began
        if declared and fit and best is not None and _fixed(record, sweep) == _fixed(judged, sweep):
            scores[value].setdefault(record.seed, best)
    missing = [f"{value:g}" for value, seeds in scores.items() if len(seeds) < len(sweep.seeds)]
    if missing:
        return f"{row.name}: no tuning run with {sweep.key} {', '.join(missing)}"
    chosen = {value_of(record.config, sweep.key) for record, _ in row.measured}
    means = {value: statistics.fmean(seeds.values()) for value, seeds in scores.items()}
    best = choose(means.values())
    tied = [value for value, mean in means.items() if mean == best]
    if len(chosen) == 1 and chosen <= {*tied}:
        return ""
    return f"{row.name}: {sweep.key} is {', '.join(sorted(map(str, chosen)))}, the best was {tied[0]:g}"


def _fixed(record: RunRecord, sweep: Sweep) -> Config:
    """Returns the flat configuration without the swept setting, and without the updates if the sweep has its own."""
    signature = Recipe(record.experiment, record.scale, record.config).signature
    free = (sweep.key, *(LENGTH if sweep.updates else ()))
    return {key: value for key, value in signature.items() if not short(key).endswith(free)}


def value_of(config: Mapping[str, Any], key: str) -> Any:
    """The value at a dotted key as users write it: ``model.schedule.peak``, without ``init_args``."""
    return next((value for name, value in flatten(dict(config)).items() if short(name) == key), None)


def is_lower(curve: str) -> bool:
    """Whether lower values of a curve are better, according to its name."""
    return curve.partition("/")[2].partition("_")[0] in LOWER


def _best(record: RunRecord, curve: str, choose: Choice) -> float | None:
    points = record.curves.get(curve, ())
    if points and points[-1][1] is None:  # it diverged: the worst
        return -choose(-math.inf, math.inf)
    values = [value for _, value in points if value is not None]
    return choose(values) if values else None
