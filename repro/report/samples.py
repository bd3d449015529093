"""Which records count for an experiment at one scale, and which of their numbers. Nothing goes unsaid."""

from dataclasses import dataclass

from repro.record import Measurement, RunRecord
from repro.report.header import Wanted
from repro.report.intervals import Estimate, estimate


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
        """``current``, ``stale``, ``superseded`` or ``external``."""
        for name in ("stale", "superseded", "external"):
            if _among(record, getattr(self, name)):
                return name
        return "current"

    @property
    def notes(self) -> list[str]:
        """What was left out."""
        counts = [
            (len(self.stale), "stale record{s} left out (another configuration)"),
            (len(self.superseded), "older record{s} left out"),
            (len(self.external), "external record{s} left out"),
        ]
        return [f"{n} {text.format(s='' if n == 1 else 's')}" for n, text in counts if n]


@dataclass(frozen=True)
class Sample:
    """The numbers found for one wanted measurement.

    Attributes:
        estimate: mean and interval over seeds, None without a number.
        records: those that gave a number.
        clean: every one of them is ours and of a commit without uncommitted changes.
        unit: the unit they were measured in.
        notes: seeds without the number, other protocols, commits that differ or cannot be named.
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
    return Sample(
        wanted=wanted,
        estimate=estimate([m.value for _, m in found], wanted.deterministic) if found else None,
        records=used,
        clean=all(r.dirty is False and r.commit is not None and not r.external for r in used),
        unit=units.pop() if units else None,
        notes=(*_by_seed(notes), *_weaknesses(used)),
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


def _weaknesses(records: tuple[RunRecord, ...]) -> list[str]:
    commits = sorted({r.commit[:8] for r in records if r.commit is not None})
    notes = [f"mixed commits ({', '.join(commits)})"] if len(commits) > 1 else []
    for words, seeds in (
        ("uncommitted changes", [r.seed for r in records if r.dirty]),
        ("commit unknown", [r.seed for r in records if r.commit is None or r.dirty is None]),
        ("external record", [r.seed for r in records if r.external]),
    ):
        if seeds:
            notes.append(f"{words} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))})")
    return notes


def _among(record: RunRecord, group: "tuple[RunRecord, ...] | list[RunRecord]") -> bool:
    return any(record is other for other in group)
