"""One step of a continuous memory beside the released code, and what a memory costs behind a long context.

    python benchmarks/continuous.py released FOLDER [--batch 8] [--basis 512] [--turns 9] [--threads 2] [--cpu-time]
    python benchmarks/continuous.py cost [--contexts 1000 10000 100000 1000000] [--write benchmarks/figures]

`cost` is described in `benchmarks/continuous_cost.py`. `released` times an update and attention, forward and backward.
FOLDER is `sorting` of a checkout of deep-spin/infinite-former; nothing of it is kept here. Its constants are used:
width 300, 6 heads of 50, blocks of 1,024 tokens. Two changes are made while it is read: the device is the CPU, and the
attribute `share_mask`, which it reads and never sets, is False. It turns on autograd's anomaly detection for the whole
process: `official, as released` has it on, `official` and ours are timed without. Both have the same weights and must
give the same outputs; for that, its regression matrices, which it inverts in float32, are replaced by ours. Sides take
turns, so that a busy machine slows all; a time is the median of its turns. `--cpu-time` counts seconds of computing,
for one thread on a machine that others use; for two threads there, set OMP_WAIT_POLICY=PASSIVE and GOMP_SPINCOUNT=0,
or waiting threads take the time of working ones. Prints a table and one line of JSON.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import continuous_cost
from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.gaussian import divergence
from repro.nn.attention.continuous.long_term import LongTermMemory
from repro.nn.attention.continuous.regression import fit

D_MODEL, HEADS, BLOCK = 300, 6, 1024
NAMES = {
    "key": "proj_key", "value": "proj_value", "out": "attn_out", "gate": "mask_net", "mean": "mu", "spread": "sigma"
}  # fmt: skip


class Anything(ModuleType):
    """Stands in for a package that the released code imports and does not use here."""

    def __getattr__(self, name: str) -> Any:
        return object


def official(folder: Path, basis: int) -> Any:
    """The released module on the CPU."""
    for name in ("entmax", "matplotlib", "matplotlib.pyplot"):
        sys.modules[name] = Anything(name)
    sys.path.insert(0, str(folder))
    source = (folder / "long_term_attention.py").read_text()
    module = ModuleType("released")
    exec(compile(source.replace("'cuda'", "'cpu'"), "long_term_attention.py", "exec"), vars(module))
    torch.autograd.set_detect_anomaly(False)
    made = module.LongTermAttention  # type: ignore[attr-defined]
    made.share_mask = False
    return made(
        head_size=D_MODEL // HEADS, length=BLOCK, target_len=BLOCK, attn_func="softmax", attn_num_basis=basis,
        attn_drop=0.0, infinite_memory=True, n_layers=1, n_heads=HEADS, d_model=D_MODEL, mask=True, mask_type="cnn",
        kl_regularizer=True, sigma_0=0.05, mu_0=None,
    )  # fmt: skip


def same_weights(theirs: Any, signal: ContinuousSignal) -> LongTermMemory:
    """Ours with the weights of the released module, which gets our matrices."""
    ours = LongTermMemory(D_MODEL, HEADS, D_MODEL // HEADS, signal)
    given = theirs.state_dict()
    ours.load_state_dict({key: given[key.replace(*_renamed(key))] for key in ours.state_dict()})
    matrices = fit(signal, BLOCK, torch.float32, torch.device("cpu"))
    theirs.G_inf = torch.cat([matrices.past, matrices.new])
    return ours


def _renamed(key: str) -> tuple[str, str]:
    name = key.split(".")[0]
    return name, NAMES[name]


def step_of_theirs(module: Any, block: Tensor, query: Tensor, past: Tensor, backward: bool) -> Tensor:
    """Outputs ``(B, T, D)`` of one step, with the past given."""
    module.B_past = past
    y, kl = module(block.transpose(0, 1), query.transpose(0, 1).flatten(2))
    if backward:
        (y.square().mean() + kl.mean()).backward()
    return y.transpose(0, 1)


def step_of_ours(
    module: LongTermMemory, block: Tensor, query: Tensor, past: Tensor, backward: bool
) -> Tensor:
    """The same with ours."""
    empty = torch.zeros(len(past), dtype=torch.bool)
    read = module(module.update(past, block, empty, None), query)
    if backward:
        kl = divergence(read.mean, read.variance, module.signal.kl_sigma, None)
        (read.y.square().mean() + kl.mean()).backward()
    return read.y


def timed(call: Callable[[], Any], anomalies: bool, clock: Callable[[], float]) -> float:
    """Seconds of one call."""
    with torch.autograd.set_detect_anomaly(anomalies):
        start = clock()
        call()
        return clock() - start


Sides = dict[str, tuple[Callable[[bool], Tensor], bool]]


def made(folder: Path, batch: int, basis: int) -> Sides:
    """For each side its step, which is told whether to go backward, and whether anomalies are looked for."""
    torch.manual_seed(0)
    theirs = official(folder, basis)
    ours = same_weights(theirs, ContinuousSignal.sorting(basis))
    block, earlier = torch.randn(2, batch, BLOCK, D_MODEL)
    query = torch.randn(batch, BLOCK, HEADS, D_MODEL // HEADS).requires_grad_()
    empty = torch.ones(batch, dtype=torch.bool)
    past = ours.update(ours.empty(batch), earlier, empty, None).detach()
    step = partial(step_of_theirs, theirs, block, query, past)
    return {
        "ours": (partial(step_of_ours, ours, block, query, past), False),
        "official": (step, False),
        "official, as released": (step, True),
    }


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    modes = parser.add_subparsers(dest="mode", required=True)
    beside = modes.add_parser("released", help="beside the released code")
    beside.set_defaults(run=released)
    beside.add_argument("folder", type=Path)
    for name, usual in (("batch", 8), ("basis", 512), ("turns", 9), ("threads", 2)):
        beside.add_argument(f"--{name}", type=int, default=usual)
    beside.add_argument("--cpu-time", action="store_true")
    cost = modes.add_parser("cost", help="behind a long context")
    cost.set_defaults(run=continuous_cost.main)
    continuous_cost.add_arguments(cost)
    return parser.parse_args()


def main() -> None:
    """Does what the command line says."""
    args = parsed()
    args.run(args)


def released(args: argparse.Namespace) -> None:
    """Times both sides and prints what was found."""
    clock = time.process_time if args.cpu_time else time.perf_counter
    torch.set_num_threads(args.threads)
    sides = made(args.folder, args.batch, args.basis)
    with torch.no_grad():
        first, second = (sides[name][0](False) for name in ("ours", "official"))
    worst = float((first - second).abs().max() / second.abs().max())
    if worst > 1e-3:
        raise SystemExit(f"outputs differ by {worst:.1e} of the largest")
    times: dict[tuple[str, bool], list[float]] = {(name, b): [] for name in sides for b in (False, True)}
    for _ in range(args.turns + 1):  # the first warms up
        for (name, backward), seconds in times.items():
            call, anomalies = sides[name]
            seconds.append(timed(partial(call, backward), anomalies, clock))
    found = {key: statistics.median(seconds[1:]) for key, seconds in times.items()}
    for name in sides:
        pair = [(found[name, b], found[name, b] / found["ours", b]) for b in (False, True)]
        print(f"{name:24}", *(f"{1000 * seconds:8.0f} ms ({ratio:4.1f}x)" for seconds, ratio in pair))
    kinds = {False: "forward", True: "forward and backward"}
    print(json.dumps({"difference": worst, **{f"{n}, {kinds[b]}": s for (n, b), s in found.items()}}))


if __name__ == "__main__":
    main()
