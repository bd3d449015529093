"""``repro sync``: uploads to W&B what runs could not upload while they trained."""

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from repro.cli.arguments import Verbs, completed
from repro.cli.jobs import complete_runs
from repro.errors import EXIT_FAILED, EXIT_OK
from repro.paths import runs_dir

if TYPE_CHECKING:
    from wandb import Api


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    sync = verbs.add_parser("sync", help="send what runs logged offline to W&B")
    runs = sync.add_argument(
        "runs", nargs="*", metavar="RUN", help="as of `repro status`; default: every run"
    )
    completed(runs, complete_runs)
    sync.add_argument(
        "--dry-run", action="store_true", help="only print what would be sent; contact no server"
    )
    sync.add_argument("--json", action="store_true")
    sync.set_defaults(handler=sync_runs)


def sync_runs(args: argparse.Namespace) -> int:
    """Exit code 0 where every run is complete on the server, else 1."""
    from repro.launch.status.run_index import everything, select
    from repro.tracking.sync import sync, waits

    runs = sorted({entry.run for entry in select(args.runs, everything()) if entry.run})
    meant = {run: runs_dir() / run for run in runs if waits(runs_dir() / run)}
    api = None if args.dry_run or not meant else reachable()
    results = []
    for run, folder in meant.items():
        results.append(sync(run, folder, api))
        if not args.json:
            print(results[-1].line, flush=True)
    if args.json:
        print(json.dumps([dataclasses.asdict(result) for result in results], indent=1))
    elif not results:
        print("nothing to send: no run here logged to W&B")
    good = ("complete", "planned", "running")
    return EXIT_OK if all(result.state in good for result in results) else EXIT_FAILED


def reachable() -> "Api":
    """W&B's public API, once the server has answered.

    Raises:
        UserError: W&B's client is not installed; no address, key or answer.
    """
    from repro.tracking.api import connect

    return connect()
