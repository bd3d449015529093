"""Run records: what one run measured and everything needed to judge it. Standard library only.

A record is one JSON file, written once by rank 0 at the end of a run, below
``results/runs/<paper>/<recipe>/``. Tables are made from records and from nothing else.
"""

import contextlib
import dataclasses
import errno
import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from repro.errors import ReproError, UserError

SCHEMA_VERSION = 1
MAX_CURVE_POINTS = 200


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

    name: str
    value: float
    unit: str
    split: str
    protocol: dict[str, Any] = field(default_factory=dict)
    count: int | None = None
    validation: float | None = None


@dataclass
class RunRecord:
    """One finished run. Paths, host and user names never stand in it."""

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
    hardware: dict[str, Any]  # {"device": "...", "count": 1, "nodes": 1, "threads": 2}
    precision: str
    data: dict[str, Any]  # name, manifest_sha256, counts
    parameters: int
    steps: int
    tokens: int  # target tokens trained on
    wall_seconds: float
    gpu_hours: float
    peak_bytes: int
    metrics: list[Measurement]
    curves: dict[str, list[list[Any]]]  # {"val/loss": [[step, value or null], ...]}, at most 200 points
    checkpoint_sha256: str | None
    outputs_sha256: str | None  # of <record>.outputs.txt beside the record
    finished: str  # ISO 8601, UTC
    wandb_url: str | None = None
    deviations: list[str] = field(default_factory=list)
    # What it began with: a run's run_id and checkpoint_sha256, or published weights with their sha256 and revision.
    start_from: dict[str, str] | None = None
    code_sha256: str | None = None  # over the package's source files that were imported
    external: bool = False  # uploaded by others; never `reproduced`
    schema_version: int = SCHEMA_VERSION

    def metric(self, name: str) -> Measurement | None:
        """The measurement of that name, or None."""
        return next((m for m in self.metrics if m.name == name), None)

    @property
    def file_stem(self) -> str:
        """``<scale>-s<seed>-<hash8>-<finished, digits only>``: unique, sorts by scale, then seed."""
        digits = "".join(c for c in self.finished if c.isdigit())[:14]
        return f"{self.scale}-s{self.seed}-{self.config_hash[:8]}-{digits}"

    def to_json(self) -> str:
        """The record as JSON; points of a curve that are not finite (a diverged run) become null.

        Raises:
            ReproError: a metric is not finite; a diverged run must leave it out and say so.
        """
        for m in self.metrics:
            if not math.isfinite(m.value):
                raise ReproError(f"{m.name} is {m.value}: a diverged run has no such number; leave it out")
        raw = dataclasses.asdict(self)
        for name, points in self.curves.items():
            raw["curves"][name] = [[x, y if y is not None and math.isfinite(y) else None] for x, y in points]
        return json.dumps(raw, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, name: str = "record") -> "RunRecord":
        """Parses a record.

        Raises:
            UserError: not JSON, another schema version, keys missing, unknown or of another type; names them.
        """
        try:
            raw = json.loads(text, parse_constant=_refuse_constant)
        except ValueError as error:
            raise UserError(f"{name}: not a run record: {error}") from None
        if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
            version = raw.get("schema_version") if isinstance(raw, dict) else None
            raise UserError(f"{name}: schema_version {version!r}, this version reads {SCHEMA_VERSION}")
        known = {f.name: f for f in dataclasses.fields(cls)}
        unknown = sorted(raw.keys() - known.keys())
        missing = [n for n, f in known.items() if n not in raw and _is_required(f)]
        if unknown or missing:
            raise UserError(f"{name}: not a run record: unknown keys {unknown}, missing keys {missing}")
        try:
            raw["metrics"] = [Measurement(**m) for m in raw["metrics"]]
        except TypeError as error:
            raise UserError(f"{name}: a metric is malformed: {error}") from None
        record = cls(**raw)
        _check_types(record, name)
        return record


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number that JSON knows")


def _check_types(record: RunRecord, name: str) -> None:
    """Refuses a record whose joining fields are of another type: tables would fail far from the cause."""
    texts = ("experiment", "scale", "run_id", "command", "config_hash", "precision", "finished")
    maps = ("config", "versions", "hardware", "data", "curves")
    wanted: list[tuple[str, Any, Any]] = [(key, getattr(record, key), str) for key in texts]
    wanted += [(key, getattr(record, key), dict) for key in maps]
    wanted += [(key, getattr(record, key), int) for key in ("seed", "parameters", "steps", "tokens")]
    costs = ("wall_seconds", "gpu_hours", "peak_bytes")
    wanted += [(key, getattr(record, key), int | float) for key in costs]
    wanted += [("deviations", record.deviations, list), ("external", record.external, bool)]
    for m in record.metrics:
        wanted += [(f"metric {m.name} {key}", getattr(m, key), str) for key in ("name", "unit", "split")]
        wanted.append((f"metric {m.name} value", m.value, int | float))
        wanted.append((f"metric {m.name} protocol", m.protocol, dict))
    for key, value, kind in wanted:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise UserError(f"{name}: {key} is {value!r}, which is not of the right type")


def _is_required(f: "dataclasses.Field[Any]") -> bool:
    return f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING


def write_atomic(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all.

    Raises:
        UserError: the folder cannot be written to (exit code 2).
        ReproError: the disk is full, or any other failure of the system.
    """
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOTDIR, errno.EEXIST):
            raise UserError(
                f"cannot write {path}: {error.strerror}; make the folder writable or set another"
            ) from None
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ReproError(
                f"no space left to write {path}; free some and run the same command again"
            ) from None
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to be written that takes the path's place once it is whole and on disk: temporary file, fsync, rename.

    Whatever ends the block early leaves the path as it was.

    Raises:
        OSError: of the system.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        temporary = None
        sync_folder(path.parent)
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def sync_folder(folder: Path) -> None:
    """Makes a rename durable: after a power failure the folder still shows it. Not every file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def thin(points: list[list[float]], limit: int = MAX_CURVE_POINTS) -> list[list[float]]:
    """At most ``limit`` points of a curve, evenly spread, first and last kept."""
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
    if outputs is not None:
        write_atomic(path.with_suffix(".outputs.txt"), outputs.encode())
    write_atomic(path, (record.to_json() + "\n").encode())
    return path


def read_records(runs: Path) -> list[RunRecord]:
    """Every record below a folder, in the order of their paths."""
    return [RunRecord.from_json(_read_text(path), str(path)) for path in sorted(runs.rglob("*.json"))]


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
