"""The verb verify: does a record's command reproduce its numbers?"""

import argparse
import hashlib
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from repro.cli.arguments import Verbs, add, add_flag, add_verb
from repro.cli.runs import require_writable
from repro.cli.show import find_record
from repro.errors import EXIT_FAILED, EXIT_OK, UserError
from repro.paths import INSTALLED, PROJECT, results_dir
from repro.record import RunRecord

NAMED = 10  # differences that are kept and shown


def register(verbs: Verbs) -> None:
    """Adds this family's verb."""
    verify = add_verb(verbs, "verify", verify_record)
    add(verify, "record", "record file below results/runs, or run id", metavar="RECORD")
    add_flag(verify, "--quiet", "do not print the run's output", "-q")
    add_flag(verify, "--json", "one array with the outcome; implies --quiet")

    check = add_verb(verbs, "check", check_laws)
    add(check, "name", "mymix.Alibi; Alibi, if one plugin has it; repro.nn.FullAttention", metavar="CLASS")
    add(check, "--init", "arguments besides the width: '{n_heads: 3}'", default="{}", metavar="YAML")
    add(check, "--d-model", "width (default 12)", type=int, default=12, metavar="N")
    add(check, "--loop", "a naive form, mymix.naive: law III; see docs/extending.md", metavar="FUNCTION")


def check_laws(args: argparse.Namespace) -> int:
    """Check the laws of a mixer, also of one in a plugin of the project."""
    from repro.experiment.build import check_mixer
    from repro.yamls import parse_yaml

    init = parse_yaml(args.init, "--init")
    if args.d_model < 1 or not isinstance(init, dict):
        raise UserError(f"--d-model is at least 1 and --init a mapping, not {args.d_model} and {args.init!r}")
    broken, checked = 0, set()
    for one in check_mixer(args.name, init, args.d_model, args.loop):
        broken += not one.holds
        checked.add(one.law.partition(":")[0])
        print(f"{'ok  ' if one.holds else 'FAIL'}  {one.difference:.1e}  {one.law}", flush=True)
    left = {
        "I to III (it refuses causal layouts)": "I" not in checked,
        "III (needs --loop)": not args.loop,
        "layouts that are not causal (it refuses them)": "padding" not in checked,
    }
    unchecked = ", ".join(what for what, is_left in left.items() if is_left)
    whole = f"{broken} laws do not hold" if broken else "all laws hold"
    print(f"{args.name}: {whole}{f'; not checked: {unchecked}' if unchecked else ''} (float64)")
    return EXIT_FAILED if broken else EXIT_OK


def verify_record(args: argparse.Namespace) -> int:
    """Run a record's command again from its commit, and compare."""
    from repro.evidence.verified import DIFFERS, FAILED, Verified, keep
    from repro.verify.comparison import RerunComparison, compare
    from repro.verify.rerun import refuse, rerun

    if INSTALLED:
        raise UserError(
            "an installed package has no earlier commits to run; call `repro verify` in a git clone"
        )
    runs = results_dir() / "runs"
    record, path = committed(args.record, runs)
    refuse(record, PROJECT)
    _require_gpus(record)
    require_writable(runs)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    loud = not (args.quiet or args.json)
    if loud:
        print(f"{record.command}\nat commit {record.commit}; it took {record.wall_seconds:g} s", flush=True)
    new = rerun(record, PROJECT, loud)
    result = RerunComparison(FAILED, differences=[new]) if isinstance(new, str) else compare(record, new)
    more = len(result.differences) - NAMED
    differences = [*result.differences[:NAMED], *([f"{more} more differences"] if more > 0 else [])]
    outcome = Verified(
        datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        path.relative_to(runs).as_posix(),
        digest,
        result.outcome,
        None if result.outcome == FAILED else not result.build,
        "; ".join([f"{result.compared} numbers compared", *differences, *result.build]),
    )
    keep(results_dir(), outcome)
    if args.json:
        facts = {"run_id": record.run_id, "commit": record.commit}
        print(json.dumps([asdict(outcome) | asdict(result) | facts], indent=1))
    else:
        print(f"outcome   {result.outcome}\nrecord    {outcome.record}\nnumbers   {result.compared} compared")
        for line in differences:
            print(f"differs   {line}")
        for line in result.build:
            print(f"build     {line}")
    return EXIT_FAILED if result.outcome in (DIFFERS, FAILED) else EXIT_OK


def committed(word: str, runs: Path) -> tuple[RunRecord, Path]:
    """The record that a word names, and its file below ``results/runs``.

    Raises:
        UserError: there is no such record, or its file holds another.
    """
    record = find_record(word)
    path = runs / record.path
    if not path.is_file() or RunRecord.from_json(path.read_text(encoding="utf-8"), str(path)) != record:
        raise UserError(f"{word} is not {path}; only records below {runs} can be verified")
    return record, path


def _require_gpus(record: RunRecord) -> None:
    if record.on_gpu:
        import torch

        count, device = int(record.hardware.get("count", 1)), record.hardware.get("device")
        if torch.cuda.device_count() < count:
            raise UserError(
                f"{record.run_id} ran on {count} x {device}; verify it on a machine that has them"
            )
