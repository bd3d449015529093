"""The verb that draws the attention of trained models: attention."""

import argparse
from pathlib import Path

from repro.cli.arguments import Verbs
from repro.cli.infer import add_run


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    attention = verbs.add_parser(
        "attention", help="draw the attention of a trained run over its continuous memory"
    )
    add_run(attention)
    attention.add_argument("--out", type=Path, required=True, metavar="PNG", help="the file that is written")
    for name in ("layers", "heads"):
        attention.add_argument(
            f"--{name}",
            type=int,
            nargs="+",
            metavar="N",
            help=f"{name} that are drawn, from 1 (default: all)",
        )
    attention.set_defaults(handler=draw_attention)


def draw_attention(args: argparse.Namespace) -> None:
    from repro.experiment.memory_pictures import load_captures, memory_sheet
    from repro.record import write_atomic

    captures = load_captures(args.run, args.scale, args.run_seed)
    run = "/".join(Path(args.run).parts[-4:])  # of a folder, the run's id
    title = f"{run}: the last queries of the first example of the test split"
    write_atomic(args.out, memory_sheet(title, captures, args.layers, args.heads))
