"""Lines that the ledger must have: every file of a record, each change of a recipe, each declared test.

Its lines are those of :mod:`repro.ledger`.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from repro.code.source import git, is_snapshot
from repro.errors import UserError, nearest
from repro.evidence.declared import equality
from repro.evidence.declared.fair_tests import FairTest, Sweep, digest, load_tests, published_rows
from repro.evidence.published import Paper, load_papers
from repro.evidence.verified import VERIFIED
from repro.grouping import grouped
from repro.ledger import NO_REASON, OF_FILES, TAB, Line, appending, read_ledger, seeds_line
from repro.paths import records_dirs
from repro.recipe import (
    Config,
    Recipe,
    differing_keys,
    experiments,
    load_recipe,
    recipe_files,
    scales_of,
    signature_hash,
)
from repro.record import LEDGER, Records, RunRecord, read_records, withdrawn
from repro.seeds import parse_seeds, show_ranges
from repro.yamls import short

SHOWN_KEYS = 3  # of a superseded record's differences
# Ends of the paths of declarations; see :func:`declaration`.
CLAIM, COLUMN, EXTENDED = "/claim", "/column", "/extended"
_HISTORY = (
    "log", "-p", "-U0", "-m", "--full-history", "--format=", "--text", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-renames", "--",
)  # fmt: skip


def append_missing(runs: Path) -> Path | None:
    """Appends a line for every file that has none, and for every record whose recipe has changed.

    Returns:
        The ledger, where lines were appended.

    Raises:
        UserError: a malformed ledger, a recipe that cannot be read, a test of this folder that no run could meet, or a
            folder that cannot be written to.
        ReproError: the disk is full.
    """
    records = read_records(runs)
    if not _missing(runs, read_ledger(runs), records):
        return None
    with appending(runs) as (lines, append):
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
        UserError: no reason, no such record, or a record that is withdrawn already; and the errors of
            :func:`append_missing`.
    """
    reason = _one_line(reason)
    if not reason:
        raise UserError(f"--withdraw {name} needs a reason; add --reason TEXT, a fault other than its score")
    path = _find(runs, name)
    records = read_records(runs)
    with appending(runs) as (lines, append):
        if any(line.path == path and line.event == "withdrawn" for line in lines):
            raise UserError(f"{path} is withdrawn already; its line in {runs / LEDGER} gives the reason")
        line = Line.now("withdrawn", path, _sha256(runs / path), reason)
        append([*_missing(runs, lines, records), line])
    return path


def unfinished(runs: Path) -> list[str]:
    """Returns the ids of runs that were started and have no record."""
    recorded = {record.run_id for record in read_records(runs).good}
    started = dict.fromkeys(line.path for line in read_ledger(runs) if line.event == "started")
    return [run for run in started if run not in recorded]


def check_records(runs: Path) -> list[str]:
    """Returns the problems of the records, each with the path of the file; empty without problems.

    Damaged records; files that are gone or changed since their line was written; files without a line; tests that are
    not as they were declared; a malformed ledger; and, in a git checkout, lines of a ledger or of outcomes of
    HEAD's ancestors that are missing now.
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
            f"runs/{name} lacks a line of an earlier commit, {' '.join(line.split(TAB)[:3])}; restore it"
            for name in (LEDGER, VERIFIED)
            for line in _lost(runs, name)
        ),
    ]


def _altered(runs: Path, lines: list[Line]) -> Iterator[str]:
    """Files that differ from their lines. A withdrawn record may have been damaged and restored."""
    recorded = dict.fromkeys((line.path, line.sha256) for line in lines if line.event in OF_FILES)
    left_out, files = withdrawn(runs), set(_files(runs))
    for sha256, paths in grouped((s, p) for p, s in recorded if p.endswith(".json")).items():
        if len(paths) > 1:
            yield f"runs/{paths[-1]} has the SHA-256 {sha256[:8]} of runs/{paths[0]}; remove the copy and its line"
    for path, hashes in grouped(recorded).items():
        if path not in files:
            yield f"runs/{path} is gone or behind a link, and runs/{LEDGER} has a line of it; restore it from git"
            continue
        actual = _sha256(runs / path)
        if actual not in hashes or (len(hashes) > 1 and path not in left_out):
            expected = " and ".join(sorted(digest[:8] for digest in hashes))
            yield f"runs/{path}: SHA-256 is {actual[:8]}, runs/{LEDGER} states {expected}; restore both from git"


def _files(runs: Path) -> list[str]:
    """The paths below ``runs`` of all records and outputs; folders behind links are not read."""
    files = (path for path in runs.rglob("*") if path.name.endswith((".json", ".outputs.txt")))
    return sorted(path.relative_to(runs).as_posix() for path in files if path.is_file())


def _missing(runs: Path, lines: list[Line], records: Records) -> list[Line]:
    """Returns the lines to append. A snapshot does not contain the current recipes and supersedes nothing."""
    known = {line.path for line in lines}
    known |= {damage.path for damage in records.damaged}  # it gets its line once it is restored or withdrawn
    events = [("recorded", path, NO_REASON) for path in _files(runs) if path not in known]
    superseded = {line.path for line in lines if line.event == "superseded"}
    good = [] if is_snapshot() else records.good
    own = [r for r in good if r.path not in superseded and not r.overrides]
    today = {key: _signature(*key) for key in {(r.experiment, r.scale) for r in own}}
    outdated = ((r.path, _outdated(r, today[r.experiment, r.scale])) for r in own)
    events += [("superseded", path, reason) for path, reason in outdated if reason]
    missing = [Line.now(event, path, _sha256(runs / path), reason) for event, path, reason in events]
    missing += [line for line in _seeds(good) if line.path not in known]
    if not is_snapshot():
        ledgers = [lines, *(read_ledger(folder) for folder in records_dirs() if folder != runs)]
        known = {line.path for ledger in ledgers for line in ledger if line.event == "declared"}
        digests, undeclared = declarations(records)
        for path, error in undeclared.items():
            file = runs.parent / "tests" / f"{path.split('/')[1]}.yaml"
            if path not in known and file.is_file():
                raise UserError(f"{path} cannot be declared: {error}")
        missing += [
            Line.now("declared", path, sha256) for path, sha256 in digests.items() if path not in known
        ]
    return missing


def declarations(records: Records) -> tuple[dict[str, str], dict[str, UserError]]:
    """The digests of every declared test, as :func:`declaration` gives them, and what keeps others from one.

    Tests none of whose recipes is here, as where ``$REPRO_CONFIGS`` names other ones, are in neither.
    """
    digests: dict[str, str] = {}
    undeclared: dict[str, UserError] = {}
    for paper in load_papers():
        for test in (test for test in load_tests(paper).tests if test.declared):
            try:
                made = declaration(paper, test, records.good)
                _require_swept(test, records.good)
                digests |= made
            except UserError as error:
                recipes = {run.run.partition("@")[0] for run in test.rows.values()}
                if recipes & recipe_files().keys():
                    undeclared[f"tests/{paper.key}/{test.name}"] = error
        for pair in load_tests(paper).arithmetic:
            with contextlib.suppress(UserError):
                digests |= {f"tests/{paper.key}/{pair.name}": equality.digest(pair)} if pair.declared else {}
    return digests, undeclared


def declaration(paper: Paper, test: FairTest, records: Sequence[RunRecord]) -> dict[str, str]:
    """The paths and digests of a test's declaration in the ledger.

    ``tests/<paper>/<test>`` is the declaration itself; ``.../claim`` is what the published file has of it: which
    direction is better, and which rows are claimed to be more than the next; ``.../column`` the unit and windows of the
    cited column; ``.../extended`` is its extension.

    Raises:
        UserError: a recipe of its runs, or a record with a pinned configuration, is not here.
    """
    path = f"tests/{paper.key}/{test.name}"
    claim = paper.claims[test.claim]
    column = paper.tables[claim.table].metrics[test.column or claim.metric]
    digests = {path: digest(test, claim, column, partial(_configuration, records))}
    printed = published_rows(paper, test)
    relations = [printed.relation(i, i + 1) for i in range(len(test.rows) - 1)]
    windows = f"{column.unit} {column.attention} {column.overlap}"
    words = {CLAIM: f"{column.better} {relations}", COLUMN: windows}
    if test.extended_to:
        words[EXTENDED] = f"{digests[path]} {test.extended_to}"
    return digests | {path + part: hashlib.sha256(text.encode()).hexdigest() for part, text in words.items()}


def _require_swept(test: FairTest, records: Sequence[RunRecord]) -> None:
    """Refuses a sweep of a key that no configuration of the test's runs has: it could never be tuned."""
    if isinstance(test.tuned, Sweep):
        runs = test.rows.values()
        configs = [_configuration(records, run.run, test.scale, run.config) for run in runs]
        keys = {short(key) for config in configs for key in config}
        if test.tuned.key not in keys:
            close = nearest(test.tuned.key, sorted(keys))
            raise UserError(f"its runs have no key {test.tuned.key!r} to tune{close}")


def _configuration(records: Sequence[RunRecord], experiment: str, scale: str, digits: str) -> Config:
    """Returns the flat configuration of today's recipe, or of the record whose hash begins with the digits.

    Raises:
        UserError: there is no such recipe, or no record with these digits.
    """
    if not digits:
        return load_recipe(experiment, scale).signature
    for record in records:
        if (record.experiment, record.scale) == (experiment, scale) and record.config_hash.startswith(digits):
            return Recipe(experiment, scale, record.config).signature
    raise UserError(f"{experiment} at scale {scale} has no record with configuration {digits}")


def _redeclared(lines: list[Line], records: Records) -> Iterator[str]:
    """Tests whose text or configurations are not those of their declaration."""
    tests = (line for line in reversed(lines) if line.event == "declared" and line.path.startswith("tests/"))
    declared = {line.path: line.sha256 for line in tests}
    now, _ = declarations(records)
    seeds = {line.path: line.reason for line in lines if line.path.startswith("seeds/")}
    for line in _seeds(records.good):
        before = parse_seeds(seeds.get(line.path, line.reason))
        if parse_seeds(line.reason)[: len(before)] != before:
            yield f"{line.path}: {line.reason} are not the declared {show_ranges(before)}; restore them in the recipe"
    for path, sha256 in declared.items():
        if path not in now:
            yield (
                f"{path} was declared and is gone, has no date, or has a run without a recipe: restore it; a "
                "changed test is a new attempt"
            )
        elif now[path] != sha256:
            yield (
                f"{path} differs from what was declared (its text or a recipe): restore it, or pin its `config` and "
                "declare a new attempt"
            )


def _seeds(records: Sequence[RunRecord]) -> list[Line]:
    """The declarations of the judged seeds of all recipes that have a record at the paper's scale."""
    judged = {r.experiment for r in records if r.scale == "paper" and not r.overrides} & {*experiments()}
    return [seeds_line(*load_recipe(experiment).seeds_declaration) for experiment in sorted(judged)]


def _outdated(record: RunRecord, today: Config | None) -> str | None:
    """Explains how the current recipe differs from the record; None where it does not."""
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
    """Returns the current configuration of the recipe; None without a recipe."""
    name = experiment.partition("@")[0]
    if name not in recipe_files() or scale not in scales_of(name):
        return None
    if experiment in experiments():
        return load_recipe(experiment, scale).signature
    with contextlib.suppress(UserError):
        return load_recipe(experiment, scale).signature  # a point that only this scale has
    return None


def _find(runs: Path, name: str) -> str:
    """The path below ``runs`` of the record that a user names."""
    records = {path.relative_to(runs).as_posix(): path for path in sorted(runs.rglob("*.json"))}
    for path, file in records.items():
        if name in (path, path.removesuffix(".json")) or Path(name).resolve() == file.resolve():
            return path
    raise UserError(f"no record {name!r} below {runs}{nearest(name, records)}")


def _lost(runs: Path, name: str) -> list[str]:
    """Returns the lines that a file had in a commit up to HEAD and lacks now; none without a git checkout."""
    history = git(runs.parent, *_HISTORY, f"{runs.name}/{name}") or b""
    lines = history.decode("utf-8", errors="replace").split("\n")
    had = {line[1:] for line in lines if line.startswith("+") and not line.startswith("+++ ")}
    path = runs / name
    now = path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else []
    return sorted(had - {*now})


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _one_line(text: str) -> str:
    """A text without tabs, line breaks and control characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
