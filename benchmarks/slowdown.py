"""How much slower a model without a memory is when it gives one token at a time the same attention length.

    python -m benchmarks.slowdown [--lengths 100 200 400 800]

Without a memory: attention over absolute positions, and for every token one whole pass over the ``length`` tokens up to
it, of which only the last position is used. With one: relative attention that keeps keys and values, one token a call;
every token attends to ``length`` tokens, itself included, as in the whole pass. Both have the same size, batch 1 and
random weights; both compute the distribution of the next token and nothing else.

Sides take turns, so that a busy machine slows both; a side's time is the median of its turns, a ratio the median of the
ratios of neighbours. The tokens given one by one must have the distributions that one long pass gives them, or the
benchmark fails. ``--cpu-time`` counts seconds of computing instead of seconds on the clock, for one thread on a machine
that others use. The claim is that the ratio grows about linearly with the length: the exponent is that of a power law
through all the ratios. The published ratios are of larger models on a GPU and no target. Prints a table and one line
of JSON.

Source: Dai et al. 2019, table 9.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from repro.models import DecoderLM
from repro.nn import (
    Added,
    Blocks,
    FeedForward,
    FullAttention,
    NoPositions,
    PostNorm,
    RelativeAttention,
    Vocabulary,
)
from repro.nn.settings import CallSettings, MemorySettings

Clock = Callable[[], float]
PUBLISHED = {800: 363, 1800: 773, 2800: 1409, 3800: 1874}


@dataclass(frozen=True)
class Shape:
    """Both models."""

    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 512
    n_layers: int = 4
    vocab_size: int = 1000

    def build(self, mixer: Callable[[int], Any], positions: Any) -> DecoderLM:
        """A model of this shape."""
        blocks = Blocks(
            mixers=[mixer],
            feed_forward=partial(FeedForward, d_ff=self.d_ff),
            sublayer=partial(PostNorm, dropout=0.0),
        )
        vocabulary = partial(Vocabulary, size=self.vocab_size)
        return DecoderLM(self.d_model, self.n_layers, vocabulary, blocks, positions, dropout=0.0).eval()


class Anew:
    """No memory: every token is a pass over all that it sees."""

    def __init__(self, shape: Shape, length: int, device: str) -> None:
        self.model = shape.build(partial(FullAttention, n_heads=shape.n_heads, bias=False), Added).to(device)
        self.length = length

    def start(self, ids: Tensor) -> None:
        """Takes the first ``(1, length)`` tokens."""
        self.ids = ids

    def next(self, token: Tensor) -> Tensor:
        """Log-probabilities ``(1, V)`` behind a new token ``(1, 1)``."""
        self.ids = torch.cat([self.ids, token], dim=1)[:, -self.length :]
        found: Tensor = self.model.vocabulary.log_probs(self.model(self.ids).y[:, -1])
        return found


class Remembering:
    """A memory: every token is a pass over itself."""

    def __init__(self, shape: Shape, length: int, device: str) -> None:
        mixer = partial(RelativeAttention, n_heads=shape.n_heads, mem_len=length)
        self.model = shape.build(mixer, NoPositions).to(device)
        self.length = length

    @property
    def settings(self) -> CallSettings:
        """Every token sees ``length``, itself included."""
        return CallSettings(MemorySettings(self.length, same_length=True))

    def start(self, ids: Tensor) -> None:
        """Takes the first ``(1, length)`` tokens."""
        state = self.model.init_state(1, self.length, self.settings)
        self.state = self.model(ids, state, None, self.settings).state

    def next(self, token: Tensor) -> Tensor:
        """Log-probabilities ``(1, V)`` behind a new token ``(1, 1)``."""
        mixed = self.model(token, self.state, None, self.settings)
        self.state = mixed.state
        found: Tensor = self.model.vocabulary.log_probs(mixed.y[:, -1])
        return found

    def at_once(self, ids: Tensor) -> Tensor:
        """The same for all of ids ``(1, N)`` in one long pass, ``(1, N, V)``."""
        found: Tensor = self.model.vocabulary.log_probs(self.model(ids, settings=self.settings).y)
        return found


def turn(side: Any, ids: Tensor, count: int, clock: Clock) -> tuple[float, Tensor]:
    """Seconds for each of ``count`` tokens of ids ``(1, N)`` behind the first ``length``; what the last one gave."""
    side.start(ids[:, : side.length])
    side.next(ids[:, side.length : side.length + 1])  # the first one warms up
    wait(ids)
    begin = clock()
    for place in range(side.length + 1, side.length + 1 + count):
        found = side.next(ids[:, place : place + 1])
    wait(ids)
    return (clock() - begin) / count, found


def wait(ids: Tensor) -> None:
    """Until a GPU has done what it was told."""
    if ids.device.type == "cuda":
        torch.cuda.synchronize(ids.device)


@torch.inference_mode()
def measure(shape: Shape, length: int, args: argparse.Namespace) -> dict[str, float]:
    """Both sides at one attention length."""
    torch.manual_seed(0)
    anew, remembering = Anew(shape, length, args.device), Remembering(shape, length, args.device)
    ids = torch.randint(shape.vocab_size, (1, length + 1 + max(args.tokens, args.windows))).to(args.device)
    slow, fast, clock = [], [], time.process_time if args.cpu_time else time.perf_counter
    for repeat in range(args.repeats + 1):
        slow_now, _ = turn(anew, ids, args.windows, clock)
        fast_now, last = turn(remembering, ids, args.tokens, clock)
        if repeat:  # the first turn warms up
            slow.append(slow_now)
            fast.append(fast_now)
    gap = float((remembering.at_once(ids[:, : length + 1 + args.tokens])[:, -1] - last).abs().max())
    if not gap < 1e-3:
        sys.exit(
            f"one by one, tokens have other distributions than in one pass: {gap:.2g} at length {length}"
        )
    return {
        "length": length,
        "anew_s": statistics.median(slow),
        "remembering_s": statistics.median(fast),
        "ratio": statistics.median(a / b for a, b in zip(slow, fast, strict=True)),
        "gap": gap,
    }


def exponent(lengths: Sequence[float], ratios: Sequence[float]) -> float:
    """p of the law ``ratio = a · length^p`` with the least squares of logarithms; nan for a single length."""
    xs, ys = [math.log(x) for x in lengths], [math.log(y) for y in ratios]
    x, y = statistics.mean(xs), statistics.mean(ys)
    spread = sum((one - x) ** 2 for one in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else math.nan


def table(found: list[dict[str, float]]) -> str:
    """For people."""
    from tabulate import tabulate

    rows = [
        [
            one["length"],
            1e3 * one["anew_s"],
            1e3 * one["remembering_s"],
            one["ratio"],
            PUBLISHED.get(int(one["length"])),
        ]
        for one in found
    ]
    heads = [
        "attention length",
        "ms/token anew",
        "ms/token with memory",
        "times as slow",
        "published (a GPU)",
    ]
    text = tabulate(rows, heads, floatfmt=("", ".2f", ".3f", ".1f", ".0f"))
    published = exponent(list(PUBLISHED), list(PUBLISHED.values()))
    measured = exponent([one["length"] for one in found], [one["ratio"] for one in found])
    grows = f"the ratio grows as length^{measured:.2f}; the published ones, from 800 to 3800, as length^{published:.2f}"
    return f"{text}\n{grows}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lengths", type=int, nargs="+", default=[100, 200, 400, 800])
    for name, default in asdict(Shape()).items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, help=f"default {default}"
        )
    for name, default, what in (
        ("windows", 10, "tokens of a turn without a memory"),
        ("tokens", 100, "tokens of a turn with one"),
        ("repeats", 5, "timed turns of each side"),
        ("threads", 1, "of the CPU; single tokens gain nothing by more"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what}; default {default}")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default cpu")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing, not on the clock")
    args = parser.parse_args()
    least = min(*args.lengths, args.windows, args.tokens, args.repeats, args.threads)
    if least < 1:
        parser.error(f"lengths and counts must be at least 1, not {least}")
    torch.set_num_threads(args.threads)
    shape = Shape(**{name: getattr(args, name) for name in asdict(Shape())})
    found = [measure(shape, length, args) for length in args.lengths]
    print(table(found))
    line = {"benchmark": "slowdown", **vars(args), "results": found, "torch": torch.__version__}
    line |= {"exponent": exponent(args.lengths, [one["ratio"] for one in found]), "published": PUBLISHED}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
