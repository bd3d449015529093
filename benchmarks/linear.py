"""Speed of causal linear attention, forward and backward, beside idiap's compiled kernel.

    python -m benchmarks.linear --official DIR [--repeats 7] [--native] [--cpu-time]

DIR is a checkout of github.com/idiap/fast-transformers; its kernel is compiled there, in DIR/build-kernel, with its own
flags and -O3 (a minute at the first run; needs a C++ compiler and ninja). Compared are whole cores: their
`CausalLinearAttention.forward`, which applies elu(x) + 1, the kernel for the numerator and a cumulative sum for the
denominator, and ours, feature map included, from the same queries, keys and values (N, L, H, E). 8 heads of width 64
are the library's own example, 8 of width 32 the experiments of its paper, and `tests` the benchmark of the kernel among
its tests. Outputs and gradients must agree, or the benchmark fails. Both sides take turns; a ratio is the median of the
ratios of neighbours. Prints a table and one line of JSON.
"""

import argparse
import importlib
import json
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor

from repro.nn import EluPlusOne
from repro.nn.attention.linear.attention import linear_attention

# name: (N, L, H, E, M)
SETTINGS = {
    "tests": (10, 1000, 10, 32, 64),
    "4096, width 64": (1, 4096, 8, 64, 64),
    "16384, width 64": (1, 16384, 8, 64, 64),
    "4096, width 32": (1, 4096, 8, 32, 32),
    "16384, width 32": (1, 16384, 8, 32, 32),
    "4096, width 32, batch 4": (4, 4096, 8, 32, 32),
}
Core = Callable[[Tensor, Tensor, Tensor], Tensor]


def official(folder: Path, native: bool) -> Core:
    """Their attention, without the rest of their package, which would have to be compiled, too."""
    from torch.utils.cpp_extension import load

    name = "fast_transformers.causal_product.causal_product_cpu"
    build = folder / "build-kernel" / ("native" if native else "portable")
    build.mkdir(parents=True, exist_ok=True)
    flags = ["-O3", "-fopenmp", "-ffast-math", *(["-march=native"] if native else [])]
    source = folder / "fast_transformers/causal_product/causal_product_cpu.cpp"
    sys.modules[name] = load(
        "causal_product_cpu", [str(source)], extra_cflags=flags, build_directory=str(build)
    )
    sys.path.insert(0, str(folder))
    package: Any = types.ModuleType("fast_transformers.attention")
    package.__path__ = [str(folder / "fast_transformers/attention")]
    sys.modules[package.__name__] = package  # its __init__ would import everything
    attention = importlib.import_module("fast_transformers.attention.causal_linear_attention")
    masking = importlib.import_module("fast_transformers.masking")

    masks: dict[tuple[int, int], Any] = {}  # made once, outside the clock

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rows, steps = q.shape[:2]
        if (rows, steps) not in masks:
            valid = masking.LengthMask(torch.full((rows,), steps), max_len=steps)
            masks[rows, steps] = masking.TriangularCausalMask(steps), valid
        triangle, valid = masks[rows, steps]
        core = attention.CausalLinearAttention(q.shape[-1])
        return core(q, k, v, triangle, valid, valid)  # type: ignore[no-any-return]

    return run


def ours(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """This library's core, feature map included."""
    features = EluPlusOne()
    return linear_attention(features(q), features(k), v)[0]


def inputs(n: int, steps: int, heads: int, e: int, m: int) -> tuple[list[Tensor], Tensor]:
    """Queries, keys, values, and the gradient that comes back."""
    made = [torch.randn(n, steps, heads, width) for width in (e, e, m, m)]
    return [t.requires_grad_() for t in made[:3]], made[3]


def check(one: Core, other: Core, given: list[Tensor], grad: Tensor) -> None:
    """Stops where outputs or gradients differ by more than rounding does."""
    found = []
    for core in (one, other):
        y = core(*given)
        found.append([y, *torch.autograd.grad(y, given, grad)])
    for a, b in zip(*found, strict=True):
        error = float(((a - b).abs().max() / b.abs().max()).detach())
        if error > 1e-4:
            sys.exit(f"the two sides differ by {error:.1e} of the largest entry")


def timed(core: Core, given: list[Tensor], grad: Tensor, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of the forward pass, and of both passes."""
    began = clock()
    y = core(*given)
    between = clock()
    torch.autograd.grad(y, given, grad)
    return between - began, clock() - began


def measure(
    theirs: Core, setting: tuple[int, ...], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Milliseconds of both sides, which take turns, and the median of the ratios of neighbours."""
    given, grad = inputs(*setting)
    check(ours, theirs, given, grad)
    turns = [[timed(core, given, grad, clock) for core in (ours, theirs)] for _ in range(repeats)]
    found: dict[str, float] = {}
    for i, name in enumerate(("forward", "both")):
        mine, other = ([1e3 * turn[side][i] for turn in turns] for side in (0, 1))
        found |= {f"ours {name}": statistics.median(mine), f"idiap {name}": statistics.median(other)}
        found[f"times {name}"] = statistics.median(b / a for a, b in zip(mine, other, strict=True))
    return found


def main() -> None:
    """Measures every setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--official", type=Path, required=True, help="a checkout of idiap/fast-transformers")
    parser.add_argument("--native", action="store_true", help="compile their kernel with -march=native")
    parser.add_argument("--repeats", type=int, default=7, help="default 7")
    parser.add_argument("--threads", type=int, default=2, help="default 2")
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing; takes --threads 1")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    theirs = official(args.official.resolve(), args.native)
    clock = time.process_time if args.cpu_time else time.perf_counter
    rows = {name: measure(theirs, setting, args.repeats, clock) for name, setting in SETTINGS.items()}
    names = list(next(iter(rows.values())))
    print(
        tabulate([[n, *(row[k] for k in names)] for n, row in rows.items()], ["ms", *names], floatfmt=".1f")
    )
    line = {"benchmark": "linear", "native": args.native, "repeats": args.repeats, "threads": args.threads}
    print(json.dumps(line | {"cpu_time": args.cpu_time, "milliseconds": rows, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
