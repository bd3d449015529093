"""Tests of a cheaper arithmetic against the recipe's own: declared pairs of runs that differ in nothing else.

A pair is the same seed in both arithmetics. With the margin of the measurement, verdicts are

``equal``
    The mean difference is at most a tenth of the margin, and it lies within the margin by two one-sided tests at 5 %,
    as where a number counts as reproduced.
``apart``
    The 95 % interval of the mean difference lies wholly outside a tenth of the margin.
``open``
    Neither: the seeds are too few for their spread.

``planned``, ``not run``, ``incomplete`` and ``not a fair test`` are as with tests of claims.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from repro.errors import UserError
from repro.evidence.compare import Comparison
from repro.evidence.declared.fair_tests import EqualityTest
from repro.evidence.declared.gate import at_bound, bounds_of
from repro.evidence.judging.margins import Margin, default_margin
from repro.evidence.judging.statistics import Difference, estimate, exceeds, satterthwaite
from repro.evidence.selection import Sample, Selection, protocol_of, sample
from repro.recipe import Overrides, experiments, load_recipe
from repro.record import Measurement, RunRecord

# Facts of a run and its number in which both sides are alike.
ALIKE: Mapping[str, Callable[[RunRecord, Measurement], object]] = {
    "data": lambda record, _: record.data,
    "device": lambda record, _: record.hardware.get("device"),
    "torch": lambda record, _: record.versions.get("torch"),
    "code": lambda record, _: record.code_sha256,
    "updates": lambda record, _: record.steps,
    "what is measured": lambda _, measured: (measured.split, measured.count, protocol_of(measured)),
}
PART = 10  # of the margin, within which equal numbers lie
LEVEL = 0.05


@dataclass(frozen=True)
class Equality:
    """A declared pair of arithmetics with its outcome.

    Attributes:
        own, other: numbers in the recipe's arithmetic and in the other one.
        difference: mean over seeds of the other less the own; of logarithms where the margin is a factor.
    """

    paper: str
    test: EqualityTest
    own: Sample
    other: Sample
    verdict: str
    why: str = ""
    margin: Margin | None = None
    difference: Difference | None = None


def equalities(comparison: Comparison, paper: str, tests: Sequence[EqualityTest]) -> list[Equality]:
    """The outcome of each declared pair of a paper, without those whose recipe is not here, as in a user's project."""
    known = experiments()
    return [_outcome(comparison, paper, test) for test in tests if test.run in known]


def hashes(test: EqualityTest) -> tuple[str, ...]:
    """The hashes of the two configurations, the recipe's own first.

    Raises:
        UserError: no such recipe, a setting that does not fit it, or a cheaper arithmetic that is its own.
    """
    own: Overrides = list(test.settings.items())
    both = [
        load_recipe(test.run, test.scale, [*own, *more]).config_hash for more in ((), test.cheaper.items())
    ]
    if both[0] == both[1]:
        raise UserError(
            f"{test.name}: {test.cheaper} is the recipe's own arithmetic; name a cheaper one, or give the "
            "recipe's former arithmetic in `settings`"
        )
    return tuple(both)


def digest(test: EqualityTest) -> str:
    """SHA-256 of all that a declaration fixes: the text and both configurations, in which the settings are."""
    fixed = test.model_dump(mode="json", exclude={"settings"})
    fixed |= {"margin": str(test.margin), "configs": hashes(test)}
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def _outcome(comparison: Comparison, paper: str, test: EqualityTest) -> Equality:
    group, seeds = comparison.grouped[test.run, test.scale], frozenset(test.seeds)
    own, other = (
        sample(
            test.measured, Selection.from_records(group, config, seeds, comparison.withdrawn, settings=True)
        )
        for config in hashes(test)
    )
    result = Equality(paper, test, own, other, "not run" if test.declared else "planned")
    records = [*own.records, *other.records]
    if not records:
        return result
    margin = test.margin or default_margin(own.unit or other.unit or "")
    result = replace(result, margin=margin)
    scores = [{record.seed: m.value for record, m in one.measured} for one in (own, other)]
    missing = [f"{len(one)} of {len(test.seeds)} seeds" for one in scores if len(one) < len(test.seeds)]
    if missing:
        return replace(result, verdict="incomplete", why=" and ".join(missing))
    time = comparison.declared.get((f"tests/{paper}/{test.name}", digest(test)))
    runs = (f"{test.run}/{test.scale}/s{seed}-{config[:8]}" for config in hashes(test) for seed in seeds)
    problems = ["no margin is known"] if margin is None else []
    if time is None or time > comparison.first_beginning(runs):
        problems.append("not declared before its first run")
    if seeds & set(load_recipe(test.run, test.scale).seeds):
        problems.append("the recipe judges some of its seeds")
    problems += [] if own.clean and other.clean else ["not all commits are clean"]
    both = list(zip(own.measured, other.measured, strict=True))
    problems += [
        f"runs of one seed differ in {w}" for w, of in ALIKE.items() if any(of(*a) != of(*b) for a, b in both)
    ]
    means = [
        (name, one.estimate.mean)
        for name, one in (("the recipe", own), ("the cheaper run", other))
        if one.estimate
    ]
    if stuck := at_bound(means, bounds_of(own.unit or ""), margin):
        problems.append(stuck)
    if problems or margin is None:
        return replace(result, verdict="not a fair test", why="; ".join(problems))
    pairs = [margin.scaled(scores[1][seed]) - margin.scaled(scores[0][seed]) for seed in test.seeds]
    found = estimate(pairs)
    gap = satterthwaite(found.mean, [((found.variance or 0.0) / found.n, found.n - 1)])
    width = margin.width_at(own.estimate.mean if own.estimate else 0.0)
    return replace(result, verdict=_verdict(gap, width), difference=gap)


def _verdict(gap: Difference, width: float) -> str:
    if not exceeds(abs(gap.value), width / PART) and gap.p_within(width) <= LEVEL:
        return "equal"
    low, high = gap.interval(0.95)
    return "apart" if low > width / PART or high < -width / PART else "open"
