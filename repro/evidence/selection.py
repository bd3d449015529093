"""Selects the records, and of these the numbers, that count for an experiment at one scale."""

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from repro.evidence import text
from repro.evidence.judging.statistics import Estimate, estimate
from repro.grouping import grouped
from repro.recipe import change_results
from repro.record import Measurement, RunRecord
from repro.seeds import TUNING

# Entries of a protocol that the run itself determines, which do not describe the measurement.
OUTCOMES = frozenset({"best", "omegas"})


@dataclass(frozen=True)
class Selection:
    """The records of one experiment at one scale, sorted by whether they count.

    Attributes:
        used: the records that count, one for each seed, by seed.
        also: records of another class of device than their seed's, which count for the numbers that it lacks.
        left_out: every other record, with its state; see :meth:`state`.
        missing: judged seeds between the first and the last recorded one that have no record.
        withdrawn: seeds of the same configuration with a withdrawn record.
    """

    used: tuple[RunRecord, ...]
    left_out: tuple[tuple[RunRecord, str], ...] = ()
    missing: tuple[int, ...] = ()
    also: tuple[RunRecord, ...] = ()
    withdrawn: tuple[int, ...] = ()

    @classmethod
    def from_records(
        cls,
        records: list[RunRecord],
        config_hash: str,
        seeds: frozenset[int],
        withdrawn: Container[str],
        settings: bool = False,
    ) -> "Selection":
        """Sorts the records of one experiment at one scale.

        Args:
            config_hash: hash of the current recipe.
            seeds: the judged seeds of the recipe.
            withdrawn: paths of withdrawn records below ``results/runs``.
            settings: whether runs with settings beside the recipe's count, too.
        """
        used: dict[int, list[RunRecord]] = {}
        left_out = []
        for record in sorted(records, key=lambda r: (r.finished, r.path)):
            state = _set_aside(record, config_hash, seeds, withdrawn)
            if state is None and not settings and change_results(record.overrides):
                state = "overridden"
            if state is None and not _adds(record, used.get(record.seed, [])):
                state = "repeated"
            if state is None:
                used.setdefault(record.seed, []).append(record)
            else:
                left_out.append((record, state))
        gone = {r.seed for r, state in left_out if state == "withdrawn" and r.config_hash == config_hash}
        present = sorted(used.keys() | gone)
        missing = [s for s in sorted(seeds - {*present}) if present and present[0] < s < present[-1]]
        by_seed = [used[seed] for seed in sorted(used)]
        also = tuple(record for records in by_seed for record in records[1:])
        first = tuple(records[0] for records in by_seed)
        return cls(first, tuple(left_out), tuple(missing), also, tuple(sorted(gone)))

    def of(self, seeds: Container[int]) -> "Selection":
        """Returns the selection with only these seeds among the records that count."""
        used, also = ([r for r in records if r.seed in seeds] for records in (self.used, self.also))
        return replace(self, used=tuple(used), also=tuple(also))

    def state(self, record: RunRecord) -> str:
        """Returns the state of a record: whether it counts, or why not.

        Returns:
            ``current``, where it counts; ``withdrawn``; ``overridden`` (settings beside the recipe's changed what was
            computed), ``superseded`` (the recipe was another), ``mixed`` (attempts had other code, packages or another
            device), ``tuning`` (its seed is not among the judged ones),
            ``repeated`` (an earlier record of its seed counts, and this one is not the first on its class of device
            that measures more).
        """
        return next((state for other, state in self.left_out if other is record), "current")

    @property
    def notes(self) -> list[str]:
        """The seeds without a record, and those with a withdrawn one."""
        notes = [f"a record was withdrawn ({_listed(self.withdrawn)})"] if self.withdrawn else []
        if not self.missing:
            return notes
        count = len(self.missing)
        few = ", ".join(map(str, self.missing[:5])) + (f" and {count - 5:,} more" if count > 5 else "")
        return [*notes, f"no record of seed{'s' if count > 1 else ''} {few}: failed or not run"]

    def other_configurations(self, measured: str) -> list[str]:
        """States the numbers of the recipe's earlier configurations, of seeds that are not for tuning."""
        old = [(r, m) for r, state in self.left_out if state == "superseded" and (m := r.metric(measured))]
        values = grouped((r.config_hash[:8], m.value) for r, m in old if r.seed < TUNING)
        means = ((name, text.number(fmean(some)), len(some)) for name, some in values.items())
        return [f"an earlier configuration, {name}, has {mean} (n = {count})" for name, mean, count in means]


def _set_aside(
    record: RunRecord, config_hash: str, seeds: frozenset[int], withdrawn: Container[str]
) -> str | None:
    """Explains why a record does not count, regardless of other records; None where it may count."""
    if record.path in withdrawn:
        return "withdrawn"
    if record.config_hash != config_hash:
        return "overridden" if record.overrides else "superseded"
    if record.mixed:
        return "mixed"
    return "tuning" if record.seed >= TUNING or record.seed not in seeds else None


def _adds(record: RunRecord, counted: list[RunRecord]) -> bool:
    """Whether a record counts beside those of its seed: the first does, or one that timed another class of device."""
    known = {m.name for other in counted for m in other.metrics}
    elsewhere = all(other.on_gpu != record.on_gpu for other in counted)
    return elsewhere and (not counted or not {m.name for m in record.metrics} <= known)


@dataclass(frozen=True)
class Sample:
    """The numbers of one requested measurement.

    Attributes:
        estimate: mean and interval over seeds, None without a number.
        measured: pairs of a record and its number.
        clean: whether all their commits are without uncommitted changes.
        unit: the unit of the numbers.
        notes: seeds without the number, protocols or commits that differ, unknown commits, curves that diverged.
    """

    estimate: Estimate | None
    measured: tuple[tuple[RunRecord, Measurement], ...]
    clean: bool
    unit: str | None
    notes: tuple[str, ...]

    @property
    def records(self) -> list[RunRecord]:
        """The records that have a number."""
        return [record for record, _ in self.measured]

    @property
    def validation(self) -> float | None:
        """The mean of the same metric on the validation split; None where a record lacks it."""
        scores = [m.validation for _, m in self.measured if m.validation is not None]
        return sum(scores) / len(scores) if scores and len(scores) == len(self.measured) else None


def sample(measured: str, selection: Selection) -> Sample:
    """Takes a measurement, by its name, from the record of each seed, or from that of another device if it lacks it."""
    pairs: list[tuple[RunRecord, Measurement]] = []
    lacking = []
    for first in selection.used:
        of_seed = [first, *(record for record in selection.also if record.seed == first.seed)]
        found = [(record, one) for record in of_seed if (one := record.metric(measured))]
        pairs += found[:1]
        lacking += [] if found else [first.seed]
    units = {m.unit for _, m in pairs}
    if len(units) > 1:
        words = f"units differ between seeds ({', '.join(sorted(units))}): not averaged"
        return Sample(None, tuple(pairs), False, None, (words,))
    records = [record for record, _ in pairs]
    apart = _apart(pairs)
    notes = [f"{_listed(lacking)}: {measured} was not measured"] if lacking else []
    return Sample(
        estimate=estimate([m.value for _, m in pairs]) if pairs and not apart else None,
        measured=tuple(pairs),
        clean=not apart and all(r.dirty is False and r.commit is not None for r in records),
        unit=units.pop() if units else None,
        notes=(*notes, *apart, *weaknesses(records)),
    )


def _listed(seeds: Sequence[int]) -> str:
    """``seed 1``, ``seeds 1, 2``."""
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def protocol_of(measurement: Measurement) -> dict[str, Any]:
    """Returns the protocol without the entries that are specific to a run."""
    return {key: value for key, value in measurement.protocol.items() if key not in OUTCOMES}


def entry_words(protocol: dict[str, Any], key: str) -> str:
    """An entry of a protocol, or that it has none, to compare protocols by."""
    return text.mapping({key: protocol[key]}) if key in protocol else f"no {key}"


def _apart(pairs: list[tuple[RunRecord, Measurement]]) -> list[str]:
    """Lists differences between the protocols of the seeds, such as BLEU signatures: such numbers have no mean."""
    protocols = [(record.seed, protocol_of(m)) for record, m in pairs]
    notes = []
    for key in sorted({key for _, protocol in protocols for key in protocol}):
        entries = [(entry_words(protocol, key), seed) for seed, protocol in protocols]
        if words := text.by_value(entries, _listed):
            notes.append(f"protocols differ between seeds: {words}: not averaged")
    return notes


def weaknesses(records: Collection[RunRecord]) -> list[str]:
    """Lists different commits, devices, threads or data, unknown commits and curves that are not finite."""
    commits = sorted({r.commit[:8] for r in records if r.commit is not None})
    devices = sorted({str(r.hardware.get("device")) for r in records})
    threads = sorted({str(r.hardware["threads"]) for r in records if not r.on_gpu})
    data = sorted({str(r.data.get("manifest_sha256"))[:8] for r in records})
    differing = {"commits": commits, "devices": devices, "threads": threads, "data": data}
    faults = {
        "uncommitted changes": [r.seed for r in records if r.dirty],
        "commit unknown": [r.seed for r in records if r.commit is None or r.dirty is None],
        "a curve that is not finite": [r.seed for r in records if r.diverged],
    }
    notes = [f"mixed {what} ({', '.join(values)})" for what, values in differing.items() if len(values) > 1]
    return notes + [f"{words} ({_listed(seeds)})" for words, seeds in faults.items() if seeds]
