"""The outcomes of verifications: ``runs/VERIFIED.tsv`` of the results folder, appended only."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from repro.errors import ReproError, UserError

BIT_EQUAL = "bit-equal"
EQUAL_METRICS = "equal metrics"
WITHIN_SPREAD = "within the spread"
DIFFERS = "differs"
FAILED = "failed to run"
CONFIRMING = (BIT_EQUAL, EQUAL_METRICS, WITHIN_SPREAD)
WORDS = (*CONFIRMING, DIFFERS, FAILED)
COLUMNS = ("time", "record", "sha256", "outcome", "same build and layout", "detail")
_SAME = {"yes": True, "no": False, "-": None}


@dataclass(frozen=True)
class Outcome:
    """One line of the file.

    Attributes:
        time: when the verification ended, ISO 8601, UTC.
        record: path of the record, relative to ``results/runs``.
        sha256: of the record's file.
        outcome: one of :data:`WORDS`.
        same_build: whether versions, device, threads and precision were those of the record; None where the run
            failed.
        detail: what was compared and what deviates, one line.
    """

    time: str
    record: str
    sha256: str
    outcome: str
    same_build: bool | None
    detail: str


def verified_file(results: Path) -> Path:
    """The file of the outcomes of a results folder."""
    return results / "runs" / "VERIFIED.tsv"


def keep(results: Path, outcome: Outcome) -> None:
    """Appends an outcome, and the header line to a new file; safe beside other processes that do the same.

    Raises:
        ReproError: the file cannot be written.
    """
    same = next(word for word, value in _SAME.items() if value is outcome.same_build)
    cells = (outcome.time, outcome.record, outcome.sha256, outcome.outcome, same, outcome.detail)
    line = "\t".join(" ".join(cell.split()) for cell in cells)
    path = verified_file(results)
    try:
        with open(path, "ab") as file:  # O_APPEND
            fcntl.flock(file, fcntl.LOCK_EX)
            header = "" if os.fstat(file.fileno()).st_size else "\t".join(COLUMNS) + "\n"
            file.write(f"{header}{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


def outcomes(*results: Path) -> list[Outcome]:
    """All outcomes of the results folders, each once, in order; none without a file.

    Raises:
        UserError: a line that is no outcome; names it.
    """
    return list(dict.fromkeys(outcome for folder in results for outcome in _read(verified_file(folder))))


def _read(path: Path) -> list[Outcome]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if lines and lines[0].split("\t") != list(COLUMNS):
        raise UserError(f"{path}:1: {lines[0]!r} is not the header; restore the file from git")
    return [_parse(line, f"{path}:{number}") for number, line in enumerate(lines[1:], 2)]


def _parse(line: str, where: str) -> Outcome:
    cells = line.split("\t")
    if len(cells) != len(COLUMNS) or cells[3] not in WORDS or cells[4] not in _SAME:
        raise UserError(f"{where}: {line!r} is not an outcome; restore the file from git")
    time, record, sha256, outcome, same, detail = cells
    return Outcome(time, record, sha256, outcome, _SAME[same], detail)
