"""The files between a run and the process that mirrors it: rows, and what the process says of itself."""

import contextlib
import json
from pathlib import Path
from typing import Any

from repro.tracking import process
from repro.tracking.sender import KINDS, ROWS

PATTERN = "rows-*.jsonl"


def line(said: dict[str, Any]) -> bytes:
    """One line of a file of rows; what JSON does not know becomes text."""
    return (json.dumps(said, ensure_ascii=False, default=str) + "\n").encode("utf-8", "replace")


def state_file(rows: Path) -> Path:
    """Where the process that reads these rows says how far it is."""
    return rows.with_suffix(".state")


def read_state(rows: Path) -> dict[str, Any]:
    """What the process said last; ``starting`` where it has said nothing yet."""
    empty = {
        "phase": "starting",
        "answered": 0,
        "url": None,
        "error": None,
        "pid": None,
        "at": 0.0,
        "services": [],
        "boot": "",
    }
    try:
        return {**empty, **json.loads(state_file(rows).read_text(encoding="utf-8"))}
    except (OSError, ValueError):
        return empty


def left_behind(folder: Path) -> list[Path]:
    """Files of rows of earlier runs of the same name, which were killed before W&B had everything."""
    return [rows for rows in sorted(folder.glob(PATTERN)) if read_state(rows)["phase"] != "done"]


def known(rows: Path) -> dict[str, Any]:
    """What an earlier process knew of where its rows went."""
    first = next((said for said, _ in process.lines_from(rows, 0)), {})
    both = {**first, **read_state(rows)}
    return {key: both[key] for key in ("first_step", "fragments") if key in both}


def about(rows: Path) -> dict[str, Any]:
    """What a file says of its run."""
    return next((dict(said["about"]) for said, _ in process.lines_from(rows, 0) if "about" in said), {})


def times(rows: Path) -> set[float]:
    """Times of its rows, those that W&B has included."""
    return {said["at"] for said, _ in process.lines_from(rows, 0) if said.keys() & set(ROWS)}


def rows_of(rows: Path) -> bytes:
    """All rows of a file, those that W&B has included: the process that gets them finds out which."""
    return b"".join(line(said) for said, _ in process.lines_from(rows, 0) if said.keys() & set(KINDS))


def remove(rows: Path) -> None:
    """Removes a file of rows and what belongs to it."""
    for path in (rows, state_file(rows)):
        with contextlib.suppress(OSError):
            path.unlink()
