"""The lines of the ledger, ``results/runs/LEDGER.tsv``: read and appended, never changed. Needs no torch.

A header line, then tab-separated lines: time (UTC), event, path, SHA-256, reason.

==============  ==========================  =====================  =============================================
event           path                        SHA-256 of             meaning
==============  ==========================  =====================  =============================================
``recorded``    file below ``results/runs``  the file              a record or decoded outputs were there
``superseded``  record                      the file               its recipe is another now
``withdrawn``   record                      the file               it counts for nothing; the reason does not depend
                                                                   on its score
``declared``    ``tests/<paper>/<test>``    the declaration        the test is fixed from now on
``declared``    ``seeds/<run id, no seed>``  the seeds              the judged seeds of a recipe at the paper's scale,
                                                                   to which others may only be added at the end
``started``     run id                      the configuration      a judged seed is about to make its first update;
                                                                   once more where it begins anew
==============  ==========================  =====================  =============================================
"""

import contextlib
import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from repro.errors import UserError
from repro.files import lock, writing
from repro.record import LEDGER

TAB = "\t"
HEADER = TAB.join(("time", "event", "path", "sha256", "reason"))
EVENTS = ("recorded", "superseded", "withdrawn", "declared", "started")
OF_FILES = EVENTS[:3]
NO_REASON = "-"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Line:
    """A line of the ledger; the module's docstring explains the fields."""

    time: str
    event: str
    path: str
    sha256: str
    reason: str = NO_REASON

    @classmethod
    def now(cls, event: str, path: str, sha256: str, reason: str = NO_REASON) -> "Line":
        """Makes a line with the current time."""
        return cls(datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), event, path, sha256, reason)

    @property
    def moment(self) -> datetime:
        """The time, with its zone."""
        return datetime.fromisoformat(self.time)

    def __str__(self) -> str:
        return TAB.join((self.time, self.event, self.path, self.sha256, self.reason))


def read_ledger(runs: Path) -> list[Line]:
    """Reads every line of the ledger in a folder of records; none without a ledger.

    Raises:
        UserError: a malformed line.
    """
    path = runs / LEDGER
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lock(file, fcntl.LOCK_SH)
        return _parse(file.read(), path)


def start(
    runs: Path, run_id: str, config_hash: str, commit: str | None, seeds: Line | None, anew: bool
) -> None:
    """Notes that a judged seed is about to make its first update.

    Args:
        runs: folder of records; nothing is noted where it has no ledger.
        run_id: of the run.
        config_hash: SHA-256 of its configuration.
        commit: of its code.
        seeds: the declaration of the judged seeds, which is added where there is none yet.
        anew: whether it begins at the first update; else it is noted only where it was not before.

    Raises:
        UserError: a malformed ledger, or a folder that cannot be written to.
        ReproError: the disk is full.
    """
    if not (runs / LEDGER).is_file():
        return
    with appending(runs) as (lines, append):
        known = {(line.event, line.path) for line in lines}
        new = [seeds] if seeds and (seeds.event, seeds.path) not in known else []
        if anew or ("started", run_id) not in known:
            new.append(Line.now("started", run_id, config_hash, commit or NO_REASON))
        append(new)


def seeds_line(run: str, seeds: str) -> Line:
    """Makes the declaration of the judged seeds of a recipe: its run id without the seed, and the seeds as a reason."""
    return Line.now("declared", f"seeds/{run}", hashlib.sha256(seeds.encode()).hexdigest(), seeds)


@contextlib.contextmanager
def appending(runs: Path) -> Iterator[tuple[list[Line], Callable[[list[Line]], None]]]:
    """Locks the ledger against other processes; yields its lines and a function that appends.

    Raises:
        UserError: a malformed ledger, or a folder that cannot be written to.
        ReproError: the disk is full.
    """
    path = runs / LEDGER
    with writing(path), path.open("a+b") as file:
        lock(file, fcntl.LOCK_EX)
        file.seek(0)
        before = file.read()

        def append(lines: list[Line]) -> None:
            text = "".join(f"{line}\n" for line in ([] if before else [HEADER]) + list(map(str, lines)))
            try:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), len(before))
                raise

        yield _parse(before, path) if before else [], append


def _parse(data: bytes, path: Path) -> list[Line]:
    """The lines of a ledger's file.

    Raises:
        UserError: the first line that is malformed.
    """
    text = data.decode("utf-8", errors="replace")
    header, *rows = text.split("\n")
    if header != HEADER or rows[-1:] != [""]:
        place = "line 1 is not its header" if header != HEADER else "the last line is cut off"
        raise UserError(f"{path} is malformed: {place}; restore it from git")
    lines = []
    for number, row in enumerate(rows[:-1], 2):
        cells = row.split(TAB)
        if len(cells) != 5 or not _is_sound(line := Line(*cells)):
            raise UserError(f"{path} is malformed: line {number} is {row[:100]!r}; restore it from git")
        lines.append(line)
    return lines


def _is_sound(line: Line) -> bool:
    fine = _TIME.fullmatch(line.time) and line.event in EVENTS and _HEX.fullmatch(line.sha256)
    return bool(fine and line.reason) and not {"", "..", "."} & {*line.path.split("/")}
