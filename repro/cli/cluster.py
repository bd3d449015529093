"""Verbs about machines: submit, pack, doctor."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import ACCEPT, SEEDS, Verbs, add, add_flag, add_grid, add_targets, add_verb
from repro.cli.runs import parse_grid
from repro.errors import UserError
from repro.evidence.text import size
from repro.paths import cluster_files
from repro.seeds import SeedChoice

if TYPE_CHECKING:
    from repro.launch.plan import Plan
    from repro.launch.status.ledger import Submission


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    submit = add_verb(verbs, "submit", submit_runs)
    add_targets(submit, "+")
    profile = "a profile of slurm/clusters/"
    add(submit, "--cluster", profile, required=True, metavar="NAME", words=cluster_files)
    add(submit, "--seeds", f"{SEEDS} (default 3)", default="3", metavar="SEEDS")
    add_grid(submit)
    for command, example in (("sbatch", "exclude=cn7"), ("srun", "cpu-bind=cores")):
        further = f"a further option of {command}, as in --{command}=--{example}; again for more"
        add(submit, f"--{command}", further, action="append", default=[], metavar="OPTION")
    add_flag(submit, "--accept-changes", ACCEPT)
    add_flag(submit, "--tables", "add a last job that makes the tables")
    add_flag(submit, "--dry-run", "print the scripts, and the GPU hours on stderr; write nothing")
    add_flag(submit, "--json", "one object for each run")
    submit.set_defaults(overrides=[])
    submit.epilog = (
        "any key of the recipes can be set: --trainer.max_steps 10; nodes and devices are set in the profile"
    )

    pack = add_verb(verbs, "pack", pack_up)
    pack.add_argument("folder", metavar="DIR", type=Path)
    add(pack, "stores", "data sets whose stores are copied; see `repro data list`", metavar="DATA", nargs="*")
    add_flag(pack, "--back", "add the records that were made in DIR to the results")

    doctor = add_verb(verbs, "doctor", examine)
    add_flag(doctor, "--json")
    meeting = "only whether ranks on two nodes of it meet: a job of seconds, waited for"
    add(doctor, "--cluster", meeting, metavar="PROFILE", words=cluster_files)


def pack_up(args: argparse.Namespace) -> None:
    """Copy the code and prepared data for a machine without a network, and bring records back."""
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
    """Queue the runs of a target on a Slurm cluster."""
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
    from repro.launch.targets import recipes_of

    quiet()
    for recipe in recipes_of(plan.runs):
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
        script = str(entry.folder / job.script) if entry and job else None
        rows.append({
            "run_id": spec.run_id, "experiment": spec.recipe.experiment, "scale": spec.recipe.scale, "seed": spec.seed,
            "settings": spec.recipe.overrides, "state": state, "name": name, "job": task, "script": script,
            "waits_for": waiting.get(spec.run_id, []),
        })  # fmt: skip
    return rows


def examine(args: argparse.Namespace) -> int:
    """Check GPUs, ranks, disk, stores, W&B and Slurm on this machine."""
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
