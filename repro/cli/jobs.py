"""Verbs about submitted runs: status, logs, cancel, clean."""

import argparse
import contextlib
import json
import sys
from functools import partial

from repro.cli.arguments import Verbs, add, runs_and_jobs
from repro.errors import UserError
from repro.recipe import SCALES

WATCH_SECONDS = 10.0
_TARGET = "paper, table, row, experiment, run id or its beginning, run folder, or job (12, 12_0)"


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    status = verbs.add_parser("status", help="print the state of every run, submitted or local")
    _add_targets(status)
    status.add_argument("--json", action="store_true", help="one array with everything known about each run")
    status.add_argument("--summary", action="store_true", help="print only the totals over all runs")
    redraw = f"redraw at this interval (default {WATCH_SECONDS:g} s) until every run has ended or Ctrl-C"
    status.add_argument("--watch", nargs="?", type=float, const=WATCH_SECONDS, metavar="SECONDS", help=redraw)
    old = "also list runs that ended over 7 days ago; runs of a TARGET are always listed"
    status.add_argument("--all", action="store_true", help=old)
    only = "only runs in this state; again for more"
    status.add_argument("--state", action="append", default=[], metavar="STATE", help=only)
    status.set_defaults(handler=show_status)

    logs = verbs.add_parser(
        "logs", help="print the log of a run's job, all attempts; without a job, its events"
    )
    meaning = f"{_TARGET}; of several runs, the last submitted"
    add(logs, "run", metavar="RUN", help=meaning, words=runs_and_jobs)
    logs.add_argument("--scale", choices=SCALES, help="choose the run at this scale")
    logs.add_argument("--seed", type=int, help="choose the run with this seed")
    follow = "keep printing until the job leaves the queue or Ctrl-C"
    logs.add_argument("--follow", "-f", action="store_true", help=follow)
    logs.add_argument("--lines", "-n", type=int, metavar="N", help="only the last N lines")
    logs.add_argument("--job", action="store_true", help="only print the job's id and the path of its log")
    logs.set_defaults(handler=show_logs)

    cancel = verbs.add_parser(
        "cancel", help="remove runs from the queue; running ones save a checkpoint first"
    )
    _add_targets(cancel)
    cancel.add_argument("--all", action="store_true", help="everything submitted from here")
    cancel.add_argument("--dry-run", action="store_true", help="only print what would be cancelled")
    cancel.set_defaults(handler=cancel_runs)

    clean = verbs.add_parser(
        "clean", help="remove snapshots that no job needs, and checkpoints of runs that have their record"
    )
    _add_targets(clean)
    clean.add_argument("--dry-run", action="store_true", help="only print what would be removed")
    clean.set_defaults(handler=clean_up)


def _add_targets(parser: argparse.ArgumentParser) -> None:
    add(parser, "targets", nargs="*", metavar="TARGET", help=_TARGET, words=runs_and_jobs)


def show_status(args: argparse.Namespace) -> None:
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
    from repro.launch.status.logs import choose, follow, log_of, print_log

    if args.lines is not None and args.lines < 0:
        raise UserError(f"--lines must be at least 0, not {args.lines}")
    entry, count = choose(args.run, args.scale, args.seed)
    if args.job:
        print(f"{entry.job_id}  {log_of(entry)}")
        return
    if count > 1:
        hint = "--scale and --seed choose another"
        job = f", job {entry.job_id}" if entry.job_id else ""
        print(f"repro: {entry.run}{job}, of {count} runs; {hint}", file=sys.stderr)
    write = partial(print, end="", flush=True)
    if args.follow:
        follow(entry, write, args.lines)
    else:
        print_log(entry, write, args.lines)


def cancel_runs(args: argparse.Namespace) -> None:
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
