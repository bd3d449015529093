"""Speed and memory of relative attention with a memory, beside the official code and x-transformers.

    python -m benchmarks.memory [--official DIR]

DIR is the folder ``pytorch`` of kimiyoung/transformer-xl (``mem_transformer.py`` and ``utils/``); without it, and
where x-transformers cannot be imported, those sides are left out. x-transformers runs as its page describes for this
use, with rotary positions and ``max_mem_len``, once as it comes and once with fused attention.

Training: forward, loss and backward of one segment whose memory is full, no optimiser, no dropout. Evaluation: a
segment without gradient. Generation: one call per token behind a full memory. Sides take turns, so that a busy machine
slows all; a ratio is the median of the ratios of neighbours. Memory is the peak of a fresh process less what it held
before its first step. Ours and the official code have the same weights: their losses must agree, or the benchmark
fails. ``--cpu-time`` counts seconds of computing instead of seconds on the clock, for one thread on a machine that
others use. Prints a table and one line of JSON.

The official code imports under torch 2.13 once its masks are boolean and ``torch.version.cuda`` is a text on a CPU
build; both are changed in memory, no file is.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from repro.nn.mixer import detach
from tests.models import golden_adaptive, golden_relative

Clock = Callable[[], float]


@dataclass(frozen=True)
class Shape:
    """What is run."""

    d_model: int = 512
    d_inner: int = 2048
    n_head: int = 8
    d_head: int = 64
    n_layer: int = 6
    n_token: int = 204
    batch: int = 4
    tgt_len: int = 256
    mem_len: int = 256

    def options(self) -> dict[str, Any]:
        """The arguments of the official model, of which ours understands the same."""
        own = {key: value for key, value in asdict(self).items() if key != "batch"}
        return own | {"dropout": 0.0, "dropatt": 0.0, "ext_len": 0, "clamp_len": -1}


class Ours:
    """This library."""

    def __init__(self, shape: Shape, folder: str | None) -> None:
        self.model: Any = golden_relative.build(shape.options()).float()
        self.batch = shape.batch

    def start(self, kept: bool) -> Any:
        """An empty state; ``kept`` where no gradient is wanted."""
        return self.model.init_state(self.batch, 1_000_000 if kept else None)

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Mean loss of the next tokens ``(B, T)``."""
        hidden, state, *_ = self.model(ids, state)
        return self.model.vocabulary.nll(hidden, targets).mean(), detach(state)


class Official:
    """The authors' model: time first, memory as a list."""

    def __init__(self, shape: Shape, folder: str | None) -> None:
        self.model: Any = official_module(Path(folder or ".")).MemTransformerLM(**shape.options())
        for parameter in self.model.parameters():
            nn.init.normal_(parameter, std=0.02)
        self.tgt_len, self.mem_len = shape.tgt_len, shape.mem_len

    def start(self, kept: bool) -> Any:
        """An empty memory."""
        return ()

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Mean loss of the next tokens ``(B, T)``."""
        self.model.reset_length(ids.shape[1], 0, self.mem_len)
        loss, *state = self.model(ids.T.contiguous(), targets.T.contiguous(), *state)
        return loss.mean(), state


def official_module(folder: Path) -> ModuleType:
    """The authors' ``mem_transformer``, with boolean masks."""
    sys.path.insert(0, str(folder / "utils"))
    given, torch.version.cuda = torch.version.cuda, torch.version.cuda or "12.0"
    module = ModuleType("mem_transformer")
    text = (folder / "mem_transformer.py").read_text().replace(".byte()", ".bool()")
    exec(compile(text, "mem_transformer.py", "exec"), module.__dict__)
    torch.version.cuda = given
    return module


class XTransformers:
    """x-transformers with its own memory and rotary positions; another model of the same size, faster to compute."""

    def __init__(self, shape: Shape, folder: str | None, fused: bool = False) -> None:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(
            dim=shape.d_model,
            depth=shape.n_layer,
            heads=shape.n_head,
            attn_dim_head=shape.d_head,
            ff_mult=shape.d_inner / shape.d_model,
            rotary_pos_emb=True,
            attn_flash=fused,
        )
        self.model: Any = TransformerWrapper(
            num_tokens=shape.n_token,
            max_seq_len=shape.tgt_len,
            max_mem_len=shape.mem_len,
            attn_layers=layers,
            tie_embedding=True,
        )

    def start(self, kept: bool) -> Any:
        """An empty memory."""
        return None

    def loss(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Mean loss of the next tokens ``(B, T)``."""
        logits, state = self.model(ids, mems=state, return_mems=True)
        return cross_entropy(logits.flatten(0, 1), targets.flatten()), state


SIDES: dict[str, Callable[[Shape, str | None], Any]] = {
    "ours": Ours,
    "official": Official,
    "x-transformers": XTransformers,
    "x-transformers, fused": partial(XTransformers, fused=True),
}


def available(folder: str | None) -> list[str]:
    """The sides that can run."""
    names = ["ours"] + ["official"] * bool(folder)
    try:
        import x_transformers  # noqa: F401
    except ImportError:
        return names
    return [*names, "x-transformers", "x-transformers, fused"]


def segments(shape: Shape, count: int) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets ``(B, T)`` of consecutive segments."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(shape.n_token, (shape.batch, count * shape.tgt_len + 1), generator=draw)
    spans = range(0, count * shape.tgt_len, shape.tgt_len)
    return [(ids[:, at : at + shape.tgt_len], ids[:, at + 1 : at + 1 + shape.tgt_len]) for at in spans]


def full_memory(side: Any, shape: Shape, kept: bool) -> Any:
    """A state whose memory is full."""
    state = side.start(kept)
    with torch.no_grad():
        for ids, targets in segments(shape, -(-shape.mem_len // shape.tgt_len)):
            _, state = side.loss(ids, targets, state)
    return state


def one_segment(side: Any, shape: Shape, now: Clock, learn: bool) -> tuple[float, float]:
    """Seconds and loss of one segment behind a full memory; where ``learn``, with its gradients."""
    side.model.train(learn)
    side.model.zero_grad(set_to_none=True)
    state = full_memory(side, shape, kept=not learn)
    ids, targets = segments(shape, 2)[1]
    begin = now()
    with torch.set_grad_enabled(learn):
        loss, _ = side.loss(ids, targets, state)
    if learn:
        loss.backward()
    return now() - begin, float(loss.detach())


@torch.no_grad()
def generate(side: Any, shape: Shape, now: Clock, tokens: int = 16) -> tuple[float, float]:
    """Seconds for each of some tokens, fed one by one behind a full memory, and their mean loss."""
    side.model.eval()
    state = full_memory(side, shape, kept=True)
    ids, targets = segments(shape, 2)[1]
    losses, begin = [], now()
    for t in range(tokens):
        loss, state = side.loss(ids[:, t : t + 1], targets[:, t : t + 1], state)
        losses.append(float(loss))
    return (now() - begin) / tokens, statistics.mean(losses)


KINDS: dict[str, Callable[[Any, Shape, Clock], tuple[float, float]]] = {
    "training": partial(one_segment, learn=True),
    "evaluation": partial(one_segment, learn=False),
    "generation": generate,
}


def compare(kind: str, sides: dict[str, Any], shape: Shape, repeats: int, now: Clock) -> dict[str, Any]:
    """Medians, the other sides' times over ours, and how far ours and the official losses are apart."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    losses: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, side in sides.items():
            took, losses[name] = KINDS[kind](side, shape, now)
            if turn:  # the first turn warms up
                seconds[name].append(took)
    report: dict[str, Any] = {"seconds": {name: statistics.median(v) for name, v in seconds.items()}}
    report["times_as_fast"] = {
        name: statistics.median(a / b for a, b in zip(v, seconds["ours"], strict=True))
        for name, v in seconds.items()
    }
    if "official" in losses:
        report["loss_gap"] = abs(losses["ours"] - losses["official"])
        if not report["loss_gap"] < 1e-4:
            sys.exit(f"{kind}: ours and the official code disagree: {losses}")
    return report


def peak_of(name: str, args: argparse.Namespace) -> int:
    """Peak bytes of three training steps in a fresh process, over what it held before them."""
    command = [sys.executable, "-m", "benchmarks.memory", "--peak", name, "--threads", str(args.threads)]
    command += ["--official", args.official] if args.official else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1])


def measure_peak(name: str, shape: Shape, folder: str | None) -> int:
    """What :func:`peak_of` runs."""
    side = SIDES[name](shape, folder)
    before = status_bytes("VmRSS")
    for _ in range(3):
        one_segment(side, shape, time.perf_counter, learn=True)
    return status_bytes("VmHWM") - before


def status_bytes(key: str) -> int:
    """A line of ``/proc/self/status`` (Linux); not ``ru_maxrss``, as a child starts with its parent's."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines[key].split()[0]) * 1024


def table(report: dict[str, Any]) -> str:
    """The report for people."""
    from tabulate import tabulate

    rows = []
    for name, peak in report["peak_bytes"].items():
        row: list[Any] = [name]
        for kind in KINDS:
            row += [1e3 * report[kind]["seconds"][name], report[kind]["times_as_fast"][name]]
        rows.append([*row, peak / 2**20])
    heads = ["side"] + [head for kind in KINDS for head in (f"{kind}, ms", "over ours")] + ["peak MiB"]
    return tabulate(rows, heads, floatfmt=("", ".0f", ".2f", ".0f", ".2f", ".1f", ".2f", ".0f"))


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--official", metavar="DIR", help="the folder pytorch of the authors' code")
    parser.add_argument("--repeats", type=int, default=3, help="timed turns of each side")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="seconds of computing, not on the clock")
    parser.add_argument("--peak", metavar="SIDE", help="print one side's peak memory and end")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    shape = Shape()
    if args.peak:
        print(measure_peak(args.peak, shape, args.official))
        return
    sides = {name: SIDES[name](shape, args.official) for name in available(args.official)}
    if args.official:
        theirs = {name: value.detach() for name, value in sides["official"].model.named_parameters()}
        golden_adaptive.fill(sides["ours"].model, golden_relative.ours(theirs, {}))
    now = time.process_time if args.cpu_time else time.perf_counter
    report: dict[str, Any] = {kind: compare(kind, sides, shape, args.repeats, now) for kind in KINDS}
    report["peak_bytes"] = {name: peak_of(name, args) for name in sides}
    print(table(report))
    settings = {"shape": asdict(shape), "threads": args.threads, "torch": torch.__version__}
    print(json.dumps({"benchmark": "memory", "cpu_time": args.cpu_time, **settings, **report}))


if __name__ == "__main__":
    main()
