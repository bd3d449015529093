"""Verbs about machines and the runs on them: submit, pack, doctor, status, logs, cancel, clean."""

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import (
    ACCEPT,
    SEEDS,
    Verbs,
    add,
    add_flag,
    add_grid,
    add_targets,
    add_verb,
    runs_and_jobs,
)
from repro.cli.runs import parse_grid, require_writable
from repro.errors import UserError, at_least
from repro.evidence.text import size
from repro.paths import cluster_files, results_dir, trials_dir
from repro.recipe import SCALES
from repro.seeds import SeedChoice

if TYPE_CHECKING:
    from repro.launch.plan import Plan
    from repro.launch.status.ledger import Submission

WATCH_SECONDS = 10.0
_TARGET = "paper, table, row, experiment, run id or its beginning, run folder, or job (12, 12_0)"


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
    _register_jobs(verbs)


def _register_jobs(verbs: Verbs) -> None:
    """Adds the verbs about runs that were submitted."""
    status = add_verb(verbs, "status", show_status)
    _add_runs(status)
    add_flag(status, "--json", "one array with everything known about each run")
    add_flag(status, "--summary", "print only the totals over all runs")
    redraw = f"redraw at this interval (default {WATCH_SECONDS:g} s) until every run has ended or Ctrl-C"
    add(status, "--watch", redraw, nargs="?", type=float, const=WATCH_SECONDS, metavar="SECONDS")
    add_flag(status, "--all", "also list runs that ended over 7 days ago; runs of a TARGET are always listed")
    only = "only runs in this state; again for more"
    add(status, "--state", only, action="append", default=[], metavar="STATE")

    logs = add_verb(verbs, "logs", show_logs)
    add(logs, "run", f"{_TARGET}; of several runs, the last submitted", metavar="RUN", words=runs_and_jobs)
    add(logs, "--scale", "choose the run at this scale", choices=SCALES)
    add(logs, "--seed", "choose the run with this seed", type=int)
    add_flag(logs, "--follow", "keep printing until the job leaves the queue or Ctrl-C", "-f")
    add(logs, "--lines", "only the last N lines", "-n", type=int, metavar="N")
    add_flag(logs, "--job", "only print the job's id and the path of its log")

    cancel = add_verb(verbs, "cancel", cancel_runs)
    _add_runs(cancel)
    add_flag(cancel, "--all", "everything submitted from here")
    add_flag(cancel, "--dry-run", "only print what would be cancelled")

    clean = add_verb(verbs, "clean", clean_up)
    _add_runs(clean)
    add_flag(clean, "--dry-run", "only print what would be removed")


def _add_runs(parser: argparse.ArgumentParser) -> None:
    add(parser, "targets", _TARGET, nargs="*", metavar="TARGET", words=runs_and_jobs)


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
    plan, entry = submit(request, lambda line: print(line, file=out), require_ready)
    if args.json:
        print(json.dumps(_rows(plan, entry), indent=1))
    elif entry is not None:
        for job in entry.jobs:
            print(f"submitted: job {job.job_id}, {job.name}")
        print(f"logs: {entry.folder / 'logs'}")
        print(f"next: repro status, repro logs {plan.runs[0].run_id}")


def require_ready(plan: "Plan") -> None:
    """Checks each run, its stores, and that records can be written.

    Raises:
        UserError, ReproError: of :func:`require_runnable` and :func:`repro.cli.runs.require_writable`.
    """
    require_runnable(plan)
    for results in (results_dir(), trials_dir()):
        require_writable(results / "runs")


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


def show_status(args: argparse.Namespace) -> None:
    """Print the state of every run, submitted or local."""
    from dataclasses import asdict

    from repro.launch.status.board import show, warn, watch
    from repro.launch.status.state import survey
    from repro.launch.status.summary import summarise

    if args.watch is not None and not 1 <= args.watch <= 86400:
        raise UserError(f"--watch must be from 1 to 86400 seconds, not {args.watch:g}")
    if args.watch is not None:
        if args.json or args.summary:
            raise UserError("--json and --summary are printed once; leave out --watch")
        watch(lambda: survey(args.targets, args.all, args.state), args.watch)
        return
    result = survey(args.targets, args.all, args.state)
    if args.summary:
        warn(result.notes)
        summary = summarise(result.rows)
        print(json.dumps([asdict(summary)], indent=1) if args.json else "\n".join(summary.lines))
    elif args.json:
        warn(result.notes)
        rows = [{**asdict(row), "ended": row.ended} for row in result.rows]
        print(json.dumps(rows, indent=1))
    else:
        show(result)


def show_logs(args: argparse.Namespace) -> None:
    """Print the log of a run's job, all attempts; without a job, its events."""
    from repro.launch.status.logs import choose, follow, log_of, print_log

    at_least(0, **{"--lines": args.lines})
    entry, count = choose(args.run, args.scale, args.seed)
    if args.job:
        print(f"{entry.job_id}  {log_of(entry)}")
        return
    if count > 1:
        hint = "--scale and --seed choose another"
        job = f", job {entry.job_id}" if entry.job_id else ""
        print(f"repro: {entry.run}{job}, of {count} runs; {hint}", file=sys.stderr)
    if args.follow:
        follow(entry, args.lines)
    else:
        print_log(entry, args.lines)


def cancel_runs(args: argparse.Namespace) -> None:
    """Remove runs from the queue; running ones save a checkpoint first."""
    from repro.launch.cancel import cancel, candidates

    tasks = candidates(args.targets, args.all)
    if not tasks:
        print("nothing to cancel: no such run is in the queue")
        return
    if not args.dry_run:
        cancel(tasks)
    done = "would be cancelled" if args.dry_run else "cancelled"
    for entry, queued in tasks:
        print(f"{done}: {queued.job}  {entry.run or queued.name}  ({queued.state.lower()})")
    if not args.dry_run and any(queued.state == "RUNNING" for _, queued in tasks):
        print("running runs save a checkpoint first; `repro submit` resumes them")


def clean_up(args: argparse.Namespace) -> None:
    """Remove snapshots that no job needs, and checkpoints of runs that have their record."""
    from repro.launch.clean import remove, superfluous
    from repro.launch.status.ledger import ledger_dir
    from repro.launch.submit import locked

    with locked(ledger_dir()) if ledger_dir().is_dir() else contextlib.nullcontext():
        paths = superfluous(args.targets)
        own = [path for path in paths if not path.is_symlink()]
        sizes = [f.stat().st_size for path in own for f in (path, *path.rglob("*")) if f.is_file()]
        if not args.dry_run:
            remove(paths)
    done = "would be removed" if args.dry_run else "removed"
    for path in paths:
        print(f"{done}: {path}")
    print(f"{done}: {len(sizes):,} files, {sum(sizes) / 1e6:,.1f} MB; models, records, events and logs stay")
