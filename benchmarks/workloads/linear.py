"""Linear attention: the causal core, forward and backward, and generation token by token, beside idiap's library.

The core is timed from queries, keys and values, feature map included, 8 heads, one row (``tests`` is the benchmark
among idiap's own tests: batch 10, 10 heads, keys of width 32, values of 64). idiap's is its Python with its C++
kernel, which is compiled at first use with the flags of its setup; `plain chunks` is the chunked form without
anything clever, written here. Outputs and gradients must agree with idiap's. `linear-attention-transformer` is the core
of that package, which computes something else, and less: a token sees only the whole buckets of 64 before its own.

Generation: 8 layers, width 256, 8 heads, a vocabulary of 256, greedy. idiap's recurrent encoder has our weights, and
a loop around it that embeds, scores and takes the best: the tokens must be equal. Both also with their layers compiled.
"""

import importlib
import math
import sys
import types
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.harness import Workload, official, size
from repro.experiment.compiling import compile_decoding
from repro.models import DecoderLM
from repro.models.sampling import greedy
from repro.nn import Blocks, EluPlusOne, FeedForward, LinearAttention, Vocabulary
from repro.nn.attention.linear.attention import linear_attention
from repro.nn.positions.positions import sinusoids

# name: (N, L, H, E, M)
CORES = {"tests": (10, size(1000), 10, 32, 64)} | {
    f"{steps:,} tokens, width {width}": (1, steps, 8, width, width)
    for steps, width in ((size(1024), 64), (size(4096), 64), (size(16_384), 32))
}
WIDTH, LAYERS, HEADS, SYMBOLS, STEPS = 256, 8, 8, 256, size(128)
Core = Callable[[Tensor, Tensor, Tensor], Tensor]


def our_core() -> Core:
    """This library's."""
    features = EluPlusOne()
    return lambda q, k, v: linear_attention(features(q), features(k), v)[0]


def idiap() -> None:
    """Makes their package importable without its ``__init__`` files, which would import all that is compiled."""
    folder = official("fast-transformers")
    sys.path.insert(0, str(folder))
    for name in ("attention", "recurrent"):
        package: Any = types.ModuleType(f"fast_transformers.{name}")
        package.__path__ = [str(folder / "fast_transformers" / name)]
        sys.modules[package.__name__] = package


def idiap_core() -> Core:
    """Their attention around their kernel."""
    idiap()
    from torch.utils.cpp_extension import load

    folder = official("fast-transformers")
    build = folder / "build-kernel"
    build.mkdir(exist_ok=True)
    source = str(folder / "fast_transformers/causal_product/causal_product_cpu.cpp")
    flags = ["-O3", "-fopenmp", "-ffast-math"]
    kernel = load("causal_product_cpu", [source], extra_cflags=flags, build_directory=str(build))
    sys.modules["fast_transformers.causal_product.causal_product_cpu"] = kernel
    attention = importlib.import_module("fast_transformers.attention.causal_linear_attention")
    masking = importlib.import_module("fast_transformers.masking")

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, steps = q.shape[:2]
        valid = masking.LengthMask(torch.full((rows,), steps), max_len=steps)
        core = attention.CausalLinearAttention(q.shape[-1])
        return core(q, k, v, masking.TriangularCausalMask(steps), valid, valid)

    return run


def plain_chunks(chunk: int = 128) -> Core:
    """Weights inside a chunk, one running sum between chunks."""
    features = EluPlusOne()

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (t.transpose(1, 2) for t in (features(q), features(k), v))
        s, z, parts = 0.0, 0.0, []
        for qc, kc, vc in zip(*(t.split(chunk, 2) for t in (q, k, v)), strict=True):
            weights = (qc @ kc.mT).tril()
            past = (0.0, 0.0) if isinstance(s, float) else (qc @ s, qc @ z[..., None])
            total = weights.sum(-1, keepdim=True) + past[1] + 1e-6
            parts.append((weights @ vc + past[0]) / total)
            s, z = s + kc.mT @ vc, z + kc.sum(2)
        return torch.cat(parts, 2).transpose(1, 2)

    return run


def lat_core() -> Core:
    """The causal core of linear-attention-transformer, which takes keys as wide as values and whole buckets."""
    from linear_attention_transformer.linear_attention_transformer import causal_linear_attn

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bucket = next(
            size for size in range(64, 0, -1) if q.shape[1] % size == 0
        )  # it must divide the length
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return causal_linear_attn(q, k, v, bucket_size=bucket).transpose(1, 2)

    return run


def core(make: Callable[[], Core], setting: tuple[int, ...]) -> Callable[[], list[Tensor]]:
    """Forward and backward."""
    (n, steps, heads, e, m), run = setting, make()
    draw = torch.Generator().manual_seed(1)
    q, k, v, grad = (torch.randn(n, steps, heads, width, generator=draw) for width in (e, e, m, m))
    given = [t.requires_grad_() for t in (q, k, v)]

    def turn() -> list[Tensor]:
        y = run(*given)
        return [y, *torch.autograd.grad(y, given, grad)]

    return turn


def network() -> DecoderLM:
    """A small language model."""
    torch.manual_seed(0)
    blocks = Blocks(
        mixers=[partial(LinearAttention, n_heads=HEADS)],
        feed_forward=partial(FeedForward, d_ff=4 * WIDTH),
        final_norm=nn.LayerNorm,
    )
    return DecoderLM(WIDTH, LAYERS, partial(Vocabulary, size=SYMBOLS), blocks).eval()


def our_generation(batch: int, compiled: bool = False) -> Callable[[], Tensor]:
    """This library's greedy search."""
    model: Any = network()
    if compiled:
        compile_decoding(model)

    def run() -> Tensor:
        with torch.inference_mode():
            state = model.init_state(batch, capacity=STEPS)
        return greedy(model, state, torch.arange(batch), STEPS, None).ids

    return run


def their_generation(batch: int, compiled: bool = False) -> Callable[[], Tensor]:
    """idiap's recurrent encoder in a plain loop."""
    idiap()
    from fast_transformers.recurrent import transformers
    from fast_transformers.recurrent.attention import RecurrentAttentionLayer, RecurrentLinearAttention

    mine = network()
    layers = []
    for own in mine.stack.layers:
        attention = RecurrentAttentionLayer(RecurrentLinearAttention(WIDTH // HEADS), WIDTH, HEADS)
        layer = transformers.RecurrentTransformerEncoderLayer(attention, WIDTH, 4 * WIDTH)
        mixer, forward = own["mix"].body, own["feed_forward"].body  # type: ignore[index]
        names = ("query_projection", "key_projection", "value_projection")
        for name, weight, bias in zip(names, mixer.qkv.weight.chunk(3), mixer.qkv.bias.chunk(3), strict=True):
            getattr(attention, name).load_state_dict({"weight": weight, "bias": bias})
        for theirs, ours in (
            (attention.out_projection, mixer.out), (layer.linear1, forward.inner), (layer.linear2, forward.outer),
            (layer.norm1, own["mix"].norm_out), (layer.norm2, own["feed_forward"].norm_out),  # type: ignore[index]
        ):  # fmt: skip
            theirs.load_state_dict(ours.state_dict())
        layer.norm1.eps = layer.norm2.eps = own["mix"].norm_out.eps  # type: ignore[index]
        layers.append(layer)
    net = transformers.RecurrentTransformerEncoder(layers, nn.LayerNorm(WIDTH)).eval()
    if compiled:
        net.compile()
    table, where = (
        mine.vocabulary.embedding.table.weight,
        sinusoids(torch.arange(STEPS), WIDTH, torch.float32),
    )

    def run() -> Tensor:
        last, state, found = torch.arange(batch), None, []
        with torch.inference_mode():
            for step in range(STEPS):
                y, state = net(table[last] * math.sqrt(WIDTH) + where[step], state)
                last = nn.functional.linear(y, table).argmax(-1)
                found.append(last)
        return torch.stack(found, 1)

    return run


MAKERS = {
    "ours": our_core,
    "idiap": idiap_core,
    "plain chunks": plain_chunks,
    "linear-attention-transformer": lat_core,
}


def sides(setting: tuple[int, ...]) -> dict[str, Callable[[], list[Tensor]]]:
    """Those that can run a setting."""
    (*_, e, m) = setting
    return {n: partial(core, make, setting) for n, make in MAKERS.items() if make is not lat_core or e == m}


WORKLOADS = [
    Workload(f"linear attention, {name}", sides(s), tolerance=1e-4, alike=("idiap", "plain chunks"))
    for name, s in CORES.items()
] + [
    Workload(f"linear generation, batch {batch}",
             {"ours": partial(our_generation, batch), "ours, compiled": partial(our_generation, batch, True),
              "idiap": partial(their_generation, batch), "idiap, compiled": partial(their_generation, batch, True)},
             "ms a token", STEPS, 0.0)
    for batch in (1, 16)
]  # fmt: skip
