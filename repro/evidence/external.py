"""Imports run records that others made: validates them as untrusted input, and stores them apart from ours.

An imported record lies below ``results/runs/<experiment>/external/<where it came from>/`` and has
``external: true``, whatever it had before. It may fill a table's line where we have no run of our own, but is
never ``reproduced``. Its path is made of checked fields only; nothing there is ever overwritten.
"""

import dataclasses
import hashlib
import math
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from repro.errors import ReproError, UserError, nearest
from repro.recipe import Recipe, experiments, scales_of
from repro.record import MAX_CURVE_POINTS, RunRecord, write_atomic
from repro.text import clean

FOLDER = "external"
MAX_TEXT = 100_000  # characters of one text; the longest of ours is a command of a few hundred
MAX_DEPTH = 40
MAX_METRICS = 2_000
MAX_CURVES = 500
MAX_PROFILES = 10_000  # numbers of all together
MAX_NUMBER = 2**63
MAX_SEED = 10**6
_HEX = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_FINISHED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:-]+(/[A-Za-z0-9._~%/?=&@:+-]*)?")

State = Literal["taken", "there", "refused"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one upload.

    Attributes:
        name: the upload's, made safe for a terminal.
        state: ``there`` where the same record lies in the results already.
        said: where it lies, or why it was refused.
    """

    name: str
    state: State
    said: str

    def __str__(self) -> str:
        return f"{self.state:<7} {self.name}: {self.said}"


def take(name: str, record: bytes, outputs: bytes | None, source: str, runs: Path) -> Outcome:
    """Checks one upload and stores it.

    Args:
        name: of the upload, for the reader only.
        record: bytes of a record's JSON.
        outputs: decoded test outputs, or None.
        source: where it comes from, ``ENTITY/PROJECT``.
        runs: ``results/runs``.

    Returns:
        ``taken``, ``there`` or ``refused``; a refusal is no error, the next upload may be good.

    Raises:
        UserError: the folder cannot be written to.
        ReproError: the disk is full.
    """
    name = clean(name)[:200]
    try:
        checked, notes = _checked(record, outputs)
    except UserError as error:
        return Outcome(name, "refused", clean(error)[:400])
    folder = runs / checked.experiment
    if _is_ours(checked, folder):
        return Outcome(name, "there", f"our own record {checked.experiment}/{checked.file_stem}")
    text = _written(checked)
    file = f"{checked.file_stem}-{hashlib.sha256(text).hexdigest()[:8]}.json"
    stored = sorted((folder / FOLDER).glob(f"*/{file}"))
    if stored:
        return Outcome(name, "there", str(stored[0]))
    path = folder / FOLDER / _slug(source) / file
    if outputs is not None:
        write_atomic(path.with_suffix(".outputs.txt"), outputs)
    write_atomic(path, text)
    return Outcome(name, "taken", f"{path}{notes}")


def _written(record: RunRecord) -> bytes:
    """The record's JSON. A curve's points without a value are those that a diverged run began with."""
    curves = {
        name: [[x, math.nan if y is None else y] for x, y in points] for name, points in record.curves.items()
    }
    return (dataclasses.replace(record, curves=curves).to_json() + "\n").encode()


def refused(name: str, why: str) -> Outcome:
    """The outcome of an upload that could not even be read."""
    return Outcome(clean(name)[:200], "refused", clean(why)[:400])


def _checked(data: bytes, outputs: bytes | None) -> tuple[RunRecord, str]:
    """The record, marked external, and the notes about it.

    Raises:
        UserError: it is no sound record of an experiment known here.
    """
    try:
        record = RunRecord.from_json(data.decode("utf-8"))
        _check_tree(dataclasses.asdict(record), "the record", 0)
        _check_identity(record)
        _check_fields(record)
        _check_numbers(record)
    except UnicodeDecodeError as error:
        raise UserError(f"not a run record: {error}") from None
    except RecursionError:
        raise UserError("not a run record: nested too deeply") from None
    return dataclasses.replace(record, external=True), _check_outputs(record, outputs)


def _check_tree(node: object, where: str, depth: int) -> None:
    """Refuses what JSON allows and files, pages or terminals do not bear."""
    if depth > MAX_DEPTH:
        raise UserError(f"{where} is nested more than {MAX_DEPTH} levels deep")
    if isinstance(node, dict):
        for key, value in node.items():
            _check_tree(key, where, depth + 1)
            _check_tree(value, key if depth == 0 else where, depth + 1)
    elif isinstance(node, list):
        for value in node:
            _check_tree(value, where, depth + 1)
    elif isinstance(node, str):
        if len(node) > MAX_TEXT or any("\ud800" <= c <= "\udfff" for c in node):
            raise UserError(f"{where} holds a text that is too long or no Unicode")
    elif isinstance(node, int | float) and not (math.isfinite(node) and abs(node) < MAX_NUMBER):
        raise UserError(f"{where} holds a number beyond reason")


def _check_identity(record: RunRecord) -> None:
    """The fields of which the path is made, and that they belong together."""
    if record.experiment not in experiments():
        near = nearest(record.experiment, experiments())
        raise UserError(f"unknown experiment {record.experiment[:100]!r}{near}")
    if record.scale not in scales_of(record.experiment):
        raise UserError(f"{record.experiment} has no scale {record.scale[:20]!r} here")
    if not 0 <= record.seed <= MAX_SEED:
        raise UserError(f"seed {record.seed} is not between 0 and {MAX_SEED}")
    if not _HEX.fullmatch(record.config_hash):
        raise UserError(f"config_hash is {record.config_hash[:80]!r}, no SHA-256")
    try:
        actual = Recipe(record.experiment, record.scale, record.config).config_hash
    except (UserError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"config is not a resolved recipe: {error}") from None
    if actual != record.config_hash:
        raise UserError(f"config_hash is {record.config_hash[:8]}, but that of its config is {actual[:8]}")
    expected = f"{record.experiment}/{record.scale}/s{record.seed}-{record.config_hash[:8]}"
    if record.run_id != expected:
        raise UserError(f"run_id is {record.run_id[:150]!r}; these fields make it {expected!r}")
    if not _FINISHED.fullmatch(record.finished) or not _is_time(record.finished):
        raise UserError(f"finished is {record.finished[:40]!r}, no time in UTC")


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _check_fields(record: RunRecord) -> None:
    """Checks the formats that tables, pages or plots rely on; types are checked on reading."""
    hashes = (record.checkpoint_sha256, record.outputs_sha256, record.code_sha256)
    for key in ("reproduces", "supports"):
        entries = record.config.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"config: {key} is not a list of mappings")
    wrong = {
        "commit": not _is_text(record.commit, _COMMIT),
        "a SHA-256": not all(_is_text(value, _HEX) for value in hashes),
        "wandb_url": not _is_text(record.wandb_url, _ADDRESS),
        "hardware": any(isinstance(value, dict | list) for value in record.hardware.values()),
    }
    bad = [key for key, is_wrong in wrong.items() if is_wrong]
    if bad:
        raise UserError(f"{bad[0]} is not of the form that records have")


def _is_text(value: object, form: re.Pattern[str]) -> bool:
    return value is None or (isinstance(value, str) and form.fullmatch(value) is not None)


def _check_numbers(record: RunRecord) -> None:
    """Metrics, curves and amounts."""
    if len(record.metrics) > MAX_METRICS or len(record.curves) > MAX_CURVES:
        raise UserError(f"{len(record.metrics)} metrics and {len(record.curves)} curves are too many")
    for key in ("parameters", "steps", "tokens", "wall_seconds", "gpu_hours", "peak_bytes"):
        if getattr(record, key) < 0:
            raise UserError(f"{key} is below 0")
    for m in record.metrics:
        if m.count is not None and m.count < 0:
            raise UserError(f"metric {m.name[:80]}: count {m.count} is below 0")
    if sum(map(len, record.profiles.values())) > MAX_PROFILES:
        raise UserError(f"profiles of more than {MAX_PROFILES} numbers are too many")
    for name, points in record.curves.items():
        if len(points) > MAX_CURVE_POINTS:
            raise UserError(
                f"curve {name[:80]} has {len(points)} points; a record has at most {MAX_CURVE_POINTS}"
            )


def _check_outputs(record: RunRecord, outputs: bytes | None) -> str:
    """Checks that the outputs match the record's hash; returns a note where there are none."""
    if outputs is None:
        return " (its outputs were not uploaded)" if record.outputs_sha256 else ""
    digest = hashlib.sha256(outputs).hexdigest()
    if digest != record.outputs_sha256:
        raise UserError(
            f"its outputs are not those it names: SHA-256 {digest[:8]}, not {record.outputs_sha256}"
        )
    return ""


def _is_ours(record: RunRecord, folder: Path) -> bool:
    """Whether the record that the run itself wrote is in the folder: it was uploaded from this machine, or copied."""
    path = folder / f"{record.file_stem}.json"
    try:
        own = RunRecord.from_json(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else None
    except (OSError, ValueError, ReproError):
        return False
    # A run knows its address on W&B only once it is there, which may be after its record was uploaded.
    return own is not None and dataclasses.replace(own, external=True, wandb_url=record.wandb_url) == record


def _slug(source: str) -> str:
    """A folder's name for where records come from."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", source.replace("/", "--")).strip("-")[:100] or "unnamed"
