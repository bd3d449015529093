"""The verb cost: what runs cost, before they run."""

import argparse
import json
import sys
import time
from collections.abc import Sequence

from repro.cli.arguments import Verbs, add, add_flag, add_targets, add_verb
from repro.errors import UserError, at_least
from repro.recipe import Recipe, load_recipe


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    cost = add_verb(verbs, "cost", show_costs)
    add_targets(cost, more=" (default: everything)")
    cost.add_argument(
        "--gpu", action="append", default=[], metavar="NAME",
        help="H200, H100, A100, V100, P100, P40, '1080 Ti'; again for more (default: H100, A100, V100, the paper's)",
    )  # fmt: skip
    form = cost.add_mutually_exclusive_group()
    add_flag(form, "--json")
    add_flag(form, "--markdown", "print tables by paper, as in docs/cost.md")
    measure = "time real updates on this machine's GPU or CPU, and write results/measured-cost.json"
    add_flag(form, "--measure", measure)
    minutes = "with --measure: begin nothing later; the next call goes on (default: 9)"
    add(cost, "--minutes", minutes, type=float, default=9.0)
    cost.set_defaults(overrides=[])
    cost.epilog = "any key of the recipes can be set: --data.batch_tokens 50000"


def show_costs(args: argparse.Namespace) -> None:
    """Count FLOPs and memory of training, and estimate GPU hours."""
    from tqdm import tqdm

    from repro.experiment.costs.estimate import cost
    from repro.experiment.costs.page import page
    from repro.experiment.costs.roofline import gpu_named
    from repro.experiment.costs.show import as_json, chosen, describe
    from repro.launch.targets import experiments_at

    gpus = [gpu_named(name) for name in args.gpu]
    if args.markdown and (gpus or args.scale != "paper"):
        raise UserError("--markdown is for scale paper and has its own GPUs; leave out --scale, --gpu")
    names = experiments_at(args.targets, args.scale)
    if args.measure:
        measure_updates([load_recipe(name, args.scale, args.overrides) for name in names], args.minutes)
        return
    # without a bar where the costs themselves appear on the terminal
    shown = tqdm(names, disable=sys.stdout.isatty() or None)
    costs = (cost(load_recipe(name, args.scale, args.overrides)) for name in shown)
    if args.markdown:
        print(page(costs), end="")
    elif args.json:
        print(json.dumps([as_json(one, chosen(gpus, one)) for one in costs], indent=1))
    else:
        for one in costs:
            print(describe(one, chosen(gpus, one)) + "\n", flush=True)


def measure_updates(recipes: Sequence[Recipe], minutes: float) -> None:
    """Prints a line for each measured variant, and how many are left."""
    import torch

    from repro.experiment.costs.estimate import cost
    from repro.experiment.costs.measure import measure_all
    from repro.experiment.costs.show import measurement

    at_least(0, **{"--minutes": minutes})
    ends = time.monotonic() + 60 * minutes
    device, left = torch.device("cuda" if torch.cuda.is_available() else "cpu"), 0
    for row in measure_all(recipes, device, cost, ends):
        left += row is None
        if row is not None:
            print(measurement(row), flush=True)
    print(f"{left} left; the same command goes on" if left else "all measured")
