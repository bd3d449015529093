"""Verbs about W&B: sync (sends what runs could not send while they trained), dashboard."""

import argparse
import dataclasses
import importlib.util
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import Verbs, add, add_flag, add_verb, runs_and_jobs
from repro.errors import EXIT_FAILED, EXIT_OK, UserError
from repro.paths import published_files, runs_dir

if TYPE_CHECKING:
    from wandb import Api

    from repro.report.dashboard import Place
    from repro.report.own_runs import RunGroup

WATCH_S = 60.0
ADDRESSES = "dashboards.json"  # of what was saved
MISSING = 'dashboards need wandb-workspaces; run `pip install -e ".[dashboards]"`'


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    parser = add_verb(verbs, "dashboard", make_dashboard)
    every = "default: a workspace with a table of all runs of the project"
    add(parser, "paper", every, nargs="?", metavar="PAPER", words=published_files)
    add(parser, "--entity", "user or team on W&B (default: $WANDB_ENTITY, else that of the key)")
    add(parser, "--project", "default: $WANDB_PROJECT, else repro")
    add_flag(parser, "--dry-run", "print the report; contact no server")

    sync = add_verb(verbs, "sync", sync_runs)
    which = "as of `repro status`; default: every run"
    add(sync, "runs", which, nargs="*", metavar="RUN", words=runs_and_jobs)
    add_flag(sync, "--dry-run", "only print what would be sent; contact no server")
    live = f"send what running runs write, every {WATCH_S:g} s by default, until Ctrl-C"
    add(sync, "--watch", live, nargs="?", type=float, const=WATCH_S, metavar="SECONDS")
    add_flag(sync, "--json")


def sync_runs(args: argparse.Namespace) -> int:
    """Send to W&B what it does not have of runs.

    Exit code 0 where every run is complete on the server, else 1.
    """
    from repro.mirror.api import connect
    from repro.mirror.sync import sync, watch

    if args.watch is not None and (args.json or args.dry_run or not 1 <= args.watch <= 86400):
        raise UserError("--watch takes 1 to 86400 seconds, and neither --json nor --dry-run")
    requested = _requested(args.runs)
    if not args.dry_run and (requested or args.watch):
        connect()
    if args.watch is not None:
        watch(lambda: _requested(args.runs), args.watch, lambda result: print(result.line, flush=True))
        return EXIT_OK
    results = []
    for run, folder in requested.items():
        results.append(sync(run, folder, args.dry_run))
        if not args.json:
            print(results[-1].line, flush=True)
    if args.json:
        print(json.dumps([dataclasses.asdict(result) for result in results], indent=1))
    elif not results:
        print("nothing to send: no run here has rows for W&B")
    good = ("complete", "planned", "running")
    return EXIT_OK if all(result.state in good for result in results) else EXIT_FAILED


def _requested(words: list[str]) -> dict[str, Path]:
    """Returns the requested runs that have rows, with their folders."""
    from repro.launch.status.run_index import everything, select
    from repro.mirror.sync import waits

    runs = sorted({entry.run for entry in select(words, everything()) if entry.run})
    return {run: runs_dir() / run for run in runs if waits(runs_dir() / run)}


def make_dashboard(args: argparse.Namespace) -> None:
    """Create or update a paper's W&B workspace and report."""
    from repro.mirror.api import connect, plainly

    place = _place(args.entity, args.project)  # before the import, whose library may be missing
    from repro.evidence.table import read_evidence
    from repro.report.dashboard import CAMPAIGN, outline, publish, report

    found = read_evidence(args.paper) if args.paper else None
    if args.dry_run:
        print(outline(report(found, place, "https://wandb.ai")).rstrip() if found else "\n".join(CAMPAIGN))
        return
    api = connect()
    with plainly(f"dashboard of {args.paper or place['project']}"):
        lines = publish(found, _named(api, place), api, runs_dir() / ADDRESSES)
    print("\n".join(lines))


def save_comparison(groups: "Sequence[RunGroup]", scores: Sequence[str], metrics: Sequence[str]) -> None:
    """Makes a report of runs side by side on W&B and prints its address."""
    from repro.mirror.api import connect, plainly

    place = _place()  # before the import, whose library may be missing
    from repro.report.dashboard import comparison_report

    api = connect()
    with plainly("report of the comparison"):
        report = comparison_report(groups, scores, metrics, _named(api, place))
        print(f"created report    {report.save().url}")


def _place(entity: str | None = None, project: str | None = None) -> "Place":
    """The place on W&B; its entity is empty where it is that of the key.

    Raises:
        UserError: a name that cannot be one, or the library of reports is missing.
    """
    from repro.mirror import PROJECT_NAME
    from repro.mirror.api import check_name

    if importlib.util.find_spec("wandb_workspaces") is None:
        raise UserError(MISSING)
    entity = entity or os.environ.get("WANDB_ENTITY") or ""
    project = project or os.environ.get("WANDB_PROJECT") or PROJECT_NAME
    check_name(project, "project")
    if entity:
        check_name(entity, "entity")
    return {"entity": entity, "project": project}


def _named(api: "Api", place: "Place") -> "Place":
    """The place with its entity, which is that of the key where none is given.

    Raises:
        UserError: there is neither.
    """
    entity = place["entity"] or api.default_entity
    if not entity:
        raise UserError("W&B names no entity for this key; give --entity, or set WANDB_ENTITY")
    return {"entity": entity, "project": place["project"]}
