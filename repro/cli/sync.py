"""``repro sync``: uploads to W&B what runs could not upload while they trained."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import Verbs, completed
from repro.errors import EXIT_FAILED, EXIT_OK, UserError, nearest
from repro.paths import runs_dir

if TYPE_CHECKING:
    from wandb import Api

_DEPTH = "*/*/*/*"  # <paper>/<recipe>/<scale>/s<seed>-<hash8>


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    sync = verbs.add_parser("sync", help="send what runs logged offline to W&B")
    runs = sync.add_argument(
        "runs", nargs="*", metavar="RUN", help="run id, run folder, experiment or paper; default: every run"
    )
    completed(runs, complete_runs)
    sync.add_argument(
        "--dry-run", action="store_true", help="only print what would be sent; contact no server"
    )
    sync.add_argument("--json", action="store_true")
    sync.set_defaults(handler=sync_runs)


def complete_runs(prefix: str, **_: object) -> list[str]:
    """Shell completion: run ids."""
    return [run for run in found_runs() if run.startswith(prefix)]


def sync_runs(args: argparse.Namespace) -> int:
    """Exit code 0 where every run is complete on the server, else 1."""
    from repro.tracking.sync import sync, waits

    meant = {
        run: folder for word in args.runs or [""] for run, folder in runs_of(word).items() if waits(folder)
    }
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


def found_runs() -> dict[str, Path]:
    """Every run folder by the run's id."""
    root = runs_dir()
    folders = sorted(path for path in root.glob(_DEPTH) if path.is_dir())
    return {folder.relative_to(root).as_posix(): folder for folder in folders}


def runs_of(word: str) -> dict[str, Path]:
    """The runs that a word names: by id, folder, experiment or paper; all runs for an empty word.

    Raises:
        UserError: it names none; suggests the nearest ids.
    """
    runs = found_runs()
    path = Path(word)
    if word and path.is_dir() and path.resolve().is_relative_to(runs_dir().resolve()):
        word = path.resolve().relative_to(runs_dir().resolve()).as_posix()
    meant = {
        run: folder
        for run, folder in runs.items()
        if not word or f"{run}/".startswith(f"{word.rstrip('/')}/")
    }
    if word and not meant:
        raise UserError(f"no run {word!r} below {runs_dir()}{nearest(word, runs)}; `repro status` lists them")
    return meant


def reachable() -> "Api":
    """W&B's public API, once the server has answered.

    Raises:
        UserError: W&B's client is not installed; no address, key or answer.
    """
    from repro.tracking.pull import connect

    return connect()
