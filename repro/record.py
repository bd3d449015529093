"""Run records: the measurements of one run and everything needed to judge them.

Only what reads a record imports pydantic, which checks its types; all else needs the standard library only.

A record is one JSON file, written once by rank 0 at the end of a run, below
``results/runs/<paper>/<recipe>/``. Tables are made from records and from nothing else.
"""

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from repro.errors import ReproError, UserError
from repro.files import read_text, write_atomic
from repro.files import replacing as replacing
from repro.paths import files_in

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Point = TypeVar("Point")
CurvePoint = tuple[int, float | None]  # step and value
SCHEMA_VERSION: Literal[1] = 1
MAX_CURVE_POINTS = 200
RECORD_FILE = "record.json"  # in a run's folder
ATTEMPT = ("commit", "dirty", "code_sha256", "versions", "hardware", "data")
LEDGER = "LEDGER.tsv"  # below results/runs; see repro/ledger.py

# By these rules pydantic checks the types of a record: no conversion, only finite numbers.
TYPES = {"strict": True, "allow_inf_nan": False, "extra": "forbid"}
LARGEST = 1e18  # of a count that tables divide

# The variable by which each library of a CPU run is given its vector instructions.
INSTRUCTIONS = {
    "torch": "ATEN_CPU_CAPABILITY",
    "onednn": "ONEDNN_MAX_CPU_ISA",
    "mkl": "MKL_ENABLE_INSTRUCTIONS",
}


@dataclass
class Measurement:
    """One number of a run.

    Attributes:
        name: ``test/bleu``, ``val/ppl``, ... as in the recipes' ``reproduces.measured``.
        value: the number.
        unit: ``BLEU``, ``perplexity per subword``, ``percent``, ...
        split: name of the split as published (``test_2016_flickr``).
        protocol: everything that decides how it was measured (beam, signature, context, ...).
        count: how many items the number is over (sentences, tokens).
        validation: the same metric on the validation split, or None.
    """

    __pydantic_config__ = TYPES

    name: str
    value: float
    unit: str
    split: str
    protocol: dict[str, Any] = field(default_factory=dict)
    count: int | None = None
    validation: float | None = None


@dataclass
class RunRecord:
    """A finished run. It has no paths, host names or user names."""

    __pydantic_config__ = TYPES

    experiment: str  # <paper>/<recipe>[@point]
    scale: str  # paper | gpu | small | cpu
    seed: int
    run_id: str  # <experiment>/<scale>/s<seed>-<hash8>
    command: str
    config: dict[str, Any]  # the resolved recipe, header keys included
    config_hash: str  # SHA-256 over the signature
    commit: str | None
    dirty: bool | None
    versions: dict[str, str]
    hardware: dict[str, Any]  # {"device": "...", "count": 1, "nodes": 1, "threads": 2, "instructions": {...}}
    precision: str
    data: dict[str, Any]  # name, manifest_sha256, counts
    parameters: int
    steps: int
    tokens: int  # target tokens trained on
    wall_seconds: float
    gpu_hours: float
    peak_bytes: int
    metrics: list[Measurement]
    curves: dict[str, list[CurvePoint]]  # {"val/loss": [[step, value or null], ...]}, at most 200 points
    checkpoint_sha256: str | None
    outputs_sha256: str | None  # of <record>.outputs.txt next to the record
    finished: str  # ISO 8601, UTC
    wandb_url: str | None = None
    deviations: list[str] = field(default_factory=list)
    # What it began with: a run's run_id and checkpoint_sha256, or published weights with their sha256 and revision.
    start_from: dict[str, str] | None = None
    code_sha256: str | None = None  # over the package's source files that were imported
    # Every attempt: its facts of ATTEMPT, and the updates of it that are in the weights: after `first` up to `last`.
    attempts: list[dict[str, Any]] = field(default_factory=list)
    external: bool = False  # whether others made it; such a record is not read
    # Settings given in addition to the recipe: --trainer.max_steps=10.
    overrides: list[str] = field(default_factory=list)
    # {"<what>/<line>": numbers over equal parts of [0, 1]}: what a continuous memory holds, and how it is read.
    profiles: dict[str, list[float]] = field(default_factory=dict)
    schema_version: Literal[1] = SCHEMA_VERSION
    # Where it was read from, below results/runs; no part of the record.
    stored_at: str | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def on_gpu(self) -> bool:
        """Whether it ran on GPUs: only runs on a CPU record threads."""
        return "threads" not in self.hardware

    @property
    def began(self) -> datetime:
        """The end less the seconds of all attempts; an interrupted run began earlier."""
        return datetime.fromisoformat(self.finished) - timedelta(seconds=self.wall_seconds)

    @property
    def mixed(self) -> bool:
        """Whether attempts that made updates, or the one that tested, differ in code, packages, device or data.

        An attempt that nobody knows (of a version before there were events) differs.
        """
        *before, last = self.attempts or [{}]
        is_known = not self.attempts or self.attempts[0]["first"] == 0
        made = [one for one in before if one["last"] > one["first"]]
        return not is_known or any(made_by(one) != made_by(last) for one in made)

    @cached_property
    def diverged(self) -> bool:
        """Whether a curve has a point that is not finite."""
        return any(value is None for curve in self.curves.values() for _, value in curve)

    def metric(self, name: str) -> Measurement | None:
        """The measurement of that name, or None."""
        return next((m for m in self.metrics if m.name == name), None)

    @property
    def file_stem(self) -> str:
        """``<scale>-s<seed>-<hash8>-<finished, digits only>``: unique, sorts by scale, then seed."""
        digits = "".join(c for c in self.finished if c.isdigit())[:14]
        return f"{self.scale}-s{self.seed}-{self.config_hash[:8]}-{digits}"

    @property
    def path(self) -> str:
        """The path of its file below ``results/runs``."""
        return self.stored_at or f"{self.experiment}/{self.file_stem}.json"

    def to_json(self) -> str:
        """The record as JSON; points of a curve and validation scores that are not finite (a diverged run) become null.

        Raises:
            ReproError: a metric is not finite; a diverged run must leave it out and record why.
        """
        for m in self.metrics:
            if not math.isfinite(m.value):
                raise ReproError(f"{m.name} is {m.value}: a diverged run has no such number; leave it out")
        raw = dataclasses.asdict(self)
        del raw["stored_at"]
        for name in ("profiles", "attempts"):
            if not raw[name]:
                del raw[name]
        for metric in raw["metrics"]:
            if metric["validation"] is not None and not math.isfinite(metric["validation"]):
                metric["validation"] = None
        for name, points in self.curves.items():
            raw["curves"][name] = [[x, y if y is not None and math.isfinite(y) else None] for x, y in points]
        return json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, name: str = "record") -> "RunRecord":
        """Parses a record.

        Raises:
            UserError: not JSON, another schema version, a key that is missing, unknown or of another type, which is
                named; or the record is external.
        """
        from pydantic import ValidationError

        try:
            record = _types().validate_json(text)
            # pydantic takes these constants where any value fits
            if "NaN" in text or "Infinity" in text:
                json.loads(text, parse_constant=_refuse_constant)
        except ValidationError as error:
            raise UserError(f"{name}: {_problem(text, error)}") from None
        except ValueError as error:
            raise UserError(f"{name}: not a run record: {error}") from None
        if '"schema_version"' not in text:
            raise UserError(f"{name}: schema_version is missing")
        _check_contents(record, name)
        if record.external:
            raise UserError(f"{name}: external is true: not a record of ours")
        return record


def made_by(facts: Mapping[str, Any]) -> dict[str, str]:
    """Code, packages, device and data of an attempt; on a CPU the instructions of its libraries stand for the device.

    Attempts before 2026-11-30 do not name their data.
    """
    hardware, data = facts.get("hardware") or {}, facts.get("data") or {}
    return {
        "code": str(facts.get("code_sha256"))[:8],
        **(facts.get("versions") or {}),
        "device": str(hardware.get("instructions", hardware.get("device"))),
        "data": str(data.get("manifest_sha256"))[:8],
    }


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")


@cache
def _types() -> "TypeAdapter[RunRecord]":
    from pydantic import TypeAdapter

    return TypeAdapter(RunRecord)


def _problem(text: str, error: "ValidationError") -> str:
    """The first fault of a record, with its key; of another version, that."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["loc"] == ("schema_version",)), found[0])
    place = list(first["loc"])
    if first["type"] == "json_invalid":
        return f"not a run record: {first['msg']}"
    if place[:1] == ["metrics"] and len(place) > 2:
        place[:2] = [f"metric {json.loads(text)['metrics'][place[1]].get('name')}"]
    key = ".".join(map(str, place)) or "the whole"
    odd = {"missing": "is missing", "unexpected_keyword_argument": "is no key of a record"}.get(first["type"])
    return f"{key} {odd}" if odd else f"{key}: {first['msg']}, not {first['input']!r:.80}"


def _check_contents(record: RunRecord, name: str) -> None:
    """Refuses attempts, times and curves of another form: tables would fail far from the cause."""
    for one in record.attempts:
        steps = type(one.get("first")) is type(one.get("last")) is int
        if steps and all(isinstance(one.get(key), dict | None) for key in ("versions", "hardware", "data")):
            continue
        raise UserError(
            f"{name}: attempts are not a list of objects with the steps `first` and `last` and mappings of `versions`, "
            "`hardware` and `data`"
        )
    try:
        record.began.astimezone(UTC)
        zone = datetime.fromisoformat(record.finished).tzinfo
    except (ValueError, OverflowError):
        zone = None
    if zone is None:
        raise UserError(
            f"{name}: finished {record.finished!r} is no time of ISO 8601 with its zone, or wall_seconds "
            f"{record.wall_seconds!r} are too many"
        )
    numbers = [record.seed, record.steps, record.tokens, record.parameters, record.peak_bytes]
    numbers += [step for points in record.curves.values() for step, _ in points]
    numbers += [m.count for m in record.metrics if m.count is not None]
    if max(map(abs, numbers)) > LARGEST:
        raise UserError(f"{name}: a number of steps, tokens, parameters, bytes or items is above {LARGEST:g}")


def thin(points: list[Point], limit: int = MAX_CURVE_POINTS) -> list[Point]:
    """Returns at most ``limit`` points of a curve or of another list, evenly spread, with the first and the last."""
    if len(points) <= limit:
        return points
    last = len(points) - 1
    return [points[round(i * last / (limit - 1))] for i in range(limit)]


def write_record(record: RunRecord, runs: Path, outputs: str | None = None) -> Path:
    """Writes a record below ``runs`` (``results/runs``), its decoded outputs first. Never overwrites.

    Returns:
        The record's path, ``runs/<paper>/<recipe>/<file_stem>.json``.
    """
    path = runs / record.experiment / f"{record.file_stem}.json"
    if path.exists():
        raise ReproError(f"{path} exists; records are never overwritten")
    text = record.to_json()
    if outputs is not None:
        write_atomic(path.with_suffix(".outputs.txt"), outputs.encode())
    write_atomic(path, f"{text}\n".encode())
    return path


@dataclass(frozen=True)
class Damage:
    """A record that cannot be read.

    Attributes:
        path: below ``results/runs``.
        problem: what is wrong with it, in one line.
    """

    path: str
    problem: str

    def __str__(self) -> str:
        remedy = f"restore it from git, or withdraw it: repro tables --withdraw {self.path} --reason TEXT"
        return f"runs/{self.path} is damaged and left out: {self.problem}; {remedy}"


@dataclass(frozen=True)
class Records:
    """The records below ``results/runs``, in the order of the paths.

    Attributes:
        damaged: those that cannot be read and are not withdrawn.
    """

    good: list[RunRecord]
    damaged: list[Damage]


def read_records(*runs: Path, paper: str | None = None) -> Records:
    """Reads every record below the folders, or those of a paper; damaged ones are reported with the result.

    If two folders have the same path, that of the earlier folder is read.
    """
    records = Records([], [])
    left_out = withdrawn(*runs)
    for place, path in files_in(runs, f"{paper}/**/*.json" if paper else "**/*.json").items():
        try:
            record = _parsed(read_text(path), str(path))
        except (UserError, RecursionError) as error:
            if place not in left_out:
                problem = " ".join(str(error).removeprefix(f"{path}: ").split())
                records.damaged.append(Damage(place, problem[:300]))
            continue
        own = dataclasses.replace(record)  # what is parsed once may be read by other paths, too
        own.stored_at = place
        records.good.append(own)
    return records


# The tables, the ledger and its check read the same files, one after another.
_parsed = cache(RunRecord.from_json)


def withdrawn(*runs: Path) -> frozenset[str]:
    """The records that the folders' ledgers call withdrawn, as paths below ``runs``. They count for nothing."""
    ledgers = (folder / LEDGER for folder in runs)
    lines = (line for path in ledgers if path.is_file() for line in read_text(path).split("\n"))
    cells = (line.split("\t") for line in lines)
    return frozenset(line[2] for line in cells if len(line) > 2 and line[1] == "withdrawn")


def read_record(path: Path) -> RunRecord:
    """Reads the record in a file.

    Raises:
        UserError: it cannot be read; for the copy in a run folder, with the way to replace it.
    """
    try:
        return RunRecord.from_json(read_text(path), str(path))
    except UserError as error:
        remedy = (
            "copy it anew from results/runs, or delete it: `repro run` then tests and records the run again"
        )
        raise UserError(f"{error}; {remedy}" if path.name == RECORD_FILE else str(error)) from None


def finished_record(folder: Path) -> RunRecord | None:
    """Reads the record in a run's folder; None of a run that is not done.

    Raises:
        UserError: as :func:`read_record`, or the folder has the name of another run than the record's.
    """
    path = folder / RECORD_FILE
    record = read_record(path) if path.is_file() else None
    named = re.fullmatch(r"s\d+-[0-9a-f]{8}", folder.name)
    if record and named and not record.run_id.endswith(f"/{folder.name}"):
        raise UserError(f"{path} is the record of {record.run_id}: a copy; remove its folder to begin anew")
    return record
