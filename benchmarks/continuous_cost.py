"""What a continuous memory costs behind contexts of any length: `python -m benchmarks.continuous_cost`.

A small language model with sticky memories reads a stream of random tokens in blocks. Sources each context its state is
kept; from there a training step on the next block (forward and backward) and the next block token by token, in place,
are timed. Contexts take turns, so that a busy machine slows all; a time is the median of its turns. `--cpu-time` counts
seconds of computing, for one thread on a machine that others use. The benchmark fails where the shape of a state
differs. Beside the bytes stand those of all keys and values of a Transformer of the same size. Prints a table and one
line of JSON; `--write FOLDER` puts the line and a figure there.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from tabulate import tabulate

from repro.models import DecoderLM
from repro.nn import (
    Blocks,
    ContinuousMemory,
    ContinuousSignal,
    FeedForward,
    NoPositions,
    PreNorm,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.mixer import State, detach, leaves, nbytes, tree_map
from repro.report.plots.chart import Chart, Panel, PlotLine
from repro.report.plots.files import content
from repro.report.plots.plot import SWEEPS, Plot

WIDTH, LAYERS, HEADS, SYMBOLS, BASIS, SAMPLES, BINS = 64, 2, 4, 100, 64, 64, 32
CONTEXTS = (1_000, 10_000, 100_000, 1_000_000)
FILE = "continuous-cost"


def network(block: int) -> DecoderLM:
    """Layers of which each keeps ``block`` tokens and a sticky continuous memory."""
    torch.manual_seed(0)
    mixer = partial(
        ContinuousMemory,
        short_term=partial(RelativeAttention, n_heads=HEADS, mem_len=block),
        block=block,
        signal=ContinuousSignal(BASIS, (0.01, 0.05), samples=SAMPLES, bins=BINS),
    )
    blocks = Blocks([mixer], partial(FeedForward, d_ff=2 * WIDTH), partial(PreNorm, dropout=0.0))
    return DecoderLM(WIDTH, LAYERS, partial(Vocabulary, size=SYMBOLS), blocks, NoPositions, dropout=0.0)


@torch.no_grad()
def read(net: DecoderLM, contexts: Sequence[int], block: int, capacity: int | None) -> dict[int, State]:
    """The state behind each context, of one stream of random tokens."""
    state, done, found = net.init_state(1, capacity), 0, {}
    for context in contexts:
        while done < context:
            state = net(torch.randint(SYMBOLS, (1, block)), state).state
            done += block
        found[context] = tree_map(torch.clone, state)
    return found


def shapes(state: State) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and type of every tensor."""
    return [(tuple(leaf.shape), leaf.dtype) for leaf in leaves(state)]


def training_step(net: DecoderLM, ids: torch.Tensor, state: State) -> None:
    """Forward and backward on one block, which ends in no update of weights."""
    net.zero_grad()
    mixed = net(ids[:, :-1], detach(state))
    loss = net.vocabulary.nll(mixed.y.flatten(0, 1), ids[:, 1:].flatten()).mean()
    (loss if mixed.aux is None else loss + mixed.aux.mean()).backward()


@torch.no_grad()
def one_by_one(net: DecoderLM, ids: torch.Tensor, state: State) -> None:
    """Tokens one by one, written in place."""
    for token in ids.split(1, dim=1):
        mixed = net(token, state)
        net.vocabulary.log_probs(mixed.y[:, -1])
        state = mixed.state


def medians(calls: dict[int, Callable[[], None]], turns: int, clock: Callable[[], float]) -> dict[int, float]:
    """Median seconds of each call; they take turns, and the first turn warms up."""
    times: dict[int, list[float]] = {key: [] for key in calls}
    for _ in range(turns + 1):
        for key, call in calls.items():
            start = clock()
            call()
            times[key].append(clock() - start)
    return {key: statistics.median(seconds[1:]) for key, seconds in times.items()}


def measure(args: argparse.Namespace) -> list[dict[str, float]]:
    """Bytes and seconds behind each context."""
    net, block = network(args.block), args.block
    states, in_place = (read(net, args.contexts, block, capacity) for capacity in (None, 3 * block))
    for kind in (states, in_place):
        if any(shapes(state) != shapes(kind[args.contexts[0]]) for state in kind.values()):
            raise SystemExit("the shape of a state depends on the context")
    ids = torch.randint(SYMBOLS, (1, block + 1))
    clock = time.process_time if args.cpu_time else time.perf_counter
    training = medians({n: partial(training_step, net, ids, s) for n, s in states.items()}, args.turns, clock)
    calls = {n: partial(one_by_one, net, ids[:, :-1], state) for n, state in in_place.items()}
    decoding = medians(calls, args.turns, clock)
    return [
        {
            "context": n,
            "bytes": nbytes(states[n]),
            "bytes_in_place": nbytes(in_place[n]),
            "keys_and_values": 2 * LAYERS * n * WIDTH * 4,
            "training_step_s": training[n],
            "token_s": decoding[n] / block,
        }
        for n in args.contexts
    ]


def figure(found: list[dict[str, float]]) -> Plot:
    """Bytes and times against the context."""

    def panel(upwards: str, factor: float, *names: str) -> Panel:
        values = [[(one["context"], one[name] * factor) for one in found] for name in names]
        lines = [PlotLine(look, points) for look, points in enumerate(values)]
        several = len(names) > 1
        return Panel("context in tokens", upwards, lines, log_x=True, log_y=several, from_zero=not several)

    chart = Chart(
        "A continuous memory behind a long context",
        ["continuous memory", "all keys and values"],
        [
            panel("KiB of state", 1 / 1024, "bytes", "keys_and_values"),
            panel("ms for a training step", 1e3, "training_step_s"),
            panel("ms for a token", 1e3, "token_s"),
        ],
    )
    return Plot(f"{FILE}.svg", SWEEPS, "bytes and times against the context", chart)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command line of this benchmark."""
    parser.add_argument("--contexts", type=int, nargs="+", default=list(CONTEXTS))
    for name, usual in (("block", 125), ("turns", 15), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=usual, help=f"default {usual}")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing, not on the clock")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="for a line of JSON and a figure")


def main(args: argparse.Namespace) -> None:
    """Measures, prints and writes."""
    if min(*args.contexts, args.block, args.turns, args.threads) < 1:
        raise SystemExit("contexts and counts must be at least 1")
    if min(args.contexts) < 4 * args.block or any(context % args.block for context in args.contexts):
        raise SystemExit(f"contexts must be multiples of the block {args.block}, four times as long at least")
    args.contexts = sorted(set(args.contexts))
    torch.set_num_threads(args.threads)
    found = measure(args)
    heads = ["context", "KiB", "KiB in place", "KiB of keys and values", "ms a training step", "ms a token"]
    scales = (1, 1 / 1024, 1 / 1024, 1 / 1024, 1e3, 1e3)
    rows = [[value * scale for value, scale in zip(one.values(), scales, strict=True)] for one in found]
    print(tabulate(rows, heads, floatfmt=(",.0f", ".1f", ".1f", ".0f", ".1f", ".2f")))
    said = {name: value for name, value in vars(args).items() if name not in ("write", "run", "mode")}
    line = json.dumps({"benchmark": FILE, **said, "results": found, "torch": torch.__version__})
    print(line)
    if args.write is not None:
        args.write.mkdir(parents=True, exist_ok=True)
        (args.write / f"{FILE}.jsonl").write_text(line + "\n", encoding="utf-8")
        path = args.write / f"{FILE}.svg"
        path.write_bytes(content(figure(found), path))


if __name__ == "__main__":
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(made)
    main(made.parse_args())
