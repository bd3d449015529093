"""Time and memory of a token against the length of its sequence: linear, hashed, local and exact attention.

    python -m benchmarks.lengths [--cpu-time --threads 1] [--device cuda]

Every step has 32,768 tokens, in as many sequences as their length N leaves, from 512 to 32,768. A step is a causal
layer of width 256 with 8 heads, projections included, forward and backward from random input; `exact, spelled out`
makes all weights, as the code of its time did, for lengths whose weights fit --gigabytes. The lengths of a mixer take
turns, and the growth from 2,048 to the last length is the median of the ratios of neighbours. Memory is the most held
at a time beyond weights and input, to the byte. Slopes are of the logarithms over the longest three lengths.

Then a whole small network (4 layers, width 256, 8 heads) generates token by token with carried state, by turns at place
100 and at place 10,000: with linear attention, and with exact attention and its cache.

Prints tables and one line of JSON that holds every point.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    FeedForward,
    FullAttention,
    Hashing,
    Layout,
    LinearAttention,
    LocalAttention,
    LSHAttention,
    MixerOutput,
    Vocabulary,
)
from repro.nn.attention.full import spelled_out, split_heads
from repro.nn.mixer import nbytes
from repro.tasks.costs.peak import peak_bytes

TOKENS, WIDTH, HEADS = 32_768, 256, 8
LENGTHS = [2**i for i in range(9, 16)]
PLACES = (100, 10_000)


class SpelledOut(FullAttention):
    """Exact attention that makes all its weights."""

    def forward(self, x: Tensor, state: Any, layout: Layout) -> MixerOutput:
        """Without a state."""
        parts = (split_heads(p, HEADS).transpose(1, 2) for p in self.qkv(x).split(self.widths, dim=-1))
        return MixerOutput(self.out(spelled_out(*parts, None, layout.causal, 0.0).transpose(1, 2).flatten(2)))


MIXERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: LinearAttention(WIDTH, HEADS),
    "LSH-1": lambda: LSHAttention(WIDTH, HEADS, Hashing(1)),
    "LSH-4": lambda: LSHAttention(WIDTH, HEADS, Hashing(4)),
    "local": lambda: LocalAttention(WIDTH, HEADS),
    "exact": lambda: FullAttention(WIDTH, HEADS),
    "exact, spelled out": lambda: SpelledOut(WIDTH, HEADS),
}


class Step:
    """One mixer at one length.

    Args:
        mixer: what is timed.
        length: N.
        device: cpu or cuda.
        clock: seconds.
    """

    def __init__(self, mixer: nn.Module, length: int, device: str, clock: Callable[[], float]) -> None:
        self.mixer, self.clock, self.device = mixer, clock, device
        self.x = torch.randn(TOKENS // length, length, WIDTH, device=device).requires_grad_()
        self.grad = torch.randn_like(self.x)

    def now(self) -> float:
        """The clock, once the device has done what it was given."""
        if self.device == "cuda":
            torch.cuda.synchronize()
        return self.clock()

    def run(self) -> tuple[float, float]:
        """Seconds of the forward pass, and of both."""
        began = self.now()
        y = self.mixer(self.x, None, Layout(True)).y
        between = self.now()
        torch.autograd.grad(y, [self.x, *self.mixer.parameters()], self.grad)
        return between - began, self.now() - began

    def peak(self) -> int:
        """Bytes held at a time beyond what there was before."""
        if self.device != "cuda":
            return peak_bytes(self.run)
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        self.run()
        return torch.cuda.max_memory_allocated() - before


def fits(name: str, length: int, gigabytes: float) -> bool:
    """Whether the weights of exact attention, and their gradients, may be made."""
    return name != "exact, spelled out" or 3 * 4 * TOKENS * HEADS * length < gigabytes * 1e9


def measure(name: str, args: argparse.Namespace, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """One point for each length."""
    torch.manual_seed(0)
    mixer = MIXERS[name]().to(args.device)
    steps = {n: Step(mixer, n, args.device, clock) for n in args.lengths if fits(name, n, args.gigabytes)}
    peaks = {n: step.peak() for n, step in steps.items()}  # warms up
    turns: list[dict[int, tuple[float, float]]] = []
    began = time.perf_counter()
    while len(turns) < args.repeats and (not turns or time.perf_counter() - began < args.seconds):
        turns.append({n: step.run() for n, step in steps.items()})
    points = []
    for n in steps:
        growth = statistics.median(turn[n][1] / turn[2048][1] for turn in turns) if 2048 in steps else None
        forward, both = (statistics.median(turn[n][i] for turn in turns) for i in (0, 1))
        points.append(
            {"mixer": name, "length": n, "batch": TOKENS // n, "turns": len(turns), "times_2048": growth}
            | {"forward_us_per_token": 1e6 * forward / TOKENS, "us_per_token": 1e6 * both / TOKENS}
            | {"peak_bytes_per_token": peaks[n] / TOKENS}
        )
    return points


def slope(points: list[dict[str, Any]], key: str) -> float | None:
    """Of the logarithm of what a token takes against that of the length, by least squares over the last three."""
    if len(points) < 3:
        return None
    x, y = ([math.log(p[k]) for p in points[-3:]] for k in ("length", key))
    return statistics.linear_regression(x, y).slope


def network(mixer: Callable[[int], nn.Module]) -> DecoderLM:
    """A small language model."""
    blocks = Blocks(mixers=[mixer], feed_forward=partial(FeedForward, d_ff=4 * WIDTH))
    return DecoderLM(WIDTH, 4, partial(Vocabulary, size=256), blocks).eval()


@torch.inference_mode()
def generation(args: argparse.Namespace, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """Milliseconds of a token, logits included, at each place."""
    points = []
    for name, maker in {"linear": LinearAttention, "exact": FullAttention}.items():
        torch.manual_seed(0)
        model = network(partial(maker, n_heads=HEADS)).to(args.device)
        states = {}
        for place in PLACES:
            state = model.init_state(1, capacity=place + 2 * args.tokens)
            states[place] = model(torch.randint(256, (1, place), device=args.device), state).state
        seconds: dict[int, list[float]] = {place: [] for place in PLACES}
        token = torch.zeros(1, 1, dtype=torch.long, device=args.device)
        for _ in range(args.tokens):
            for place in PLACES:
                began = clock()
                mixed = model.decode(token, states[place])
                int(model.vocabulary.logits(mixed.y).argmax())  # waits for the device
                seconds[place].append(clock() - began)
                states[place] = mixed.state
        times = statistics.median(b / a for a, b in zip(*seconds.values(), strict=True))
        for place, values in seconds.items():
            point = {"mixer": name, "place": place, "ms_per_token": 1e3 * statistics.median(values)}
            points.append(point | {"state_bytes": nbytes(states[place]), "times_first": times})
    return points


def show(points: list[dict[str, Any]]) -> None:
    """The table of one mixer."""
    keys = ["length", "forward_us_per_token", "us_per_token", "times_2048", "peak_bytes_per_token"]
    heads = ["N", "forward us", "both us", "times 2048", "bytes"]
    print(f"\n{points[0]['mixer']}, for each token")
    print(
        tabulate([[p[k] for k in keys] for p in points], heads, floatfmt=(".0f", ".2f", ".2f", ".2f", ".0f")),
        flush=True,
    )


def main() -> None:
    """Measures every mixer at every length, and generation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mixers", nargs="+", default=list(MIXERS), choices=list(MIXERS))
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--repeats", type=int, default=5, help="turns of all lengths; default 5")
    parser.add_argument("--seconds", type=float, default=60, help="no further turn after so many; default 60")
    parser.add_argument(
        "--gigabytes", type=float, default=8, help="for weights that are spelled out; default 8"
    )
    parser.add_argument("--tokens", type=int, default=200, help="generated at each place; default 200")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing; takes --threads 1")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    points = []
    for name in args.mixers:
        points.append(measure(name, args, clock))
        show(points[-1])
    rows = [
        [
            p[-1]["mixer"],
            p[-1]["length"],
            p[-1]["times_2048"],
            slope(p, "us_per_token"),
            slope(p, "peak_bytes_per_token"),
        ]
        for p in points
    ]
    print("\n" + tabulate(rows, ["", "last N", "times 2048", "slope of time", "of memory"], floatfmt=".2f"))
    generated = generation(args, clock)
    print("\n" + tabulate(generated, headers="keys", floatfmt=".2f"))
    line = {"benchmark": "lengths", **vars(args), "tokens_per_step": TOKENS, "torch": torch.__version__}
    print(json.dumps(line | {"points": [q for p in points for q in p], "generation": generated}))


if __name__ == "__main__":
    main()
