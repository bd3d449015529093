"""The verb verify: does a record's command reproduce its numbers?"""

import argparse
import hashlib
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from repro.cli.arguments import Verbs
from repro.cli.runs import require_writable
from repro.cli.show import find_record
from repro.errors import EXIT_FAILED, EXIT_OK, UserError
from repro.paths import INSTALLED, PROJECT, results_dir
from repro.record import RunRecord, read_records, withdrawn
from repro.verify import CONFIRMING, Comparison, Outcome, Replay, compare, failed, keep, refuse, replay

SHOWN = 10  # deviations in the terminal


def register(verbs: Verbs) -> None:
    """Adds this family's verb."""
    verify = verbs.add_parser("verify", help="run a record's command again from its commit, and compare")
    verify.add_argument("record", metavar="RECORD", help="record file below results/runs, or run id")
    verify.add_argument("--quiet", "-q", action="store_true", help="do not print the run's output")
    verify.add_argument("--json", action="store_true", help="one array with the outcome; implies --quiet")
    verify.set_defaults(handler=verify_record)


def verify_record(args: argparse.Namespace) -> int:
    if INSTALLED:
        raise UserError(
            "an installed package has no earlier commits to run; call `repro verify` in a git clone"
        )
    runs = results_dir() / "runs"
    record, path = committed(args.record, runs)
    refuse(record, PROJECT)
    require_writable(runs)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    loud = not (args.quiet or args.json)
    if loud:
        print(f"{record.command}\nat commit {record.commit}; it took {record.wall_seconds:g} s", flush=True)
    rerun = replay(record, PROJECT, loud)
    comparison = _compared(record, rerun, runs)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    name = path.relative_to(runs).as_posix()
    outcome = Outcome(now, name, digest, comparison.outcome, comparison.same_build, comparison.detail)
    keep(results_dir(), outcome)
    if args.json:
        print(json.dumps([_as_json(record, outcome, comparison)], indent=1))
    else:
        if not loud:
            print(*(f"{line}\n" for line in rerun.last_lines), sep="", end="", file=sys.stderr)
        print(("\n" if loud else "") + describe(outcome, comparison))
    return EXIT_OK if comparison.outcome in CONFIRMING else EXIT_FAILED


def committed(word: str, runs: Path) -> tuple[RunRecord, Path]:
    """The record that a word names, and its file below ``results/runs``.

    Raises:
        UserError: there is no such record, or its file holds another.
    """
    record = find_record(word)
    path = runs / record.path
    if not path.is_file():
        raise UserError(f"{word} is not below {runs}; only records there can be verified")
    if RunRecord.from_json(path.read_text(encoding="utf-8"), str(path)) != record:
        raise UserError(f"{word} differs from {path}; verify that one")
    return record, path


def _compared(record: RunRecord, rerun: Replay, runs: Path) -> Comparison:
    from repro.evidence.selection import protocol_of

    if rerun.record is None:
        return failed(rerun.failure)
    left_out = withdrawn(runs)
    others = [other for other in read_records(runs).good if other.path not in left_out]
    return compare(record, rerun.record, others, protocol_of)


def _as_json(record: RunRecord, outcome: Outcome, comparison: Comparison) -> dict[str, object]:
    return asdict(outcome) | asdict(comparison) | {"run_id": record.run_id, "commit": record.commit}


def describe(outcome: Outcome, comparison: Comparison) -> str:
    """The outcome for the terminal, a few lines."""
    lines = [f"outcome   {outcome.outcome}", f"record    {outcome.record}"]
    if comparison.failure:
        return "\n".join([*lines, f"reason    {comparison.failure}"])
    build = "; ".join(comparison.build or ()) or "the same"
    lines += [
        f"numbers   {comparison.compared} compared, {len(comparison.deviations)} differ; "
        f"{comparison.left_out} measure the machine and are not compared",
        f"build     {build}",
    ]
    lines += [f"differs   {fact}" for fact in comparison.facts]
    lines += [f"differs   {deviation}" for deviation in comparison.deviations[:SHOWN]]
    lines += [f"note      {note}" for note in comparison.notes]
    return "\n".join(lines)
