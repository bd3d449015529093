"""Which records count for an experiment at one scale, and which of their numbers. Nothing goes unsaid."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

from repro.record import Measurement, RunRecord
from repro.report import text
from repro.report.header import Wanted
from repro.report.intervals import Estimate, estimate

# Entries of a protocol that are found by the run itself: they say nothing of how it was measured.
OUTCOMES = frozenset({"best", "omegas"})


@dataclass(frozen=True)
class Selection:
    """The records of one experiment at one scale, sorted by whether they count.

    Attributes:
        used: one record per seed, the newest of the recipe's present configuration, by seed.
        stale: of another configuration than the recipe's.
        superseded: an older record of a seed.
        external: uploaded by others, left out because we have our own.
    """

    used: tuple[RunRecord, ...]
    stale: tuple[RunRecord, ...] = ()
    superseded: tuple[RunRecord, ...] = ()
    external: tuple[RunRecord, ...] = ()

    @classmethod
    def of(cls, records: list[RunRecord], config_hash: str) -> "Selection":
        """Sorts the records of one experiment at one scale by the hash of the recipe as it now is."""
        current = [r for r in records if r.config_hash == config_hash]
        own = [r for r in current if not r.external] or current
        newest: dict[int, RunRecord] = {}
        for record in sorted(own, key=lambda r: (r.finished, r.run_id)):
            newest[record.seed] = record
        used = tuple(newest[seed] for seed in sorted(newest))
        return cls(
            used=used,
            stale=tuple(r for r in records if r.config_hash != config_hash),
            superseded=tuple(r for r in own if not _among(r, used)),
            external=tuple(r for r in current if not _among(r, own)),
        )

    def state(self, record: RunRecord) -> str:
        """``current``, ``current, external``, ``stale``, ``superseded`` or ``external``."""
        for name in ("stale", "superseded", "external"):
            if _among(record, getattr(self, name)):
                return name
        return "current, external" if record.external else "current"

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        counts = [
            (len(self.stale), "stale record{s} left out (another configuration)"),
            (len(self.superseded), "older record{s} left out"),
            (len(self.external), "external record{s} left out"),
        ]
        left_out = [f"{n} {words.format(s='' if n == 1 else 's')}" for n, words in counts if n]
        return [*left_out, *_holes([r.seed for r in self.used])]

    @property
    def weaknesses(self) -> list[str]:
        """What was left out, and what weakens the records that count."""
        return [*self.notes, *weaknesses(self.used)]


@dataclass(frozen=True)
class Sample:
    """The numbers found for one wanted measurement.

    Attributes:
        estimate: mean and interval over seeds, None without a number.
        records: those that gave a number.
        clean: every one of them is ours and of a commit without uncommitted changes.
        unit: the unit they were measured in.
        notes: seeds without the number, other protocols, commits that differ or cannot be named, curves that diverged.
    """

    wanted: Wanted
    estimate: Estimate | None
    records: tuple[RunRecord, ...]
    clean: bool
    unit: str | None
    notes: tuple[str, ...]


def sample(wanted: Wanted, records: tuple[RunRecord, ...]) -> Sample:
    """Takes the wanted number from each record.

    At paper scale a measurement of another protocol is not used. A reduced-scale number is never compared
    with the paper, so there it is used, with a note, where it is the only one of its name.
    """
    found: list[tuple[RunRecord, Measurement]] = []
    notes = []
    for record in records:
        measurement, note = _find(wanted, record)
        if measurement is not None:
            found.append((record, measurement))
        if note:
            notes.append((note, record.seed))
    used = tuple(record for record, _ in found)
    units = {m.unit for _, m in found}
    if len(units) > 1:
        words = f"units differ between seeds ({', '.join(sorted(units))}): not averaged"
        return Sample(wanted, None, used, False, None, (words,))
    apart = _apart(found)
    if apart:
        return Sample(wanted, None, used, False, units.pop(), (*_by_seed(notes), *apart, *weaknesses(used)))
    return Sample(
        wanted=wanted,
        estimate=estimate([m.value for _, m in found], wanted.deterministic) if found else None,
        records=used,
        clean=all(r.dirty is False and r.commit is not None and not r.external for r in used),
        unit=units.pop() if units else None,
        notes=(*_by_seed(notes), *weaknesses(used)),
    )


def _find(wanted: Wanted, record: RunRecord) -> tuple[Measurement | None, str | None]:
    named = [m for m in record.metrics if m.name == wanted.measured]
    if not named:
        return None, f"{wanted.measured} was not measured"
    for measurement in named:
        if all(
            k in measurement.protocol and measurement.protocol[k] == v for k, v in wanted.protocol.items()
        ):
            return measurement, None
    there = named[0].protocol
    differing = "; ".join(
        f"{key} is {there.get(key, 'not stated')}, not {value}"
        for key, value in wanted.protocol.items()
        if there.get(key) != value or key not in there
    )
    only = named[0] if wanted.scale != "paper" and len(named) == 1 else None
    return only, f"protocol mismatch: {differing}"


def _by_seed(notes: list[tuple[str, int]]) -> list[str]:
    seeds: dict[str, list[str]] = {}
    for note, seed in notes:
        seeds.setdefault(note, []).append(str(seed))
    return [f"seed{'s' if len(s) > 1 else ''} {', '.join(s)}: {note}" for note, s in seeds.items()]


def protocol_of(measurement: Measurement) -> dict[str, Any]:
    """How it was measured: the protocol without what only this run found."""
    return {key: value for key, value in measurement.protocol.items() if key not in OUTCOMES}


def _apart(found: list[tuple[RunRecord, Measurement]]) -> list[str]:
    """In what the protocols of the seeds differ, such as the signature of a BLEU: such numbers have no mean."""
    protocols = [(record.seed, protocol_of(m)) for record, m in found]
    notes = []
    for key in sorted({key for _, protocol in protocols for key in protocol}):
        said: dict[str, list[str]] = {}
        for seed, protocol in protocols:
            value = text.mapping({key: protocol[key]}) if key in protocol else f"no {key}"
            said.setdefault(value, []).append(str(seed))
        if len(said) > 1:
            words = "; ".join(
                f"{value} (seed{'s' if len(s) > 1 else ''} {', '.join(s)})" for value, s in said.items()
            )
            notes.append(f"protocols differ between seeds: {words}: not averaged")
    return notes


def _holes(seeds: list[int]) -> list[str]:
    """Seeds between those that there are: somebody ran them, or began to, and no record came of it."""
    there = set(seeds)
    count = max(there) - min(there) + 1 - len(there) if there else 0
    if not count:
        return []
    first = islice((str(s) for s in range(min(there), max(there)) if s not in there), 5)
    few = ", ".join(first) + (f" and {count - 5:,} more" if count > 5 else "")
    return [f"no record of seed{'s' if count > 1 else ''} {few}: failed or not run"]


def weaknesses(records: tuple[RunRecord, ...]) -> list[str]:
    """Commits that differ or cannot be named, records of others, curves that are not finite."""
    commits = sorted({r.commit[:8] for r in records if r.commit is not None})
    notes = [f"mixed commits ({', '.join(commits)})"] if len(commits) > 1 else []
    for words, seeds in (
        ("uncommitted changes", [r.seed for r in records if r.dirty]),
        ("commit unknown", [r.seed for r in records if r.commit is None or r.dirty is None]),
        ("external record", [r.seed for r in records if r.external]),
        ("a curve that is not finite", [r.seed for r in records if _diverged(r)]),
    ):
        if seeds:
            notes.append(f"{words} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})")
    return notes


def _diverged(record: RunRecord) -> bool:
    return any(value is None for curve in record.curves.values() for _, value in curve)


def _among(record: RunRecord, group: "tuple[RunRecord, ...] | list[RunRecord]") -> bool:
    return any(record is other for other in group)
