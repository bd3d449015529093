"""Verbs about experiments: config, params, run, reproduce."""

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.cli.arguments import Verbs, completed
from repro.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_REQUEUE, UserError, nearest
from repro.paths import records_dirs, results_dir, runs_dir
from repro.recipe import SCALES, Recipe, experiments, load_recipe, scales_of
from repro.record import RunRecord, read_records, write_atomic
from repro.seeds import LARGEST, SeedChoice, unjudged
from repro.training.stop_request import StopRequest
from repro.yamls import parse_yaml

FEW = 10  # numbers that are shown after a run
POLL_S = 0.2
ACCEPT = "resume with other code, packages or another device; the record is then mixed, and not judged"
SEEDS = "3: the first three judged seeds of each recipe; 11-15 or 1-3,7: these seeds"


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    config = verbs.add_parser("config", help="print the resolved configuration of an experiment")
    add_experiment(config)
    config.set_defaults(handler=show_config)

    params = verbs.add_parser("params", help="print the parameter count, next to the published one")
    add_experiment(params)
    params.add_argument("--json", action="store_true")
    params.set_defaults(handler=show_params)

    run = verbs.add_parser("run", help="train, test and record one experiment, or resume it")
    add_experiment(run)
    target = run.add_mutually_exclusive_group()
    target.add_argument("--seed", type=int, help="seed of the run (default: the first judged seed)")
    target.add_argument("--seeds", metavar="SEEDS", help=f"one after the other: {SEEDS}")
    run.add_argument("--all", action="store_true", help="show every number in the end, not only the first")
    run.add_argument("--accept-changes", action="store_true", help=ACCEPT)
    run.set_defaults(handler=run_one)

    reproduce = verbs.add_parser(
        "reproduce", help="run everything that has no record yet, then make the tables"
    )
    targets = reproduce.add_argument(
        "targets", nargs="*", metavar="TARGET", help="paper, table, row or experiment"
    )
    completed(targets, complete_experiments)
    reproduce.add_argument("--scale", choices=SCALES, default="paper")
    reproduce.add_argument("--seeds", default="3", metavar="SEEDS", help=f"{SEEDS} (default 3)")
    reproduce.add_argument("--list", type=Path, metavar="FILE", help="the runs of a list file, in its order")
    reproduce.add_argument(
        "--hours", type=float, help="stop after this time, with a checkpoint; the same command continues"
    )
    reproduce.add_argument("--dry-run", action="store_true", help="only print what would run")
    reproduce.set_defaults(handler=reproduce_all)


def add_experiment(parser: argparse.ArgumentParser) -> None:
    """The arguments that name an experiment, a scale and overrides."""
    name = parser.add_argument("experiment", metavar="EXPERIMENT", help="<paper>/<recipe>; see `repro list`")
    completed(name, complete_experiments)
    parser.add_argument("--scale", choices=SCALES, default="paper", help="default: paper")
    parser.set_defaults(overrides=[])
    parser.epilog = (
        "any key of the recipe can be set: --trainer.max_steps 10, --model.net.dropout 0.2; each key alone is set: "
        "give the end of a schedule beside the number of updates, and every key that has a width or a vocabulary's size"
    )


def complete_experiments(prefix: str, **_: object) -> list[str]:
    """Shell completion: experiments and papers."""
    names = experiments()
    return [n for n in (*names, *sorted({n.split("/")[0] for n in names})) if n.startswith(prefix)]


def parse_overrides(extras: list[str], options: Sequence[str] = ()) -> list[tuple[str, Any]]:
    """``--trainer.max_steps 10`` and ``--trainer.max_steps=10`` as (key, value) pairs.

    Args:
        extras: arguments that are not options of the verb.
        options: the verb's options, of which the nearest is suggested.

    Raises:
        UserError: an argument that is not a setting, or a setting without a value.
    """
    pairs = []
    words = iter(extras)
    for word in words:
        section = word.partition("=")[0] in ("--compile", "--matmul_precision")  # sections without keys
        if not word.startswith("--") or not (section or "." in word):
            close = nearest(word, options) if word.startswith("--") else ""
            raise UserError(
                f"unknown argument {word!r}{close}; a key of the recipe is given in full, like --trainer.max_steps 10; "
                "`repro config EXPERIMENT` prints the keys"
            )
        key, equals, text = word[2:].partition("=")
        if not equals:
            text = next(words, "")
            if not text:
                raise UserError(f"{word} needs a value")
        pairs.append((key, parse_yaml(text, word)))
    return pairs


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe that the arguments name.

    Raises:
        UserError: no such experiment, or a paper, table or row; or no ``paper`` file for a default scale, with those
            there are.
    """
    paper = args.experiment.partition(":")[0]
    if paper in {name.split("/")[0] for name in experiments()}:
        raise UserError(
            f"{args.experiment!r} is not one experiment; `repro list {paper}` shows the paper's, and "
            f"`repro reproduce {args.experiment}` runs all of them"
        )
    return load_recipe(args.experiment, args.scale, args.overrides)


def show_config(args: argparse.Namespace) -> None:
    import yaml

    recipe = recipe_of(args)
    print(f"# {recipe.experiment} at scale {recipe.scale}; signature {recipe.hash8}")
    print(yaml.safe_dump(recipe.config, sort_keys=False, allow_unicode=True), end="")


def show_params(args: argparse.Namespace) -> None:
    from repro.experiment.parameters import count, describe

    counted = count(recipe_of(args))
    print(json.dumps([counted], indent=1) if args.json else describe(counted))


def run_one(args: argparse.Namespace) -> int:
    seed = args.seed
    if seed is not None and not 0 <= seed <= LARGEST:
        raise UserError(f"--seed must be from 0 to {LARGEST}, not {seed}")
    recipe = recipe_of(args)
    settings = [word for key, value in args.overrides for word in (f"--{key}", json.dumps(value))]
    if args.seeds is not None:
        flags = [*["--all"] * args.all, *["--accept-changes"] * args.accept_changes]
        runs = [
            (recipe.run_id(s), [*run_words(args.experiment, args.scale, s), *settings, *flags])
            for s in SeedChoice.parse(args.seeds).select(recipe.seeds)
        ]
        return run_each(runs)
    seed = recipe.seeds[0] if seed is None else seed
    words = ["repro", *run_words(args.experiment, args.scale, seed), *settings]
    with StopRequest() as request:  # before the imports, which take seconds
        record = _run(recipe, seed, shlex.join(words), request, args.accept_changes)
    if is_leader():
        conclude(record, args.all)
    return EXIT_OK


def run_words(experiment: str, scale: str, seed: int) -> list[str]:
    """The arguments of ``repro`` that run one seed, without settings."""
    return ["run", experiment, "--scale", scale, "--seed", str(seed)]


def run_each(runs: Sequence[tuple[str, list[str]]], hours: float = math.inf) -> int:
    """Runs one after the other, each in a process of its own; a failure does not stop the next.

    Args:
        runs: run ids and the arguments of ``repro``.
        hours: after this time the current run is asked to stop, and no other starts.

    Returns:
        0; 1 if a run failed; 75 or 130 if one was asked to stop, after which no other starts.
    """
    result, end = EXIT_OK, time.monotonic() + 3600 * hours
    for run_id, words in runs:
        if time.monotonic() > end:
            return EXIT_REQUEUE
        print(run_id, flush=True)
        with StopRequest() as request, subprocess.Popen([sys.executable, "-m", "repro", *words]) as process:
            code = _ended(process, request, end)
        if code:
            result = EXIT_FAILED
            print(f"repro: {run_id} ended with exit code {code}", file=sys.stderr)
        if request.is_requested:
            return EXIT_INTERRUPTED if request.by_user else EXIT_REQUEUE
        if code in (EXIT_REQUEUE, EXIT_INTERRUPTED):
            return code
    return result


def _ended(process: subprocess.Popen[bytes], request: StopRequest, end: float) -> int:
    """Waits for a run, and asks it once to stop when the time is up or this process is asked to stop.

    Ctrl-C reaches both from the terminal.
    """
    stopping = False
    while True:
        try:
            return process.wait(POLL_S)
        except subprocess.TimeoutExpired:
            stop = (request.is_requested and not request.by_user) or time.monotonic() > end
            if stop and not stopping:
                process.terminate()
                stopping = True


def _run(recipe: Recipe, seed: int, command: str, request: StopRequest, accept_changes: bool) -> RunRecord:
    from repro.evidence.goals import expected
    from repro.experiment.run import finished_record, run

    if finished_record(recipe.run_dir(seed)):
        print(f"{recipe.run_id(seed)} is done; `repro show {recipe.run_id(seed)}` shows more")
    require_writable(results_dir() / "runs")
    for line in unjudged(recipe.experiment, [seed], recipe.seeds) if is_leader() else ():
        print(line, file=sys.stderr)
    published = expected(recipe) if recipe.scale == "paper" else {}
    return run(recipe, seed, command, request, published, accept_changes)


def require_writable(folder: Path) -> None:
    """Checks before training that the record can be written.

    Raises:
        ReproError: as :func:`repro.record.write_atomic`.
    """
    probe = folder / f".writable-{os.getpid()}"
    write_atomic(probe, b"")
    probe.unlink(missing_ok=True)


def is_leader() -> bool:
    """Whether this process is rank 0 of its job, also before the ranks are joined."""
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    return not getattr(rank_zero_only, "rank", 0)


def conclude(record: RunRecord, every: bool = False) -> None:
    """After a run: prints its first numbers or all, where it is, and earlier records that have its weights."""
    from repro.report.formats.terminal import terminal_table

    print()
    print(terminal_table(record, None if every else FEW))
    print(f"\nrun     {runs_dir() / record.run_id}")
    for other in same_weights(record):
        commit = (other.commit or "unknown")[:9]
        print(f"equal   bit for bit the weights recorded on {other.finished[:10]} at commit {commit}")
    print("tables  `repro tables` makes the tables and the page again, with this run")


def same_weights(record: RunRecord) -> list[RunRecord]:
    """Returns other records of the run with equal weights; none where the run has no weights."""
    if record.checkpoint_sha256 is None:
        return []
    known = read_records(*(folder / record.experiment for folder in records_dirs())).good
    facts = (record.run_id, record.checkpoint_sha256)
    others = (one for one in known if one.finished != record.finished)
    return [one for one in others if (one.run_id, one.checkpoint_sha256) == facts]


def reproduce_all(args: argparse.Namespace) -> int:
    from repro.launch.run_list import ListEntry, read_list, resolve_list
    from repro.launch.slurm.chain import needed
    from repro.launch.targets import not_judged

    if args.list and args.targets:
        raise UserError(f"--list {args.list} and targets exclude each other; add the targets to the file")
    if args.hours is not None and not args.hours > 0:
        raise UserError(f"--hours must be above 0, not {args.hours:g}")
    targets = args.targets or sorted({e.split("/")[0] for e in experiments() if args.scale in scales_of(e)})
    specs, notices = resolve_list(
        read_list(args.list) if args.list else [ListEntry(targets, args.scale, args.seeds)]
    )
    todo = needed(specs, queued={})
    recorded, first = sum(spec.done for spec in specs), len(todo.added)
    before = f", {first} of them because others start from them" if first else ""
    print(f"{len(specs)} runs, {recorded} recorded, {len(todo.specs)} to do{before}")
    damaged = read_records(*records_dirs()).damaged
    for line in [*damaged, *notices, *(not_judged(todo.specs) if args.dry_run else ())]:
        print(line, file=sys.stderr)
    if args.dry_run:
        print("".join(f"{spec.run_id}\n" for spec in todo.specs), end="")
        return EXIT_OK
    runs = [(s.run_id, [*run_words(s.experiment, s.scale, s.seed), *s.settings]) for s in todo.specs]
    code = run_each(runs, args.hours or math.inf)
    if code in (EXIT_OK, EXIT_FAILED):
        from repro.report.render import write_tables

        write_tables()
        print(f"tables  {results_dir() / 'tables'}; `repro tables` builds the page")
    return code
