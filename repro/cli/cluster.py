"""Verbs about machines: submit, doctor."""

import argparse
import json
import sys
from typing import Any

from repro.cli.runs import complete_experiments
from repro.errors import UserError
from repro.recipe import SCALES


def register(verbs: Any) -> None:
    """Adds this family's verbs."""
    submit = verbs.add_parser("submit", help="a Slurm script for the runs of a target")
    targets = submit.add_argument(
        "targets", nargs="+", metavar="TARGET", help="paper, table, row or experiment"
    )
    targets.completer = complete_experiments
    submit.add_argument("--cluster", required=True, metavar="NAME", help="a profile of slurm/clusters/")
    submit.add_argument("--scale", choices=SCALES, default="paper")
    submit.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds 1 to N (default 3)")
    submit.add_argument(
        "--dry-run", action="store_true", help="print the script, and the GPU hours on stderr"
    )
    submit.set_defaults(handler=submit_runs)

    doctor = verbs.add_parser("doctor", help="GPUs, ranks, disk, stores, W&B, Slurm: what works here")
    doctor.add_argument("--json", action="store_true")
    doctor.set_defaults(handler=examine)


def submit_runs(args: argparse.Namespace) -> None:
    from repro.launch.submit import dry_run

    if args.seeds < 1:
        raise UserError(f"--seeds must be at least 1, not {args.seeds}")
    if not args.dry_run:
        raise UserError("this version prints scripts only: `repro submit ... --dry-run | sbatch` submits one")
    script, summary = dry_run(args.targets, args.cluster, args.scale, list(range(1, args.seeds + 1)))
    print(script, end="")
    print(summary, file=sys.stderr)


def examine(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from repro.doctor import checks

    found = checks()
    if args.json:
        print(json.dumps([asdict(check) for check in found], indent=1))
    else:
        for check in found:
            remedy = f"  → {check.remedy}" if check.remedy and check.status != "ok" else ""
            print(f"{check.status:4}  {check.name:12}  {check.detail}{remedy}")
    return 1 if any(check.status == "fail" for check in found) else 0
