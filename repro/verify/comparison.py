"""Compares two records of one command: which numbers differ, and by more than seeds do?"""

import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from repro.recipe import flatten
from repro.record import Measurement, RunRecord
from repro.verify.kept import BIT_EQUAL, DIFFERS, EQUAL_METRICS, FAILED, WITHIN_SPREAD

LEVEL = 0.975  # two-sided 95 %
NAMED = 3  # deviations in the kept line
# Words of a unit that measures the machine: "bytes per token", but not "bits per byte".
_MACHINE = {"s", "ms", "second", "seconds", "milliseconds", "microseconds", "bytes", "MiB", "GiB"}
_MACHINE_COST = {*_MACHINE, "time", "memory"}
_EXACT = ("config_hash", "parameters", "steps", "tokens")

Key = tuple[str, str, str]
ProtocolOf = Callable[[Measurement], dict[str, Any]]


@dataclass(frozen=True)
class Deviation:
    """A number that is not equal.

    Attributes:
        old: in the record; None where it has no such number.
        new: of the verification; None where it has no such number.
        allowed: largest absolute difference that the spread over seeds allows; None where the spread is unknown.
    """

    metric: str
    split: str
    protocol: dict[str, Any]
    old: float | None
    new: float | None
    allowed: float | None

    @property
    def excess(self) -> tuple[float, float]:
        """For sorting: the difference in units of what is allowed, then relative to the old value."""
        if self.old is None or self.new is None:
            return math.inf, math.inf
        gap = abs(self.new - self.old)
        return gap / self.allowed if self.allowed else math.inf, gap / abs(self.old) if self.old else math.inf

    @property
    def within(self) -> bool:
        return self.excess[0] <= 1

    def __str__(self) -> str:
        old, new = ("none" if value is None else f"{value:.10g}" for value in (self.old, self.new))
        allowed = "unknown" if self.allowed is None else f"{self.allowed:.3g}"
        return f"{self.metric} ({self.split}): {old} → {new}, allowed ± {allowed}"


@dataclass(frozen=True)
class Comparison:
    """The result of comparing a record with its verification.

    Attributes:
        outcome: one of :data:`repro.verify.kept.WORDS`.
        compared: how many numbers were compared.
        left_out: how many were not, because they measure the machine.
        facts: what had to be the same and is not: recipe, parameters, steps, tokens.
        deviations: numbers that differ, the largest first.
        build: in what versions, hardware and precision differ; None where the run failed.
        notes: other circumstances that differ.
        failure: why there is nothing to compare, or empty.
    """

    outcome: str
    compared: int = 0
    left_out: int = 0
    facts: list[str] = field(default_factory=list)
    deviations: list[Deviation] = field(default_factory=list)
    build: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    failure: str = ""

    @property
    def same_build(self) -> bool | None:
        return None if self.build is None else not self.build

    @property
    def detail(self) -> str:
        """One line for the file of outcomes."""
        if self.failure:
            return self.failure
        parts = [f"{self.compared} numbers compared", *self.facts, *map(str, self.deviations[:NAMED])]
        if len(self.deviations) > NAMED:
            parts.append(f"{len(self.deviations) - NAMED} more")
        return "; ".join([*parts, *(self.build or ()), *self.notes])


def failed(reason: str) -> Comparison:
    """The outcome of a verification whose run left no record."""
    return Comparison(FAILED, failure=reason)


def compare(
    old: RunRecord, new: RunRecord, others: Sequence[RunRecord], protocol_of: ProtocolOf
) -> Comparison:
    """Compares a record with its verification.

    Args:
        old: the record.
        new: what the same command gave.
        others: committed records of the same experiment, from which the spread over seeds is taken.
        protocol_of: a measurement's protocol without what only its run found.
    """
    before, after = _numbers(old, protocol_of), _numbers(new, protocol_of)
    spread = [_numbers(record, protocol_of) for record in _seeds(old, others)]
    deviations = []
    for key in before | after:
        a, b = before.get(key), after.get(key)
        if a is None or b is None or a.value != b.value:
            values = [numbers[key].value for numbers in spread if key in numbers]
            old_value, new_value = (m.value if m else None for m in (a, b))
            name, split, protocol = key
            deviation = Deviation(name, split, json.loads(protocol), old_value, new_value, allowance(values))
            deviations.append(deviation)
    deviations.sort(key=lambda d: d.excess, reverse=True)
    facts = _changes({key: getattr(old, key) for key in _EXACT}, {key: getattr(new, key) for key in _EXACT})
    same_weights = old.checkpoint_sha256 is not None and old.checkpoint_sha256 == new.checkpoint_sha256
    return Comparison(
        outcome=_outcome(facts, deviations, same_weights),
        compared=len(before | after),
        left_out=len(old.metrics) - len(before),
        facts=facts,
        deviations=deviations,
        build=_changes(_build(old), _build(new)),
        notes=_changes(_circumstances(old), _circumstances(new)),
    )


def _outcome(facts: list[str], deviations: list[Deviation], same_weights: bool) -> str:
    if facts or not all(deviation.within for deviation in deviations):
        return DIFFERS
    if deviations:
        return WITHIN_SPREAD
    return BIT_EQUAL if same_weights else EQUAL_METRICS


def measures_the_machine(measurement: Measurement) -> bool:
    """Whether a number is a time, a rate, an amount of memory, or follows from one, so that it differs in every run."""
    words = set(re.findall(r"[A-Za-z]+", measurement.unit))
    if measurement.name.startswith(
        "cost/"
    ):  # exponents, crossings and lengths within a memory have other units
        text = " ".join((measurement.name, *measurement.protocol))
        return bool((words | set(re.findall(r"[A-Za-z]+", text.replace("_", " ")))) & _MACHINE_COST)
    return bool(words & _MACHINE)


def allowance(values: Sequence[float]) -> float | None:
    """The most by which two runs may differ: ``t(0.975, n - 1) * s * sqrt(2)``; None where n is below 2."""
    if len(values) < 2:
        return None
    from scipy.special import stdtrit

    return float(stdtrit(len(values) - 1, LEVEL)) * statistics.stdev(values) * math.sqrt(2)


def _numbers(record: RunRecord, protocol_of: ProtocolOf) -> dict[Key, Measurement]:
    """The measurements that are compared, by name, split and protocol."""
    return {
        (m.name, m.split, json.dumps(protocol_of(m), sort_keys=True)): m
        for m in record.metrics
        if not measures_the_machine(m)
    }


def _seeds(old: RunRecord, others: Sequence[RunRecord]) -> list[RunRecord]:
    """One clean record per seed of the same experiment, scale and hash: the first, and ``old`` for its own seed."""
    first = {old.seed: old}
    for record in sorted(others, key=lambda r: r.finished):
        same = (record.experiment, record.scale, record.config_hash) == (
            old.experiment,
            old.scale,
            old.config_hash,
        )
        if same and record.dirty is False:
            first.setdefault(record.seed, record)
    return list(first.values())


def _build(record: RunRecord) -> dict[str, Any]:
    return {**record.versions, **flatten(record.hardware), "precision": record.precision}


def _circumstances(record: RunRecord) -> dict[str, Any]:
    start = record.start_from or {}
    return {
        "data manifest": record.data.get("manifest_sha256"),
        "weights it started from": start.get("checkpoint_sha256"),
        "source files": record.code_sha256,
    }


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    keys = [*old, *(key for key in new if key not in old)]
    pairs = [(key, old.get(key, "none"), new.get(key, "none")) for key in keys]
    return [f"{key} {a} → {b}" for key, a, b in pairs if a != b]
