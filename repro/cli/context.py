"""The verb that measures how much context helps trained language models: recl."""

import argparse
import json
import sys
from typing import Any

from repro.cli.arguments import Verbs, completed
from repro.recipe import SCALES


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    from repro.cli.runs import complete_experiments

    recl = verbs.add_parser(
        "recl", help="compute the relative effective context length (RECL) of a group of language models"
    )
    runs = recl.add_argument("runs", nargs="+", metavar="RUN", help="run folder, run id or experiment")
    completed(runs, complete_experiments)
    recl.add_argument(
        "--scale", choices=SCALES, help="scale, if RUN is an experiment (default: the newest run)"
    )
    recl.add_argument("--run-seed", type=int, help="seed, if RUN is an experiment (default: the newest run)")
    for name, default, meaning in (
        ("start", 100, "the first context in tokens"),
        ("step", 100, "step between contexts in tokens"),
        ("longest", 1000, "the longest context in tokens"),
        ("places", 1000, "tokens that are scored"),
    ):
        recl.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{meaning} (default {default})"
        )
    recl.add_argument(
        "--ratios",
        type=float,
        nargs="+",
        default=[0.1, 0.5, 1.0],
        metavar="R",
        help="shares of the hardest tokens",
    )
    recl.add_argument("--split", choices=("train", "val", "test"), default="test")
    recl.add_argument("--json", action="store_true")
    recl.set_defaults(handler=compare_runs)


def compare_runs(args: argparse.Namespace) -> None:
    from repro.experiment.context import ContextSettings, compare, load_reader

    ratios = tuple(dict.fromkeys(args.ratios))
    settings = ContextSettings(args.start, args.step, args.longest, ratios, args.places, args.split)
    readers = [load_reader(word, args.scale, args.run_seed) for word in args.runs]
    results = compare(readers, settings, tell)
    print(json.dumps(results, indent=1) if args.json else table(results))


def tell(line: str) -> None:
    """Prints progress to stderr, if that is a terminal."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def table(results: list[dict[str, Any]]) -> str:
    """Text table: a row for each run, a column for each ratio; ``+`` where the search ended before the gains did."""
    from tabulate import tabulate

    ratios = list(results[0]["recl"])
    rows = []
    for result in results:
        lengths = (f"{result['recl'][r]}{'+' if result['at_longest'][r] else ''}" for r in ratios)
        rows.append([result["run"], f"{result['parameters']:,}", *lengths])
    heads = ["run", "parameters", *(f"RECL r={r}" for r in ratios)]
    text = tabulate(rows, heads, tablefmt="simple", disable_numparse=True)
    if any(any(result["at_longest"].values()) for result in results):
        text += f"\n+ at least: with more context than --longest {results[0]['longest']} RECL may be longer"
    return f"{text}\nlengths compare within this group only"
