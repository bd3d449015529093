"""Beam search with carried state, and the same search with every prefix computed anew at each step.

    python benchmarks/decoding.py

Prints a table and one JSON line. The model has random weights and no sentence ends early, so every method
takes the same number of steps; that all find the same tokens is checked.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from repro.models import EncoderDecoder
from repro.models.generate import Decoded, beam_search
from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    MixerOutput,
    PostNorm,
    State,
    Vocabulary,
)


class PrefixAnew:
    """A decoder without carried state: the stream is the prefix's ids, the memory as without this wrapper.

    Args:
        model: what it decodes with.
        whole: also encode the sources anew at each step, as a plain call of the model does.
    """

    def __init__(self, model: EncoderDecoder, whole: bool) -> None:
        self.model = model
        self.vocabulary = model.vocabulary
        self.whole = whole

    def modules(self) -> Iterator[nn.Module]:
        return self.model.modules()

    def start(self, source: Tensor) -> State:
        kept = {"source": source} if self.whole else self.model.start(source, None)["memory"]
        return {"stream": {"ids": source.new_zeros(source.shape[0], 0)}, "memory": kept}

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        prefix = torch.cat([state["stream"]["ids"], ids], dim=1)
        new = {"stream": {"ids": prefix}, "memory": state["memory"]}
        if self.whole:
            source = state["memory"]["source"]
            source = source.repeat_interleave(prefix.shape[0] // source.shape[0], dim=0)
            y = self.model(source, None, prefix).y
        else:
            empty = self.model.decoder.init_state(prefix.shape[0])
            start = {"start": torch.zeros_like(prefix[:, 0]), **empty}
            y = self.model.decode(prefix, {"stream": start, "memory": state["memory"]}).y
        return MixerOutput(y[:, -1:], new)


def build(vocab_size: int) -> EncoderDecoder:
    """A base-like Transformer of half the width and depth."""
    blocks = Blocks(
        mixers=[partial(FullAttention, n_heads=8)],
        cross=partial(CrossAttention, n_heads=8),
        feed_forward=partial(FeedForward, d_ff=1024),
        sublayer=PostNorm,
    )
    return EncoderDecoder(256, 3, 3, partial(Vocabulary, size=vocab_size), blocks)


def methods(model: EncoderDecoder, source: Tensor, steps: int, beam: int) -> dict[str, Callable[[], Decoded]]:
    """The same search by each way of computing the next token's probabilities."""
    first = torch.ones_like(source[:, 0])

    def carried() -> Decoded:
        with torch.inference_mode():
            state = model.start(source, None, capacity=steps)
        return beam_search(model, state, first, steps, None, beam)

    def anew(whole: bool) -> Decoded:
        wrapped = PrefixAnew(model, whole)
        with torch.inference_mode():
            state = wrapped.start(source)
        return beam_search(wrapped, state, first, steps, None, beam)

    return {
        "carried state": carried,
        "decoder anew": partial(anew, False),
        "encoder and decoder anew": partial(anew, True),
    }


def main() -> None:
    """Runs every method in turn, several times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in {
        "steps": 48,
        "batch": 8,
        "beam": 4,
        "source": 48,
        "vocab": 10_000,
        "repeats": 3,
        "threads": 2,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--device", default="cpu", help="cpu or cuda; default cpu")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = build(args.vocab).eval().to(args.device)
    source = torch.randint(args.vocab, (args.batch, args.source)).to(args.device)
    ways = methods(model, source, args.steps, args.beam)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    outputs = {name: run() for name, run in ways.items()}  # warms up
    for _ in range(args.repeats):
        for name, run in ways.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    same = {name: torch.equal(out.ids, outputs["carried state"].ids) for name, out in outputs.items()}
    if not all(same.values()):
        sys.exit(f"the methods disagree: {same}")
    fast = medians["carried state"]
    print(f"{'beam search':<26}{'seconds':>9}{'tokens/s':>10}{'times carried':>15}")
    for name, value in medians.items():
        print(f"{name:<26}{value:>9.3f}{args.batch * args.steps / value:>10.0f}{value / fast:>15.1f}")
    speedups = {
        "speedup": medians["encoder and decoder anew"] / fast,
        "speedup_over_decoder": medians["decoder anew"] / fast,
    }
    line = {"benchmark": "decoding", **vars(args), "seconds": medians, **speedups, "torch": torch.__version__}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
