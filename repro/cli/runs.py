"""Verbs about experiments: config, params, run, reproduce."""

import argparse
import hashlib
import itertools
import json
import math
import os
import runpy
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from repro.cli.arguments import (
    ACCEPT,
    SEEDS,
    Verbs,
    add,
    add_experiment,
    add_flag,
    add_grid,
    add_targets,
    add_verb,
)
from repro.code.plugins import hashes
from repro.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_REQUEUE, UserError, nearest
from repro.files import is_leader
from repro.paths import all_records_dirs, data_dir, records_dirs, results_dir, runs_dir, trials_dir
from repro.recipe import Recipe, change_data, experiments, load_recipe, scales_of
from repro.record import RECORD_FILE, RunRecord, finished_record, read_records, write_atomic
from repro.seeds import SeedChoice, require_seed, unjudged
from repro.training.stop_request import StopRequest
from repro.yamls import flatten, parse_yaml, short

FEW = 10  # numbers that are shown after a run
POLL_S = 0.2
LOGGERS = ("csv", "tensorboard")


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    config = add_verb(verbs, "config", show_config)
    add_experiment(config)

    params = add_verb(verbs, "params", show_params)
    add_experiment(params)
    add_flag(params, "--json")

    run = add_verb(verbs, "run", run_one)
    add_experiment(run)
    target = run.add_mutually_exclusive_group()
    add(target, "--seed", "seed of the run (default: the first judged seed)", type=int)
    add(target, "--seeds", f"one after the other: {SEEDS}", metavar="SEEDS")
    add_grid(run)
    add_flag(run, "--all", "show every number in the end, not only the first")
    logger = "also write the curves as this logger of Lightning's does, in the run's folder"
    add(run, "--logger", logger, choices=LOGGERS)
    kept = run.add_mutually_exclusive_group()
    add_flag(kept, "--no-record", "of a trial: keep the record in the run's folder only")
    add_flag(kept, "--smoke", "only train two updates; no run folder, no record")
    add_flag(run, "--accept-changes", ACCEPT)

    reproduce = add_verb(verbs, "reproduce", reproduce_all)
    add_targets(reproduce)
    add(reproduce, "--seeds", f"{SEEDS} (default 3)", default="3", metavar="SEEDS")
    add(reproduce, "--list", "the runs of a list file, in its order", type=Path, metavar="FILE")
    limit = "stop after this time, with a checkpoint; the same command continues"
    add(reproduce, "--hours", limit, type=float)
    add_flag(reproduce, "--dry-run", "only print what would run")


def parse_grid(words: Sequence[str], overrides: Sequence[tuple[str, Any]]) -> list[list[tuple[str, Any]]]:
    """The settings of each point of a grid, ``model.optimizer.lr=1e-3,1e-2``, after those of all points.

    Raises:
        UserError: no dotted key, no value, or a key that is given twice.
    """
    axes = []
    for word in words:
        key, _, text = word.removeprefix("--").partition("=")
        values = parse_yaml(f"[{text}]", f"--grid {word}")
        if not is_setting(f"--{key}") or not values:
            raise UserError(
                f"--grid {word}: write a key of the recipe and values, model.optimizer.lr=1e-3,1e-2"
            )
        axes.append([(key, value) for value in values])
    keys = [key for key, _ in overrides] + [axis[0][0] for axis in axes]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise UserError(f"--grid: {twice[0]} is given twice; give each key once")
    return [[*overrides, *point] for point in itertools.product(*axes)]


def parse_overrides(
    extras: list[str], options: Sequence[str] = (), args: argparse.Namespace | None = None
) -> list[tuple[str, Any]]:
    """``--trainer.max_steps=10`` as (key, value) pairs.

    Args:
        extras: arguments that are not options of the verb, of those of :func:`joined`.
        options: the verb's options, of which the nearest is suggested.
        args: name the experiment whose keys are suggested, too.

    Raises:
        UserError: an argument that is not a setting, or a setting without a value.
    """
    pairs = []
    for word in extras:
        if not is_setting(word):
            close = _keys_ending(word, args) or (nearest(word, options) if word.startswith("--") else "")
            raise UserError(
                f"unknown argument {word!r}{close}; a key of the recipe is given in full, like --trainer.max_steps 10; "
                "`repro config EXPERIMENT` prints the keys"
            )
        key, equals, text = word[2:].partition("=")
        if not equals:
            raise UserError(f"{word} needs a value")
        pairs.append((key, parse_yaml(text, word)))
    return pairs


def is_setting(word: str) -> bool:
    """Whether an argument names a key of a recipe: ``--trainer.max_steps``, or a section that may be left out."""
    key = word.partition("=")[0]
    is_known = "." in key or key in ("--compile", "--matmul_precision", "--stop")
    return is_known and key.startswith("--") and all(key[2:].split("."))


def joined(words: Sequence[str]) -> list[str]:
    """The arguments with each key of a recipe and its value as one, so that an experiment may stand behind them."""
    result: list[str] = []
    for word in words:
        before = result[-1] if result else ""
        if is_setting(before) and "=" not in before and not word.startswith("--"):
            result[-1] += f"={word}"
        else:
            result.append(word)
    return result


def _keys_ending(word: str, args: argparse.Namespace | None) -> str:
    """A hint with the keys of the recipe that end with a word: ``--lr`` means ``--model.optimizer.lr``."""
    try:
        keys = flatten(load_recipe(args.experiment, args.scale).sections) if args else {}
    except (AttributeError, UserError):
        return ""
    last = word.removeprefix("--").partition("=")[0]
    fitting = [f"--{short(key)}" for key in keys if key.rpartition(".")[2] == last]
    return f"; the recipe has {', '.join(fitting[:3])}" if fitting else ""


def recipe_of(args: argparse.Namespace) -> Recipe:
    """The recipe that the arguments name.

    Raises:
        UserError: no such experiment or scale, or a paper, table or row.
    """
    paper = args.experiment.partition(":")[0]
    if paper in {name.split("/")[0] for name in experiments()}:
        raise UserError(
            f"{args.experiment!r} is not one experiment; `repro list {paper}` shows the paper's, and "
            f"`repro reproduce {args.experiment}` runs all of them"
        )
    return load_recipe(args.experiment, args.scale, args.overrides)


def show_config(args: argparse.Namespace) -> None:
    """Print the resolved configuration of an experiment."""
    import yaml

    recipe = recipe_of(args)
    print(f"# {recipe.experiment} at scale {recipe.scale}; signature {recipe.hash8}")
    print(yaml.safe_dump(recipe.config, sort_keys=False, allow_unicode=True), end="")


def show_params(args: argparse.Namespace) -> None:
    """Print the parameter count, next to the published one."""
    from repro.evidence.official import read_sizes
    from repro.experiment.parameters import count, describe

    recipe = recipe_of(args)
    counted = count(recipe)
    reasons = [size.explanation for size in read_sizes() if size.experiment == recipe.experiment]
    print(json.dumps([counted], indent=1) if args.json else describe(counted, next(iter(reasons), None)))


def run_one(args: argparse.Namespace) -> int:
    """Train, test and record one experiment, or resume it."""
    seed = args.seed
    if seed is not None:
        require_seed(seed)
    if args.smoke and (args.all or args.logger or args.accept_changes):
        raise UserError("--smoke resumes and writes nothing; leave out --all, --logger and --accept-changes")
    recipe = recipe_of(args)
    if args.seeds is not None or args.grid:
        return run_grid(args)
    seed = recipe.seeds[0] if seed is None else seed
    if args.logger == "tensorboard" and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
        raise UserError(
            "--logger tensorboard needs a package; `pip install tensorboard`, or take --logger csv"
        )
    if args.smoke:
        from repro.experiment.run import smoke

        losses, speed = smoke(recipe, seed)
        if is_leader():
            print(
                f"two updates of new weights: losses {losses[0]:.4f} and {losses[1]:.4f}, {speed:,.0f} tokens a second"
            )
        return EXIT_OK
    for line in unjudged(recipe.experiment, [seed], recipe.seeds) if is_leader() else ():
        print(line, file=sys.stderr)
    record = finished_record(recipe.run_dir(seed))
    if record:  # answered without torch and Lightning
        print(f"{record.run_id} is done; `repro show {record.run_id}` shows more")
        for what in changed_since(record):
            print(
                f"repro: {what} has changed since; to train with today's, remove {recipe.run_dir(seed)} or take "
                "another seed",
                file=sys.stderr,
            )
    else:
        from repro.evidence.goals import expected

        for results in () if args.no_record else {results_dir(), trials_dir()}:
            require_writable(results / "runs")
        numbers = expected(recipe)  # a fault in the paper's file is found before training
        published = numbers if recipe.scale == "paper" and not change_data(recipe.overrides) else {}
        kept, logger = not args.no_record, args.logger or ""
        record = train(recipe, seed, published, args.accept_changes, kept, logger)
    if is_leader():
        conclude(record, args.all)
    return EXIT_OK


def changed_since(record: RunRecord) -> list[str]:
    """Names the plugins that are not as when a run was recorded, and its store if it has other data now."""
    changed = [
        f"plugin {name}"
        for name, sha256 in hashes().items()
        if record.versions.get(f"plugin {name}") not in (None, f"sha256:{sha256}")
    ]
    name = record.data["name"]
    stores = [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in data_dir().glob(f"{name}/*/manifest.json")
    ]
    if stores and record.data["manifest_sha256"] not in stores:
        changed.append(f"store {name}")
    return changed


def run_grid(args: argparse.Namespace) -> int:
    """Runs every point of a grid with every seed, each in a process of its own."""
    flags = ("all", "accept-changes", "no-record", "smoke")
    passed = [f"--{name}" for name in flags if getattr(args, name.replace("-", "_"))]
    passed += ["--logger", args.logger] if args.logger else []
    if args.seeds is not None:
        choice = SeedChoice.parse(args.seeds)
    else:
        choice = SeedChoice(1) if args.seed is None else SeedChoice(named=(args.seed,))
    points = [load_recipe(args.experiment, args.scale, p) for p in parse_grid(args.grid, args.overrides)]
    chosen = [(recipe, seed) for recipe in points for seed in choice.select(recipe.seeds)]
    ids = [recipe.run_id(seed) for recipe, seed in chosen]
    if twice := [one for one in ids if ids.count(one) > 1]:
        raise UserError(
            f"--grid: several points are the run {twice[0]}; each point must change what is computed"
        )
    if args.grid:
        require_buildable(points)
    runs = []
    for recipe, seed in chosen:
        words = ["run", *recipe.words(seed), *passed]
        runs.append((" ".join([recipe.run_id(seed), *recipe.overrides]), words))
    code = run_each(runs)
    if code == EXIT_OK and not args.smoke:
        print(f"compare  `repro compare {' '.join(ids)}`")
    return code


def require_buildable(recipes: Iterable[Recipe]) -> None:
    """Builds each recipe on the meta device: a wrong setting of the last run is found before the first one trains.

    Raises:
        UserError: names the setting.
    """
    from repro.experiment.build import build

    for recipe in recipes:
        build(recipe, meta=True)


def run_each(runs: Sequence[tuple[str, list[str]]], hours: float = math.inf) -> int:
    """Runs one after the other, each in a process of its own; a failure does not stop the next.

    On Linux the processes are forks of this one, which imports what runs need once: a run starts seconds earlier.

    Args:
        runs: names for people (run id and settings), and the arguments of ``repro``.
        hours: after this time the current run is asked to stop, and no other starts.

    Returns:
        0; 1 if a run failed; 75 or 130 if one was asked to stop, after which no other starts.
    """
    result, end = EXIT_OK, time.monotonic() + 3600 * hours
    for name, words in runs:
        if time.monotonic() > end:
            return EXIT_REQUEUE
        print(name, flush=True)
        with StopRequest() as request:
            code = _ended(begin(words), request, end)
        if code:
            result = EXIT_FAILED
            print(f"repro: {name} ended with exit code {code}", file=sys.stderr)
        if request.is_requested:
            return EXIT_INTERRUPTED if request.by_user else EXIT_REQUEUE
        if code in (EXIT_REQUEUE, EXIT_INTERRUPTED):
            return code
    return result


def begin(words: list[str]) -> BaseProcess:
    """Starts ``repro`` with these arguments."""
    kind = "fork" if sys.platform == "linux" else "spawn"
    if kind == "fork":
        import repro.experiment.run  # noqa: F401  imports only: no thread pool and no GPU is in use when it forks
    context: Any = get_context(kind)
    process: BaseProcess = context.Process(target=_called, args=(words,))
    process.start()
    return process


def _called(words: list[str]) -> None:
    """Runs ``repro`` as ``python -m repro`` does; Lightning starts further ranks with the arguments in ``sys.argv``."""
    for number in StopRequest.SIGNALS:  # the handlers of the parent would only note a signal
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.argv[1:] = words
    runpy.run_module("repro", run_name="__main__")


def _ended(process: BaseProcess, request: StopRequest, end: float) -> int:
    """Waits for a run, and asks it once to stop when the time is up or this process is asked to stop.

    Ctrl-C reaches both from the terminal.
    """
    stopping = False
    while process.exitcode is None:
        process.join(POLL_S)
        stop = (request.is_requested and not request.by_user) or time.monotonic() > end
        if stop and not stopping:
            process.terminate()
            stopping = True
    return process.exitcode


def train(recipe: Recipe, seed: int, *options: Any) -> RunRecord:
    """Trains, tests and records one run, or resumes it; the options are those of :func:`repro.experiment.run.run`."""
    command = shlex.join(["repro", "run", *recipe.words(seed)])
    with StopRequest() as request:  # before the imports, which take seconds
        from repro.experiment.run import run

        return run(recipe, seed, command, request, *options)


def require_writable(folder: Path) -> None:
    """Checks before training that the record can be written.

    Raises:
        ReproError: it cannot; see :func:`repro.record.write_atomic`.
    """
    probe = folder / f".writable-{os.getpid()}"
    write_atomic(probe, b"")
    probe.unlink(missing_ok=True)


def conclude(record: RunRecord, every: bool = False) -> None:
    """After a run: prints its first numbers or all, where it is, and earlier records that have its weights."""
    from repro.report.formats.terminal import terminal_table

    print()
    print(terminal_table(record, None if every else FEW))
    print(f"\nrun     {runs_dir() / record.run_id}")
    for other in same_weights(record):
        commit = (other.commit or "unknown")[:9]
        print(f"equal   bit for bit the weights recorded on {other.finished[:10]} at commit {commit}")
    kept = [folder / record.path for folder in all_records_dirs() if (folder / record.path).is_file()]
    print(f"record  {kept[0] if kept else runs_dir() / record.run_id / RECORD_FILE}")
    if kept and kept[0].is_relative_to(results_dir() / "runs"):
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
    """Run everything that has no record yet, then make the tables."""
    from repro.launch.run_list import ListEntry, read_list, resolve_list
    from repro.launch.slurm.chain import needed
    from repro.launch.targets import not_judged, recipes_of

    if args.list and (args.targets or (args.scale, args.seeds) != ("paper", "3")):
        raise UserError(f"--list {args.list} excludes targets, --scale and --seeds; write them into the file")
    if args.hours is not None and not args.hours > 0:
        raise UserError(f"--hours must be above 0, not {args.hours:g}")
    targets = args.targets or sorted({e.split("/")[0] for e in experiments() if args.scale in scales_of(e)})
    entries = read_list(args.list) if args.list else [ListEntry(targets, args.scale, args.seeds)]
    specs, notices = resolve_list(entries)
    todo, _ = needed(specs, queued={})
    changed = [recipe for recipe in recipes_of(todo) if recipe.overrides]
    if changed:
        require_buildable(changed)
    recorded = sum(spec.done for spec in specs)
    first = len({spec.run_id for spec in todo} - {spec.run_id for spec in specs})
    before = f", {first} of them because others start from them" if first else ""
    print(f"{len(specs)} runs, {recorded} recorded, {len(todo)} to do{before}")
    damaged = read_records(*all_records_dirs()).damaged
    for line in [*damaged, *notices, *(not_judged(todo) if args.dry_run else ())]:
        print(line, file=sys.stderr)
    if args.dry_run:
        for spec in todo:
            hours = spec.recipe.config.get("hours")
            missing = [store for store in spec.stores if not (data_dir() / store).is_dir()]
            time_needed = f"{hours:g} h" if hours else "hours unknown"
            notes = [time_needed, *spec.recipe.overrides, *(f"data missing: {name}" for name in missing)]
            print(f"{spec.run_id}  {', '.join(notes)}")
        return EXIT_OK
    runs = [(spec.run_id, ["run", *spec.recipe.words(spec.seed)]) for spec in todo]
    code = run_each(runs, args.hours or math.inf)
    if code in (EXIT_OK, EXIT_FAILED):
        from repro.report.render import write_tables

        write_tables()
        print(f"tables  {results_dir() / 'tables'}; `repro tables` builds the page")
    return code
