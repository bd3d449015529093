"""Verbs that ask how much context helps trained language models: recl."""

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
        "recl", help="relative effective context length of a group of trained language models"
    )
    runs = recl.add_argument("runs", nargs="+", metavar="RUN", help="run folder, run id or experiment")
    completed(runs, complete_experiments)
    recl.add_argument("--scale", choices=SCALES, help="of experiments (default: the newest run)")
    recl.add_argument("--run-seed", type=int, help="of experiments (default: the newest run)")
    for name, default, what in (
        ("start", 100, "the first context in tokens"),
        ("step", 100, "by which contexts grow"),
        ("longest", 1000, "no context is longer"),
        ("places", 1000, "tokens that are scored"),
    ):
        recl.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{what} (default {default})"
        )
    recl.add_argument(
        "--ratios",
        type=float,
        nargs="+",
        default=[0.1, 0.5, 1.0],
        metavar="R",
        help="shares of hardest places",
    )
    recl.add_argument("--split", choices=("train", "val", "test"), default="test")
    recl.add_argument("--json", action="store_true")
    recl.set_defaults(handler=compare_runs)


def compare_runs(args: argparse.Namespace) -> None:
    from repro.experiment.context import Comparison, compare, load_reader

    ratios = tuple(dict.fromkeys(args.ratios))
    asked = Comparison(args.start, args.step, args.longest, ratios, args.places, args.split)
    readers = [load_reader(word, args.scale, args.run_seed) for word in args.runs]
    found = compare(readers, asked, tell)
    print(json.dumps(found, indent=1) if args.json else table(found))


def tell(line: str) -> None:
    """Says on a terminal what is under way."""
    if sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def table(found: list[dict[str, Any]]) -> str:
    """For people: a row for each run, a column for each ratio; ``+`` where the search ended before the gains did."""
    from tabulate import tabulate

    ratios = list(found[0]["recl"])
    rows = []
    for one in found:
        lengths = (f"{one['recl'][r]}{'+' if one['at_longest'][r] else ''}" for r in ratios)
        rows.append([one["run"], f"{one['parameters']:,}", *lengths])
    heads = ["run", "parameters", *(f"RECL r={r}" for r in ratios)]
    text = tabulate(rows, heads, tablefmt="simple", disable_numparse=True)
    if any(any(one["at_longest"].values()) for one in found):
        text += f"\n+ at least: with more context than --longest {found[0]['longest']} it might be longer"
    return f"{text}\nlengths compare within this group only"
