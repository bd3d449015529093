"""Verbs about submitted runs: status, logs, cancel, clean."""

import argparse
import contextlib
import json
import sys

from repro.cli.arguments import Verbs, add, add_flag, add_verb, runs_and_jobs
from repro.errors import UserError, at_least
from repro.recipe import SCALES

WATCH_SECONDS = 10.0
_TARGET = "paper, table, row, experiment, run id or its beginning, run folder, or job (12, 12_0)"


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    status = add_verb(verbs, "status", show_status)
    _add_targets(status)
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
    _add_targets(cancel)
    add_flag(cancel, "--all", "everything submitted from here")
    add_flag(cancel, "--dry-run", "only print what would be cancelled")

    clean = add_verb(verbs, "clean", clean_up)
    _add_targets(clean)
    add_flag(clean, "--dry-run", "only print what would be removed")


def _add_targets(parser: argparse.ArgumentParser) -> None:
    add(parser, "targets", _TARGET, nargs="*", metavar="TARGET", words=runs_and_jobs)


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
