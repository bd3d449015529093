"""How fast pictures are drawn value by value: carried state beside recomputing, for three kinds of attention.

    python -m benchmarks.drawing [--shape mnist] [--batches 1 8] [--sides linear "softmax, state"]

The networks have the size of the paper's and random weights, on which speed does not depend: 8 layers for MNIST's 784
values, 16 for CIFAR-10's 3,072, width 256, 8 heads, feed-forward width 1024, 10 logistics. Random choice is included.
`linear` and `softmax, state` keep a state (sums, or keys and values) and read one value at a time. `softmax, anew` and
`lsh-R, anew` read all values so far for every new one, as the paper's softmax and LSH do. Only some values of a picture
are timed, in runs spread evenly over it, and their mean stands for the others (`repro.models.draw.timed_drawing`); the
table says how many. Sides take turns, so that a busy machine slows all; a side's time is the median of its turns.
`--cpu-time` counts seconds of computing, for one thread on a machine that others use.

Where a state is carried, values given one by one must have the distributions that one pass gives them, or the benchmark
fails. The published numbers are of GPUs that the paper does not name, each method with the largest batch that fits;
what can be compared is the order, and how factors grow from MNIST to CIFAR-10. Prints a table and one line of JSON;
takes some three minutes of computing for MNIST.

Source: Katharopoulos et al. 2020, tables 1, 2, 4 (images a second) and 5 (seconds for one image, batch 1).
"""

import argparse
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from tabulate import tabulate
from torch import nn

from repro.models import DecoderLM
from repro.models.draw import Drawing, timed_drawing
from repro.nn import (
    Blocks,
    Concatenated,
    FeedForward,
    FullAttention,
    Hashing,
    LinearAttention,
    LSHAttention,
    PixelVocabulary,
)

WIDTH, HEADS, D_FF = 256, 8, 1024


@dataclass(frozen=True)
class Shape:
    """Pictures and the network that draws them; ``chunk`` of LSH divides the values that are read in training."""

    n_values: int
    n_layers: int
    chunk: int


SHAPES = {"mnist": Shape(784, 8, 29), "cifar10": Shape(3072, 16, 37)}
# Images a second on a GPU (tables 1, 2, 4), seconds for one image on a CPU (table 5)
PUBLISHED = {
    "mnist": {
        "linear": (142.8, 5.5),
        "softmax, state": (7.56, 7.4),
        "softmax, anew": (0.45, 72.6),
        "lsh-1, anew": (0.68, 46.0),
        "lsh-4, anew": (0.27, 112.0),
    },
    "cifar10": {
        "linear": (17.85, 45.1),
        "softmax, state": (0.32, 71.9),
        "softmax, anew": (0.004, 8651.4),
        "lsh-1, anew": (0.015, 2318.9),
        "lsh-4, anew": (0.005, 5263.7),
    },
}
SIDES = tuple(PUBLISHED["mnist"])


class Side:
    """One way of drawing."""

    def __init__(self, name: str, shape: Shape, device: str) -> None:
        kind, _, way = name.partition(", ")
        self.name = name
        self.cached = way != "anew"
        mixer = {"linear": LinearAttention, "softmax": FullAttention}.get(kind)
        if mixer is None:  # as in the paper's own code
            hashing = Hashing.averaged(int(kind.removeprefix("lsh-")), shape.chunk, 64)
            mixer = partial(LSHAttention, hashing=hashing)
        torch.manual_seed(0)
        blocks = Blocks(
            mixers=[partial(mixer, n_heads=HEADS)],
            feed_forward=partial(FeedForward, d_ff=D_FF),
            final_norm=nn.LayerNorm,
        )
        positions = partial(Concatenated, width=WIDTH // 2)
        self.net = DecoderLM(WIDTH, shape.n_layers, PixelVocabulary, blocks, positions).to(device).eval()


@torch.inference_mode()
def check(side: Side, tokens: int) -> float:
    """Largest difference between values one by one and in one pass, in log-probability; exits if it is not rounding."""
    if not side.cached:
        return 0.0
    ids = torch.randint(256, (2, tokens), device=next(side.net.parameters()).device)
    state = side.net.init_state(2, capacity=tokens)
    for place in range(tokens):
        y, state, *_ = side.net.decode(ids[:, place : place + 1], state)
    each, once = (side.net.vocabulary.log_probs(h[:, -1]) for h in (y, side.net(ids).y))
    gap = float((each - once).abs().max())
    if not gap < 1e-3:
        sys.exit(f"{side.name}: one by one, values have other distributions than in one pass: {gap:.2g}")
    return gap


def measure(args: argparse.Namespace, batch: int) -> list[dict[str, Any]]:
    """Times every side at one batch size."""
    shape = SHAPES[args.shape]
    sides = [Side(name, shape, args.device) for name in args.sides]
    gaps = [check(side, 100) for side in sides]
    clock = time.process_time if args.cpu_time else time.perf_counter
    turns: dict[str, list[Drawing]] = {side.name: [] for side in sides}
    for _ in range(args.repeats):
        for side in sides:
            values = args.values if side.cached else args.values_anew
            drawn = timed_drawing(side.net, batch, shape.n_values, side.cached, values or None, clock)
            turns[side.name].append(drawn)
    found = []
    for side, gap in zip(sides, gaps, strict=True):
        last = turns[side.name][-1]
        rates = [one.images_per_s for one in turns[side.name]]
        one = {"side": side.name, "batch": batch, "images_per_s": statistics.median(rates), "turns": rates}
        one |= {"seconds_per_image": 1 / one["images_per_s"], "measured_values": last.measured}
        found.append(one | {"extrapolated": last.extrapolated, "gap": gap})
    return found


def table(found: list[dict[str, Any]], shape: str) -> str:
    """For people."""
    slow = {one["batch"]: one["images_per_s"] for one in found if one["side"] == "softmax, anew"}
    rows = []
    for one in found:
        rate, seconds = PUBLISHED[shape][one["side"]]
        base = slow.get(one["batch"])
        times = one["images_per_s"] / base if base else None
        latency = (one["seconds_per_image"], seconds) if one["batch"] == 1 else (None, None)
        rows.append(
            [one["side"], one["batch"], one["images_per_s"], times, *latency, rate, one["measured_values"]]
        )
    heads = ["side", "batch", "images/s", "times softmax anew", "s for one", "published (a CPU)"]
    heads += ["published images/s (a GPU)", "values timed"]
    return tabulate(rows, heads, floatfmt=("", "", ".3g", ".3g", ".3g", ".4g", ".4g", ""))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=list(SHAPES), default="mnist")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8], help="pictures side by side")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE")
    for name, default, what in (
        ("values", 64, "values of a picture that are timed where a state is carried; 0 for all"),
        ("values-anew", 4, "the same where everything is read anew"),
        ("repeats", 3, "turns of each side"),
        ("threads", 1, "of the CPU"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what}; default {default}")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default cpu")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing, not on the clock")
    args = parser.parse_args()
    if min(*args.batches, args.repeats, args.threads) < 1 or min(args.values, args.values_anew) < 0:
        parser.error("batches, repeats and threads must be at least 1, values at least 0")
    torch.set_num_threads(args.threads)
    found = [one for batch in args.batches for one in measure(args, batch)]
    print(table(found, args.shape))
    line = {"benchmark": "drawing", **vars(args), **asdict(SHAPES[args.shape]), "results": found}
    line |= {"published": PUBLISHED[args.shape], "torch": torch.__version__}
    if args.device.startswith("cuda"):
        line["gpu"] = torch.cuda.get_device_name(args.device)
    print(json.dumps(line))


if __name__ == "__main__":
    main()
