"""The outcomes of verifications: ``runs/VERIFIED.tsv`` of the results folder, appended only."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from repro.errors import UserError
from repro.files import lock, writing

BIT_EQUAL, EQUAL_METRICS, DIFFERS, FAILED = "bit-equal", "equal metrics", "differs", "failed to run"
VERIFIED = "VERIFIED.tsv"
OUTCOMES = (BIT_EQUAL, EQUAL_METRICS, DIFFERS, FAILED)
_HEADER = "\t".join(("time", "record", "sha256", "outcome", "same build and layout", "detail"))
_SAME = {"yes": True, "no": False, "-": None}


@dataclass(frozen=True)
class Verified:
    """One line of the file.

    Attributes:
        time: when the verification ended, ISO 8601, UTC.
        record: path of the record, relative to ``results/runs``.
        sha256: of the record's file.
        outcome: one of :data:`OUTCOMES`.
        same_build: whether versions, device, threads, precision and data were those of the record; None where the
            run failed.
        detail: what was compared and what differs, one line.
    """

    time: str
    record: str
    sha256: str
    outcome: str
    same_build: bool | None
    detail: str


def keep(results: Path, one: Verified) -> None:
    """Appends an outcome, and the header line to a new file; other processes may do so at the same time.

    Raises:
        UserError, ReproError: the file cannot be written.
    """
    same = next(word for word, value in _SAME.items() if value is one.same_build)
    cells = (one.time, one.record, one.sha256, one.outcome, same, one.detail)
    line = "\t".join(" ".join(cell.split()) for cell in cells)
    path = _file(results)
    with writing(path), open(path, "ab") as file:
        lock(file, fcntl.LOCK_EX)
        header = "" if os.fstat(file.fileno()).st_size else f"{_HEADER}\n"
        file.write(f"{header}{line}\n".encode())


def read_verified(*results: Path) -> list[Verified]:
    """Reads all outcomes of the results folders, each once, in order; none without a file.

    Raises:
        UserError: a malformed line; names it.
    """
    paths = [path for folder in results if (path := _file(folder)).is_file()]
    return list(dict.fromkeys(one for path in paths for one in _read(path)))


def _file(results: Path) -> Path:
    return results / "runs" / VERIFIED


def _read(path: Path) -> list[Verified]:
    header, *lines = path.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    outcomes = []
    for number, line in enumerate(lines, 2):
        cells = line.split("\t")
        if len(cells) != 6 or cells[3] not in OUTCOMES or cells[4] not in _SAME:
            raise UserError(f"{path}:{number}: {line!r} is not an outcome; restore the file from git")
        time, record, sha256, outcome, same, detail = cells
        outcomes.append(Verified(time, record, sha256, outcome, _SAME[same], detail))
    if header != _HEADER:
        raise UserError(f"{path}:1: {header!r} is not the header; restore the file from git")
    return outcomes
