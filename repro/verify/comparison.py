"""Compares two records of one command."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from repro.evidence.selection import protocol_of
from repro.evidence.verified import BIT_EQUAL, DIFFERS, EQUAL_METRICS
from repro.recipe import flatten
from repro.record import Measurement, RunRecord

# Words of a unit that measures the machine: "bytes per token", but not "bits per byte".
_MACHINE = {"s", "ms", "second", "seconds", "milliseconds", "microseconds", "bytes", "MiB", "GiB"}


@dataclass(frozen=True)
class RerunComparison:
    """The result of comparing a record with its verification.

    Attributes:
        outcome: one of :data:`repro.evidence.verified.OUTCOMES`.
        compared: how many numbers were compared; those that measure the machine are not.
        differences: what had to be equal and is not, ``name old → new``.
        build: in what versions, hardware, precision and data differ.
    """

    outcome: str
    compared: int = 0
    differences: list[str] = field(default_factory=list)
    build: list[str] = field(default_factory=list)


def compare(old: RunRecord, new: RunRecord) -> RerunComparison:
    """Compares a record with what the same command gave again."""
    before, after = _numbers(old), _numbers(new)
    differences = _changes(before, after)
    weights = old.checkpoint_sha256 is not None and old.checkpoint_sha256 == new.checkpoint_sha256
    outcome = DIFFERS if differences else BIT_EQUAL if weights else EQUAL_METRICS
    return RerunComparison(outcome, len(comparable(old)), differences, _changes(_build(old), _build(new)))


def measures_the_machine(measurement: Measurement) -> bool:
    """Whether a number is a time, a rate, an amount of memory, or follows from one, so that it differs in every run."""
    words, machine = measurement.unit, _MACHINE
    if measurement.name.startswith("cost/"):  # exponents, crossings and lengths in a memory have other units
        words = " ".join((words, measurement.name.replace("_", " "), *measurement.protocol))
        machine = machine | {"time", "memory"}
    return bool(machine & set(re.findall(r"[A-Za-z]+", words)))


def comparable(record: RunRecord) -> list[Measurement]:
    """The numbers that the same command must give again."""
    return [one for one in record.metrics if not measures_the_machine(one)]


def _numbers(record: RunRecord) -> dict[str, Any]:
    """Returns the numbers to compare by name; a measurement's name includes split and protocol."""
    facts = {key: getattr(record, key) for key in ("config_hash", "parameters", "steps", "tokens")}
    for one in comparable(record):
        facts[f"{one.name} ({one.split}) {json.dumps(protocol_of(one), sort_keys=True)}"] = one.value
    return facts


def _build(record: RunRecord) -> dict[str, Any]:
    return {
        **record.versions,
        **flatten(record.hardware),
        "precision": record.precision,
        "data": record.data.get("manifest_sha256"),
        "started from": (record.start_from or {}).get("checkpoint_sha256"),
    }


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    pairs = [(key, old.get(key, "none"), new.get(key, "none")) for key in old | new]
    return [f"{key} {a} → {b}" for key, a, b in pairs if a != b]
