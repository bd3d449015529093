"""Training speed and memory of the base Transformer, ours beside one built from ``torch.nn.Transformer``.

    python -m benchmarks.training

One step is forward + loss + backward, no optimiser. Both models have the same widths, the same dropout sites,
post-norm layers without a norm behind the stack, one matrix for both embeddings and the output, sinusoidal
positions and label smoothing 0.1. Steps of the two alternate, so that a busy machine slows both; a ratio is
the median of the ratios of neighbouring steps. "Matrix products" are those of every linear layer of ours and
of the output layer, forward and backward, timed by ``torch.mm`` between the steps. Memory is the peak of a
fresh process less what it held before its first step. Prints a table and one line of JSON.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

from repro.models import EncoderDecoder
from repro.nn import Blocks, CrossAttention, FeedForward, FullAttention, PostNorm, Vocabulary
from repro.nn.positions.positions import sinusoids

SMOOTHING = 0.1


@dataclass(frozen=True)
class Shape:
    """What is trained: the base model of Vaswani et al. 2017 on ``batch`` pairs of ``length`` tokens."""

    d_model: int = 512
    d_ff: int = 2048
    n_heads: int = 8
    n_layers: int = 6
    vocab_size: int = 32_768
    batch: int = 8
    length: int = 48
    dropout: float = 0.1


@dataclass(frozen=True)
class Batch:
    """Token ids ``(B, T)``; lengths ``(B,)`` where there is padding."""

    source: Tensor
    target: Tensor
    wanted: Tensor
    source_lengths: Tensor | None
    lengths: Tensor | None


def ours(shape: Shape) -> nn.Module:
    """The model as the recipes build it."""
    blocks = Blocks(
        mixers=[partial(FullAttention, n_heads=shape.n_heads)],
        cross=partial(CrossAttention, n_heads=shape.n_heads),
        feed_forward=partial(FeedForward, d_ff=shape.d_ff),
        sublayer=partial(PostNorm, dropout=shape.dropout),
    )
    vocabulary = partial(Vocabulary, size=shape.vocab_size)
    layers = shape.n_layers
    return EncoderDecoder(shape.d_model, layers, layers, vocabulary, blocks, dropout=shape.dropout)


def our_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Sum of the smoothed losses."""
    hidden = model(batch.source, batch.source_lengths, batch.target, batch.lengths).y
    scores = model.vocabulary.score(hidden, batch.wanted)  # type: ignore[union-attr,operator]
    return scores.smoothed(SMOOTHING, model.vocabulary.size).sum()  # type: ignore[union-attr,arg-type,no-any-return]


class TorchTransformer(nn.Module):
    """``torch.nn.Transformer`` with what it lacks, and without what the paper lacks."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width, layers = shape.d_model, shape.n_layers
        self.embedding = nn.Embedding(shape.vocab_size, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.body = nn.Transformer(
            width, shape.n_heads, layers, layers, shape.d_ff, shape.dropout, batch_first=True
        )
        self.body.encoder.norm = self.body.decoder.norm = None
        for layer in [*self.body.encoder.layers, *self.body.decoder.layers]:
            layer.dropout.p = 0.0  # behind the ReLU
            for module in layer.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
        self.dropout = nn.Dropout(shape.dropout)
        positions = sinusoids(torch.arange(shape.length), width, torch.float32)
        self.register_buffer("positions", positions, persistent=False)
        hidden = nn.Transformer.generate_square_subsequent_mask(shape.length)
        self.register_buffer("future", hidden, persistent=False)

    def embed(self, ids: Tensor) -> Tensor:
        scaled = self.embedding(ids) * math.sqrt(self.embedding.embedding_dim)
        return self.dropout(scaled + self.positions)

    def forward(self, batch: Batch) -> Tensor:
        """Logits ``(B, T, V)``."""
        padding = None
        if batch.source_lengths is not None:
            padding = torch.arange(batch.source.shape[1]) >= batch.source_lengths[:, None]
        hidden = self.body(
            self.embed(batch.source),
            self.embed(batch.target),
            tgt_mask=self.future,
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        return linear(hidden, self.embedding.weight)


def torch_loss(model: nn.Module, batch: Batch) -> Tensor:
    """Sum of the smoothed losses, as PyTorch smooths."""
    logits = model(batch)
    return cross_entropy(
        logits.flatten(0, 1), batch.wanted.flatten(), label_smoothing=SMOOTHING, reduction="sum"
    )


SIDES: dict[str, tuple[Callable[[Shape], nn.Module], Callable[[nn.Module, Batch], Tensor]]] = {
    "ours": (ours, our_loss),
    "torch.nn.Transformer": (TorchTransformer, torch_loss),
}


def make_batch(shape: Shape, padded: bool) -> Batch:
    """Random ids; where ``padded``, rows are between half full and full."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(shape.vocab_size, (3, shape.batch, shape.length), generator=generator)
    lengths = torch.linspace(shape.length // 2, shape.length, shape.batch).long() if padded else None
    return Batch(*ids, lengths, lengths)


def step(model: nn.Module, loss: Callable[[nn.Module, Batch], Tensor], batch: Batch) -> float:
    """Seconds of forward, loss and backward."""
    model.zero_grad(set_to_none=True)
    begin = time.perf_counter()
    loss(model, batch).backward()
    return time.perf_counter() - begin


def matrix_products(model: nn.Module, batch: Batch) -> Callable[[], float]:
    """A function that times every product of every linear layer of ours, forward and both of backward."""
    shapes: list[tuple[int, int, int]] = []
    hooks = [
        module.register_forward_hook(
            lambda m, given, _: shapes.append((given[0].numel() // m.in_features, *m.weight.shape))
        )
        for module in model.modules()
        if isinstance(module, nn.Linear)
    ]
    with torch.no_grad():
        model(batch.source, batch.source_lengths, batch.target)
    for hook in hooks:
        hook.remove()
    shapes.append((batch.target.numel(), *model.vocabulary.embedding.table.weight.shape))  # type: ignore[union-attr]
    operands = [(torch.randn(n, i), torch.randn(o, i), torch.randn(n, o)) for n, o, i in shapes]

    def run() -> float:
        begin = time.perf_counter()
        for x, weight, grad in operands:
            torch.mm(x, weight.t())
            torch.mm(grad, weight)
            torch.mm(grad.t(), x)
        return time.perf_counter() - begin

    return run


@dataclass
class Result:
    """One setting: seconds (medians), ratios (medians of paired ratios), bytes."""

    padded: bool
    seconds: dict[str, float]
    ours_over_torch: float
    matrix_product_seconds: float
    ours_over_matrix_products: float
    peak_bytes: dict[str, int]
    memory_ours_over_torch: float


def compare(shape: Shape, padded: bool, rounds: int, threads: int) -> Result:
    """Times both sides in turn, ours, theirs, ours, ...; memory in a process each."""
    batch = make_batch(shape, padded)
    models = {name: make(shape).train() for name, (make, _) in SIDES.items()}
    products = matrix_products(models["ours"], batch)
    times: dict[str, list[float]] = {name: [] for name in SIDES}
    alone: list[float] = []
    for i in range(rounds + 2):
        for name, (_, loss) in SIDES.items():
            times[name].append(step(models[name], loss, batch))
        alone.append(products())
        if i < 2:  # warm up
            for values in (*times.values(), alone):
                values.clear()
    mine, theirs = times.values()
    peaks = {name: peak_of(name, padded, threads) for name in SIDES}
    return Result(
        padded,
        {name: statistics.median(values) for name, values in times.items()},
        paired(mine, theirs),
        statistics.median(alone),
        paired(mine, alone),
        peaks,
        peaks["ours"] / peaks["torch.nn.Transformer"],
    )


def paired(a: list[float], b: list[float]) -> float:
    """Median of the ratios of neighbours."""
    return statistics.median(x / y for x, y in zip(a, b, strict=True))


def peak_of(name: str, padded: bool, threads: int) -> int:
    """Peak bytes of three steps in a fresh process, over what it held before them."""
    command = [sys.executable, "-m", "benchmarks.training", "--peak", name, "--threads", str(threads)]
    done = subprocess.run(command + ["--padded"] * padded, check=True, capture_output=True, text=True)
    return int(done.stdout)


def measure_peak(name: str, shape: Shape, padded: bool) -> int:
    """What :func:`peak_of` runs."""
    make, loss = SIDES[name]
    model, batch = make(shape).train(), make_batch(shape, padded)
    before = status_bytes("VmRSS")
    for _ in range(3):
        step(model, loss, batch)
    return status_bytes("VmHWM") - before


def status_bytes(key: str) -> int:
    """A line of ``/proc/self/status`` (Linux); not ``ru_maxrss``, as a child starts with its parent's."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[key].split()[0]) * 1024


def table(results: list[Result]) -> str:
    """The results for people."""
    from tabulate import tabulate

    rows = []
    for r in results:
        kind = "padded rows" if r.padded else "full rows"
        for name, seconds in r.seconds.items():
            over = {"ours": r.ours_over_torch}.get(name, 1.0)
            rows.append([kind, name, 1e3 * seconds, over, r.peak_bytes[name] / 2**20])
        products = r.matrix_product_seconds
        rows.append(
            [
                kind,
                "its matrix products (ratio: of ours)",
                1e3 * products,
                1 / r.ours_over_matrix_products,
                None,
            ]
        )
    heads = ["batch", "model", "ms per step", "ratio (paired)", "peak MiB"]
    return tabulate(rows, heads, floatfmt=("", "", ".1f", ".3f", ".0f"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peak", choices=SIDES, help="only print one model's peak bytes")
    parser.add_argument("--padded", action="store_true", help="with --peak: rows with padding")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = Shape()
    if args.peak:
        print(measure_peak(args.peak, shape, args.padded))
        return
    results = [compare(shape, padded, args.rounds, args.threads) for padded in (False, True)]
    print(table(results))
    settings = {
        "shape": asdict(shape),
        "threads": args.threads,
        "rounds": args.rounds,
        "torch": torch.__version__,
    }
    print(json.dumps({"benchmark": "training", **settings, "results": [asdict(r) for r in results]}))


if __name__ == "__main__":
    main()
