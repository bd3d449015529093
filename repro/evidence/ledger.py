"""The ledger of the run records, ``results/runs/LEDGER.tsv``. Lines are only ever appended.

A header line, then tab-separated lines: time (UTC), event, path, SHA-256, reason.

==============  ==========================  =====================  =============================================
event           path                        SHA-256 of             meaning
==============  ==========================  =====================  =============================================
``recorded``    file below ``results/runs``  the file              a record or decoded outputs were there
``superseded``  record                      the file               its recipe is another now
``withdrawn``   record                      the file               it counts for nothing; the reason does not depend
                                                                   on its score
``declared``    ``tests/<paper>/<test>``    the declaration        the test is fixed from now on
``started``     run id                      the configuration      a judged seed is about to make its first update
==============  ==========================  =====================  =============================================
"""

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from repro.errors import UserError, nearest
from repro.evidence.fair_tests import digest, load_tests
from repro.evidence.published import load_papers
from repro.files import lock, writing
from repro.recipe import (
    Config,
    Recipe,
    differing_keys,
    experiments,
    load_recipe,
    recipe_files,
    signature_hash,
)
from repro.record import LEDGER, Records, RunRecord, read_records, withdrawn
from repro.source import is_snapshot

_TAB = "\t"
HEADER = _TAB.join(("time", "event", "path", "sha256", "reason"))
EVENTS = ("recorded", "superseded", "withdrawn", "declared", "started")
OF_FILES = EVENTS[:3]
NO_REASON = "-"
SHOWN_KEYS = 3  # of a superseded record's differences
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_HEX = re.compile(r"[0-9a-f]{64}")
_HISTORY = (
    "log", "-p", "-U0", "-m", "--full-history", "--format=", "--text", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-renames", "--",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line of the ledger; fields as in the module's docstring."""

    time: str
    event: str
    path: str
    sha256: str
    reason: str = NO_REASON

    @property
    def at(self) -> datetime:
        """The time, with its zone."""
        return datetime.fromisoformat(self.time)

    def __str__(self) -> str:
        return _TAB.join((self.time, self.event, self.path, self.sha256, self.reason))


def read_ledger(runs: Path) -> list[Line]:
    """Every line of the ledger in a folder of records; none without a ledger.

    Raises:
        UserError: a line that is no line of a ledger.
    """
    path = runs / LEDGER
    if not path.is_file():
        return []
    with path.open("rb") as file:
        lock(file, fcntl.LOCK_SH)
        return _parse(file.read(), path)


def append_missing(runs: Path) -> Path | None:
    """Appends a line for every file that has none, and for every record whose recipe is another now.

    Returns:
        The ledger, where lines were appended.

    Raises:
        UserError: a malformed ledger, a recipe that cannot be read, or a folder that cannot be written to.
        ReproError: the disk is full.
    """
    records = read_records(runs)
    if not _missing(runs, read_ledger(runs), records):
        return None
    with _appending(runs) as (lines, append):
        append(_missing(runs, lines, records))
    return runs / LEDGER


def withdraw(runs: Path, name: str, reason: str) -> str:
    """Withdraws a record. The file stays.

    Args:
        name: the record's file, or its path below ``runs``, with or without ``.json``.
        reason: the fault, which must not depend on the score.

    Returns:
        The record's path below ``runs``.

    Raises:
        UserError: no reason, no such record, or one that is withdrawn already; else as :func:`append_missing`.
    """
    reason = _one_line(reason)
    if not reason:
        raise UserError(f"--withdraw {name} needs a reason; add --reason TEXT, a fault other than its score")
    path = _find(runs, name)
    records = read_records(runs)
    with _appending(runs) as (lines, append):
        if any(line.path == path and line.event == "withdrawn" for line in lines):
            raise UserError(f"{path} is withdrawn already; its line in {runs / LEDGER} says why")
        line = Line(_now(), "withdrawn", path, _sha256(runs / path), reason)
        append([*_missing(runs, lines, records), line])
    return path


def start(runs: Path, run_id: str, config_hash: str, commit: str | None) -> None:
    """Notes that a judged seed is about to make its first update; once for each run.

    Args:
        runs: folder of records; nothing is noted where it has no ledger.
        run_id: of the run.
        config_hash: SHA-256 of its configuration.
        commit: of its code.

    Raises:
        UserError: see :func:`append_missing`.
        ReproError: the disk is full.
    """
    if not (runs / LEDGER).is_file():
        return
    with _appending(runs) as (lines, append):
        if not any(line.event == "started" and line.path == run_id for line in lines):
            append([Line(_now(), "started", run_id, config_hash, commit or NO_REASON)])


def unfinished(runs: Path) -> list[str]:
    """Ids of runs that were started and have no record."""
    recorded = {record.run_id for record in read_records(runs).good}
    return [line.path for line in read_ledger(runs) if line.event == "started" and line.path not in recorded]


def check_records(runs: Path) -> list[str]:
    """Problems of the records, each with the file's path; empty when all is in order.

    Damaged records; files that are gone or changed since their line was written; files without a line; a malformed
    ledger; and, in a git checkout, lines of a ledger of HEAD's ancestors that are missing now.
    """
    records = read_records(runs)
    try:
        lines = read_ledger(runs)
    except UserError as error:
        return [*map(str, records.damaged), str(error)]
    return [
        *map(str, records.damaged),
        *_altered(runs, lines),
        *_redeclared(lines, records),
        *(
            f"runs/{line.path} is not {line.event} in runs/{LEDGER}; run `repro tables`"
            for line in _missing(runs, lines, records)
        ),
        *(
            f"runs/{[*text.split(_TAB), '', ''][2]}: a line of an earlier commit's runs/{LEDGER} is missing; restore it"
            for text in sorted(_committed(runs) - {HEADER, *map(str, lines)})
        ),
    ]


def _altered(runs: Path, lines: list[Line]) -> Iterator[str]:
    """Files that are not those of their lines. A withdrawn one may have been damaged, and restored since."""
    recorded: dict[str, set[str]] = {}
    for line in lines:
        if line.event in OF_FILES:
            recorded.setdefault(line.path, set()).add(line.sha256)
    left_out = withdrawn(runs)
    for path, hashes in recorded.items():
        if not (runs / path).is_file():
            yield f"runs/{path} is gone, and runs/{LEDGER} has a line of it; restore it from git"
            continue
        actual = _sha256(runs / path)
        if actual not in hashes or (len(hashes) > 1 and path not in left_out):
            expected = " and ".join(sorted(digest[:8] for digest in hashes))
            yield f"runs/{path}: SHA-256 is {actual[:8]}, runs/{LEDGER} says {expected}; restore both from git"


def _missing(runs: Path, lines: list[Line], records: Records) -> list[Line]:
    """The lines that are to be appended. A snapshot does not know the recipes of today and supersedes nothing."""
    known = {line.path for line in lines}
    known |= {damage.path for damage in records.damaged}  # it gets its line once it is restored or withdrawn
    files = sorted(p for p in runs.rglob("*") if p.name.endswith((".json", ".outputs.txt")))
    paths = [path.relative_to(runs).as_posix() for path in files]
    events = [("recorded", path, NO_REASON) for path in paths if path not in known]
    superseded = {line.path for line in lines if line.event == "superseded"}
    good = [] if is_snapshot() else records.good
    own = [r for r in good if r.path not in superseded and not r.overrides]
    today = {key: _signature(*key) for key in {(r.experiment, r.scale) for r in own}}
    outdated = ((r.path, _outdated(r, today[r.experiment, r.scale])) for r in own)
    events += [("superseded", path, reason) for path, reason in outdated if reason]
    found = [Line(_now(), event, path, _sha256(runs / path), reason) for event, path, reason in events]
    if not is_snapshot():
        declared = {line.path for line in lines if line.event == "declared"}
        new = ((path, sha256) for path, sha256 in declarations(records).items() if path not in declared)
        found += [Line(_now(), "declared", path, sha256) for path, sha256 in new]
    return found


def declarations(records: Records) -> dict[str, str]:
    """The digest of every declared test by ``tests/<paper>/<test>``, and of its extension by ``.../extended``."""
    by_hash = {(r.experiment, r.scale, r.config_hash): r.config for r in records.good}

    def config_of(experiment: str, scale: str, digits: str) -> Config:
        if not digits:
            return load_recipe(experiment, scale).signature
        places = (p for p in by_hash if p[:2] == (experiment, scale) and p[2].startswith(digits))
        place = next(places, None)
        if place is None:
            raise UserError(f"{experiment} at scale {scale} has no record with configuration {digits}")
        return Recipe(experiment, scale, by_hash[place]).signature

    found = {}
    for paper in load_papers():
        for test in load_tests(paper).tests:
            if test.declared:
                path = f"tests/{paper.key}/{test.name}"
                found[path] = digest(test, config_of)
                if test.extended_to:
                    words = f"{found[path]} {test.extended_to}"
                    found[f"{path}/extended"] = hashlib.sha256(words.encode()).hexdigest()
    return found


def _redeclared(lines: list[Line], records: Records) -> Iterator[str]:
    """Tests whose text or configurations are not those of their declaration."""
    declared = {line.path: line.sha256 for line in reversed(lines) if line.event == "declared"}
    now = declarations(records)
    for path, sha256 in declared.items():
        if path not in now:
            yield f"{path} was declared and is gone or has no date: restore it; a changed test is a new attempt"
        elif now[path] != sha256:
            yield (
                f"{path} differs from what was declared (its text or a recipe): restore it, or pin its `config` and "
                "declare a new attempt"
            )


def _outdated(record: RunRecord, today: Config | None) -> str | None:
    """Why the same command would run something else today, None where it would not."""
    if today is None:
        return "recipe removed"
    if signature_hash(today) == record.config_hash:
        return None
    with contextlib.suppress(UserError):
        before = Recipe(record.experiment, record.scale, record.config).signature
        keys = [_one_line(key)[:120] for key in differing_keys(before, today)]
        more = [f"and {len(keys) - SHOWN_KEYS} more"] if len(keys) > SHOWN_KEYS else []
        if keys:
            return f"recipe changed: {'; '.join([*keys[:SHOWN_KEYS], *more])}"
    return "recipe changed"


def _signature(experiment: str, scale: str) -> Config | None:
    """Of the recipe as it now is; None where there is none."""
    if scale not in recipe_files().get(experiment.partition("@")[0], ()):
        return None
    if experiment in experiments():
        return load_recipe(experiment, scale).signature
    with contextlib.suppress(UserError):
        return load_recipe(experiment, scale).signature  # a point that only the scale's overlay has
    return None


def _find(runs: Path, name: str) -> str:
    """The path below ``runs`` of the record that a user names."""
    records = {path.relative_to(runs).as_posix(): path for path in sorted(runs.rglob("*.json"))}
    for path, file in records.items():
        if name in (path, path.removesuffix(".json")) or Path(name).resolve() == file.resolve():
            return path
    raise UserError(f"no record {name!r} below {runs}{nearest(name, records)}")


def _parse(data: bytes, path: Path) -> list[Line]:
    """The lines of a ledger's file.

    Raises:
        UserError: the first line that is malformed.
    """
    text = data.decode("utf-8", errors="replace")
    header, *rows = text.split("\n")
    if header != HEADER or rows[-1:] != [""]:
        where = "line 1 is not its header" if header != HEADER else "the last line is cut off"
        raise UserError(f"{path} is malformed: {where}; restore it from git")
    lines = []
    for number, row in enumerate(rows[:-1], 2):
        cells = row.split(_TAB)
        if len(cells) != 5 or not _is_sound(line := Line(*cells)):
            raise UserError(f"{path} is malformed: line {number} is {row[:100]!r}; restore it from git")
        lines.append(line)
    return lines


def _is_sound(line: Line) -> bool:
    fine = _TIME.fullmatch(line.time) and line.event in EVENTS and _HEX.fullmatch(line.sha256)
    return bool(fine and line.reason) and not {"", "..", "."} & {*line.path.split("/")}


def _committed(runs: Path) -> set[str]:
    """Every line that the ledger had in a commit up to HEAD; none without git or outside a checkout."""
    command = ["git", "-C", str(runs.parent), *_HISTORY, f"{runs.name}/{LEDGER}"]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError:
        return set()
    text = done.stdout.decode("utf-8", errors="replace") if done.returncode == 0 else ""
    return {line[1:] for line in text.split("\n") if line.startswith("+") and not line.startswith("+++ ")}


@contextlib.contextmanager
def _appending(runs: Path) -> Iterator[tuple[list[Line], Callable[[list[Line]], None]]]:
    """The ledger, locked against other processes: its lines, and what appends some."""
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


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _one_line(text: str) -> str:
    """A text without tabs, line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
