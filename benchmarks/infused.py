"""Speed of infused attention with a memory: training and token by token, beside the official code.

    python -m benchmarks.infused [--official DIR]

DIR is a checkout of the authors' fork of fairseq (github.com/ofirpress/shortformer); without it only ours is timed. A
training step is forward, loss and backward of one block with the memory of the block before, no optimiser. Token
by token: one call per token behind a first block, over more than a whole cycle of the memory, which grows from one
block to two and is cut. Both sides take turns, so that a busy machine slows both; a ratio is the median of the ratios
of neighbours. Both have the same weights: losses and logits must agree, or the benchmark fails. What share of a step
its matrix products would take alone comes from the count of their operations (attention's own left out) and the rate
of one product of the feed-forward layer's shape, timed between the turns. Prints a table and one line of JSON.

The fork imports under torch 2.13 once ``numpy.float`` and ``numpy.int``, which NumPy removed in 1.24, exist again. They
come back in memory, a stand-in offers as much of a dictionary as the model asks for, and fairseq's model is taken as
it is; torch gives it the same fused attention as ours.
"""

import argparse
import json
import statistics
import sys
import time
from argparse import Namespace
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.nn.mixer import detach
from repro.tasks.costs.flops import FlopCounter
from tests.models import golden_infused

PADDING = 1


@dataclass(frozen=True)
class Shape:
    """What is run; ``length`` is both the block's and the memory's."""

    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    n_layers: int = 6
    vocab_size: int = 204
    batch: int = 4
    length: int = 128


class Ours:
    """This library's side."""

    name = "ours"

    def __init__(self, shape: Shape) -> None:
        options = {
            "d_model": shape.d_model,
            "ff": shape.d_ff,
            "heads": shape.n_heads,
            "layers": shape.n_layers,
            "V": shape.vocab_size,
            "final_norm": True,
        }
        self.model = golden_infused.build(options, shape.length).float()
        self.state: Any = None

    def start(self) -> None:
        """Forgets what it remembers."""
        self.state = None

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Mean loss of the next block ``(B, T)``."""
        given = self.model.init_state(len(ids)) if self.state is None else self.state
        hidden, state, *_ = self.model(ids, given)
        self.state = detach(state)
        return cross_entropy(self.model.vocabulary.logits(hidden).flatten(0, 1), targets.flatten())

    def next(self, ids: Tensor, first: bool) -> Tensor:
        """Logits ``(B, V)`` behind the last of ids ``(B, T)``; after the first call only that one is new."""
        if first:
            self.state = self.model.init_state(len(ids), capacity=1_000_000)
        hidden, self.state, _ = self.model(ids if first else ids[:, -1:], self.state)
        return self.model.vocabulary.logits(hidden[:, -1])


class Official:
    """The authors' side: fairseq's model, which keeps its memory on its layers."""

    name = "official"

    def __init__(self, shape: Shape, folder: str) -> None:
        for kind in (float, int):
            setattr(np, kind.__name__, kind)
        sys.path.insert(0, folder)
        from fairseq.models.transformer_lm import TransformerLanguageModel

        self.make = TransformerLanguageModel.build_model
        self.shape = shape
        self.model = self.build(single=False)
        self.streaming = self.build(single=True)

    def build(self, single: bool) -> nn.Module:
        """Its model, for training or for single tokens."""
        s = self.shape
        arguments = Namespace(
            decoder_embed_dim=s.d_model,
            decoder_ffn_embed_dim=s.d_ff,
            decoder_layers=s.n_layers,
            decoder_attention_heads=s.n_heads,
            dropout=0.0,
            share_decoder_input_output_embed=True,
            tokens_per_sample=s.length,
            tokens_from_prev=s.length,
            max_tokens=s.length,
            sliding_inf=1 if single else -1,
        )
        words = Words(s.vocab_size)
        model = self.make(arguments, Namespace(source_dictionary=words, target_dictionary=words))
        return model.eval() if single else model.train()

    def start(self) -> None:
        """Forgets what it remembers."""
        for layer in self.model.decoder.layers:  # type: ignore[union-attr]
            layer.prev_out = None  # type: ignore[union-attr,assignment]

    def loss(self, ids: Tensor, targets: Tensor) -> Tensor:
        """Mean loss of the next block ``(B, T)``."""
        logits, _ = self.model(ids)
        return cross_entropy(logits.flatten(0, 1), targets.flatten())

    def next(self, ids: Tensor, first: bool) -> Tensor:
        """Logits ``(B, V)`` behind the last of ids ``(B, T)``."""
        if first:
            self.streaming.decoder.no_mask_counter = 0  # type: ignore[union-attr,assignment]
            self.streaming.decoder.to_see = self.shape.length  # type: ignore[union-attr,assignment]
        logits, _ = self.streaming(ids)
        return logits[:, -1]


class Words:
    """As much of fairseq's dictionary as its model asks for."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def pad(self) -> int:
        return PADDING


def same_weights(ours: Ours, official: Official) -> None:
    """Gives the weights of the official training model to the other two."""
    theirs = official.model.state_dict()
    official.streaming.load_state_dict(theirs)
    ours.model.load_state_dict(golden_infused.ours(theirs))


def train(side: Any, blocks: list[Tensor]) -> tuple[list[float], list[float]]:
    """Seconds and loss of a step on each of the blocks ``(B, T + 1)`` of one stream."""
    seconds, losses = [], []
    side.start()
    for block in blocks:
        side.model.zero_grad(set_to_none=True)
        begin = time.perf_counter()
        loss = side.loss(block[:, :-1], block[:, 1:])
        loss.backward()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    return seconds, losses


def operations(side: Any, blocks: list[Tensor]) -> int:
    """Floating-point operations in the matrix products of one training step with a memory."""
    train(side, blocks[:1])
    with FlopCounter() as counter:
        side.loss(blocks[1][:, :-1], blocks[1][:, 1:]).backward()
    return counter.total


def product_rate(shape: Shape) -> float:
    """Operations a second of one matrix product, the best of several."""
    tokens = shape.batch * shape.length
    x, weight = torch.randn(tokens, shape.d_model), torch.randn(shape.d_model, shape.d_ff)
    seconds = []
    for _ in range(10):
        begin = time.perf_counter()
        torch.mm(x, weight)
        seconds.append(time.perf_counter() - begin)
    return 2 * tokens * shape.d_model * shape.d_ff / min(seconds)


@torch.inference_mode()
def stream(side: Any, ids: Tensor, length: int) -> tuple[float, Tensor]:
    """Seconds for each token of ids ``(B, N)`` behind the first ``length``, and their logits ``(B, N - length, V)``."""
    side.next(ids[:, :length], first=True)
    begin = time.perf_counter()
    ends = range(length + 1, ids.shape[1] + 1)
    found = [side.next(ids[:, end - length : end], first=False) for end in ends]
    return (time.perf_counter() - begin) / len(found), torch.stack(found, dim=1)


def paired(theirs: list[float], mine: list[float]) -> float:
    """Median of the ratios of neighbours."""
    return statistics.median(a / b for a, b in zip(theirs, mine, strict=True))


def measure(sides: list[Any], shape: Shape, rounds: int, tokens: int) -> dict[str, Any]:
    """Times every side in turn; the sides' losses and logits must agree."""
    draw = torch.Generator().manual_seed(1)
    span = shape.length
    ids = torch.randint(PADDING + 3, shape.vocab_size, (shape.batch, 4 * span + 1), generator=draw)
    blocks = [ids[:, i * span : (i + 1) * span + 1] for i in range(4)]
    steps: dict[str, list[float]] = {side.name: [] for side in sides}
    singles: dict[str, list[float]] = {side.name: [] for side in sides}
    losses, logits, rates = {}, {}, []
    for turn in range(rounds + 1):
        for side in sides:
            seconds, losses[side.name] = train(side, blocks)
            if turn:  # the first turn warms up; a block without memory is not timed
                steps[side.name].append(statistics.median(seconds[1:]))
        rates.append(product_rate(shape))
    for turn in range(rounds + 1):
        for side in sides:
            seconds_each, logits[side.name] = stream(side, ids[:, : span + tokens], span)
            if turn:
                singles[side.name].append(seconds_each)
    gaps = agree(losses, logits)
    work = {side.name: operations(side, blocks) for side in sides}
    share = {
        name: statistics.median(work[name] / rate / step for rate, step in zip(rates[1:], each, strict=True))
        for name, each in steps.items()
    }
    report: dict[str, Any] = {"training_step": steps, "token": singles, **gaps}
    report |= {"training_operations": work, "share_of_matrix_products": share}
    if len(sides) > 1:
        report["training_speedup"] = paired(steps["official"], steps["ours"])
        report["token_speedup"] = paired(singles["official"], singles["ours"])
    return report


def agree(losses: dict[str, list[float]], logits: dict[str, Tensor]) -> dict[str, float]:
    """Largest differences between the sides; exits where they are more than rounding."""
    names = list(losses)
    if len(names) < 2:
        return {}
    a, b = names
    gaps = {
        "loss_gap": max(abs(x - y) for x, y in zip(losses[a], losses[b], strict=True)),
        "logit_gap": float((logits[a] - logits[b]).abs().max()),
    }
    if not (gaps["loss_gap"] < 1e-4 and gaps["logit_gap"] < 1e-3):
        sys.exit(f"the sides disagree: {gaps}")
    return gaps


def table(report: dict[str, Any], shape: Shape) -> str:
    """The report for people."""
    from tabulate import tabulate

    rows = []
    for name in report["token"]:
        step, token = (statistics.median(report[what][name]) for what in ("training_step", "token"))
        share, rate = report["share_of_matrix_products"][name], shape.batch * shape.length / step
        rows.append([name, 1e3 * step, rate, share, 1e3 * token, shape.batch / token])
    heads = ["side", "ms/step", "tokens/s", "of it products", "ms per single token", "tokens/s"]
    text = tabulate(rows, heads, floatfmt=("", ".0f", ".0f", ".2f", ".2f", ".0f"))
    if "training_speedup" in report:
        training, token = report["training_speedup"], report["token_speedup"]
        text += f"\nours is {training:.2f} times as fast in training, {token:.2f} times token by token"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--official", metavar="DIR", help="a checkout of the authors' code")
    parser.add_argument("--rounds", type=int, default=3, help="timed turns of each side")
    parser.add_argument("--tokens", type=int, default=160, help="single tokens in a turn")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = Shape()
    sides: list[Any] = [Ours(shape)]
    if args.official:
        sides.append(Official(shape, args.official))
        same_weights(*sides)
    report = measure(sides, shape, args.rounds, args.tokens)
    print(table(report, shape))
    settings = {"shape": asdict(shape), "threads": args.threads, "torch": torch.__version__}
    print(json.dumps({"benchmark": "infused", **settings, **report}))


if __name__ == "__main__":
    main()
