"""Verbs about machines: submit, pack, doctor."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import ACCEPT, SEEDS, Verbs, add, add_grid, add_targets
from repro.cli.runs import parse_grid, parse_overrides
from repro.errors import UserError
from repro.paths import cluster_files
from repro.recipe import load_recipe
from repro.seeds import SeedChoice
from repro.text import size

if TYPE_CHECKING:
    from repro.launch.plan import Plan
    from repro.launch.status.ledger import Submission


EXAMPLES = {"sbatch": "exclude=cn7", "srun": "cpu-bind=cores"}


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    submit = verbs.add_parser("submit", help="queue the runs of a target on a Slurm cluster")
    add_targets(submit, "+")
    profile = "a profile of slurm/clusters/"
    add(submit, "--cluster", required=True, metavar="NAME", help=profile, words=cluster_files)
    submit.add_argument("--seeds", default="3", metavar="SEEDS", help=f"{SEEDS} (default 3)")
    add_grid(submit)
    for command in ("sbatch", "srun"):
        submit.add_argument(
            f"--{command}", action="append", default=[], metavar="OPTION",
            help=f"a further option of {command}, as in --{command}=--{EXAMPLES[command]}; again for more",
        )  # fmt: skip
    submit.add_argument("--accept-changes", action="store_true", help=ACCEPT)
    submit.add_argument("--tables", action="store_true", help="add a last job that makes the tables")
    submit.add_argument(
        "--dry-run", action="store_true", help="print the scripts, and the GPU hours on stderr; write nothing"
    )
    submit.add_argument("--json", action="store_true", help="one object for each run")
    submit.set_defaults(handler=submit_runs, overrides=[])
    submit.epilog = (
        "any key of the recipes can be set: --trainer.max_steps 10; nodes and devices are set in the profile"
    )

    pack = verbs.add_parser(
        "pack", help="copy the code and prepared data for a machine without a network, and bring records back"
    )
    pack.add_argument("folder", metavar="DIR", type=Path)
    pack.add_argument(
        "stores", metavar="DATA", nargs="*", help="data sets whose stores are copied; see `repro data list`"
    )
    pack.add_argument(
        "--back", action="store_true", help="add the records that were made in DIR to the results"
    )
    pack.set_defaults(handler=pack_up)

    doctor = verbs.add_parser("doctor", help="check GPUs, ranks, disk, stores, W&B and Slurm on this machine")
    doctor.add_argument("--json", action="store_true")
    meeting = "only whether ranks on two nodes of it meet: a job of seconds, waited for"
    add(doctor, "--cluster", metavar="PROFILE", help=meeting, words=cluster_files)
    doctor.set_defaults(handler=examine)


def pack_up(args: argparse.Namespace) -> None:
    from repro.launch.pack import bring_back, pack

    if args.back:
        if args.stores:
            raise UserError(
                f"--back takes no data, unlike {' '.join(args.stores)}; `repro data prepare` makes stores here"
            )
        added = bring_back(args.folder)
        print(f"{added} files were added; `repro tables` makes the tables again")
        return
    pack(args.folder, args.stores)
    sizes = [path.stat().st_size for path in args.folder.rglob("*") if path.is_file()]
    print(f"{args.folder} has {size(sum(sizes))}; in it, `python -m repro` runs any verb")
    print(f"later, `repro pack {args.folder} --back` adds its records here")


def submit_runs(args: argparse.Namespace) -> None:
    from repro.launch.plan import Request
    from repro.launch.submit import dry_run, submit

    request = Request(
        targets=args.targets,
        cluster=args.cluster,
        scale=args.scale,
        seeds=SeedChoice.parse(args.seeds),
        grid=parse_grid(args.grid, args.overrides),
        tables=args.tables,
        command=args.command,
        sbatch=args.sbatch,
        srun=args.srun,
        accept_changes=args.accept_changes,
    )
    if args.dry_run:
        plan, summary = dry_run(request, require_runnable)
        scripts = "\n".join(plan.script(job) for job in plan.jobs)
        print(json.dumps(_rows(plan, None), indent=1) if args.json else scripts, end="")
        notices = ["dry run: nothing was submitted"] if plan.jobs else []
        for line in (*summary, *notices):
            print(line, file=sys.stderr)
        return
    out = sys.stderr if args.json else sys.stdout
    plan, entry = submit(request, lambda line: print(line, file=out), require_runnable)
    if args.json:
        print(json.dumps(_rows(plan, entry), indent=1))
    elif entry is not None:
        for job in entry.jobs:
            print(f"submitted: job {job.job_id}, {job.name}")
        print(f"logs: {entry.folder / 'logs'}")
        print(f"next: repro status, repro logs {plan.runs[0].run_id}")


def require_runnable(plan: "Plan") -> None:
    """Checks each run and looks for its stores, before anything is queued.

    Raises:
        UserError: a run could not start: the error with which its job would fail.
    """
    from repro.data.sets.weights.weight_data import open_weights
    from repro.experiment.session import rehearse
    from repro.experiment.trainer import quiet

    quiet()
    for experiment, scale, settings in dict.fromkeys((s.experiment, s.scale, s.settings) for s in plan.runs):
        recipe = load_recipe(experiment, scale, parse_overrides([*settings]))
        rehearse(recipe, plan.profile.ranks)
        if recipe.pretrained is not None:
            open_weights(str(recipe.pretrained))


def _rows(plan: "Plan", entry: "Submission | None") -> list[dict[str, object]]:
    """Returns one object for each requested run, with its state and its task."""
    jobs = {job.name: job for job in entry.jobs} if entry else {}
    placed = {spec.run_id: (job.name, i) for job in plan.jobs for i, spec in job.tasks.items()}
    waiting = plan.waits
    rows = []
    for spec in plan.requested:
        name, index = placed.get(spec.run_id, (None, None))
        job = jobs.get(name) if name else None
        task = f"{job.job_id}_{index}" if job else plan.queued.get(spec.run_id)
        state = "queued" if spec.run_id in plan.queued else "recorded"
        if name:
            state = "submitted" if job else "to submit"
        facts = ("run_id", "experiment", "scale", "seed", "settings")
        row = {name: getattr(spec, name) for name in facts}
        script = str(entry.folder / job.script) if entry and job else None
        waits = waiting.get(spec.run_id, [])
        rows.append({**row, "state": state, "name": name, "job": task, "script": script, "waits_for": waits})
    return rows


def examine(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from repro.cli.doctor import checks, meeting

    results = {args.cluster: meeting(args.cluster)} if args.cluster else checks()
    if args.json:
        print(json.dumps([{"name": name, **asdict(check)} for name, check in results.items()], indent=1))
    else:
        for name, check in results.items():
            remedy = f"  → {check.remedy}" if check.remedy and check.status != "ok" else ""
            print(f"{check.status:4}  {name:12}  {check.detail}{remedy}")
    return 1 if any(check.status == "fail" for check in results.values()) else 0
