"""What all benchmarks share: sides in fresh processes that take turns, outputs compared, medians, memory, products.

A :class:`Workload` names its sides; a side is a function that builds what is timed and returns a function of no
arguments, one turn. It returns a tensor (or several) by which the sides are compared, or nothing. A side whose turn
needs something made first, outside the clock, returns ``(prepare, run)``; ``run`` is given what ``prepare`` made.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

Turn = Callable[[], Any]
PRODUCTS = "its matrix products"
_NOT_QUIET = 0.5  # cores that others use


@dataclass(frozen=True)
class Workload:
    """One thing that is timed.

    Attributes:
        name: in tables and on the command line.
        sides: makers of a turn by name, ours first. A maker raises ImportError where its code is not there.
        unit: what ``per`` turns into, such as ``ms a token``.
        per: so many units are in one turn.
        tolerance: largest difference of outputs, relative to the largest entry, where they are compared; None: never.
        alike: sides that compute the same as ours, whose outputs must agree; None: all.
        products: whether the time of the matrix products alone is measured as well.
        turns: at most so many.
    """

    name: str
    sides: dict[str, Callable[[], Any]]
    unit: str = "ms"
    per: int = 1
    tolerance: float | None = 1e-3
    alike: tuple[str, ...] | None = None
    products: bool = True
    turns: int = 9


def official(name: str) -> Path:
    """The checkout of an official code below ``--official``.

    Raises:
        ImportError: it is not there.
    """
    path = Path(os.environ.get("BENCH_OFFICIAL", "/nowhere")) / name
    if not path.is_dir():
        raise ImportError(f"no {name} below --official")
    return path


def size(usual: int, multiple: int = 1) -> int:
    """A length or a number of rows: the usual one, or with ``--shapes SEED`` one from half to one and a half of it."""
    seed = os.environ.get("BENCH_SHAPES")
    if seed is None:
        return usual
    low, high = -(-usual // (2 * multiple)), 3 * usual // (2 * multiple)
    return multiple * random.Random(f"{seed} {usual} {multiple}").randint(low, high)


def workload(module: str, name: str) -> Workload:
    """One of a module's ``WORKLOADS``."""
    return next(w for w in import_module(f"benchmarks.workloads.{module}").WORKLOADS if w.name == name)


class Products(TorchDispatchMode):
    """Notes the shapes of every matrix product."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: Counter[tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("mm", "bmm", "addmm", "baddbmm"):
            self.shapes[tuple((tuple(t.shape), t.stride()) for t in args[-2:])] += 1
        elif name == "linear":
            x, weight = args[0].flatten(0, -2), args[1].t()
            self.shapes[(tuple(x.shape), x.stride()), (tuple(weight.shape), weight.stride())] += 1
        elif name == "_linear_pointwise":
            x, bias = args[0].flatten(0, -2), args[2]
            wide = args[1].shape[0] if bias is None else len(bias)
            self.shapes[(tuple(x.shape), x.stride()), ((x.shape[1], wide), (1, x.shape[1]))] += 1
        return func(*args, **(kwargs or {}))


def _numbers(shape: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """Random numbers that lie in memory as an operand did, expanded axes included."""
    alone = [size if step else 1 for size, step in zip(shape, stride, strict=True)]
    return torch.empty_strided(alone, stride).normal_().expand(shape)


def products_alone(prepare: Turn, run: Callable[[Any], Any]) -> Turn:
    """A turn that multiplies matrices of the shapes of another's products, equal ones in turn, and nothing else."""
    given = prepare()
    with Products() as noted:
        run(given)
    made = []
    for operands, count in noted.shapes.items():
        pair = [_numbers(*operand) for operand in operands]
        made.append((torch.mm if pair[0].dim() == 2 else torch.bmm, pair, count))

    def turn() -> None:
        with torch.no_grad():
            for product, pair, count in made:
                for _ in range(count):
                    product(*pair)

    return turn


def work(module: str, name: str, side: str, threads: int, outputs: Path) -> None:
    """The process of one side: builds it, warms up, then times a turn for every line on its standard input."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    clock = time.process_time if threads == 1 else time.perf_counter
    what = workload(module, name)
    try:
        made = (what.sides[side] if side != PRODUCTS else next(iter(what.sides.values())))()
    except ImportError as missing:
        return print(json.dumps({"missing": str(missing)}), flush=True)
    prepare, run = made if isinstance(made, tuple) else (lambda: None, lambda _: made())
    if side == PRODUCTS:
        turn = products_alone(prepare, run)
        prepare, run = (lambda: None), (lambda _: turn())
    given = prepare()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
    before = status_bytes("VmRSS")
    found = run(given)
    if found is not None:
        torch.save([t.detach() for t in ([found] if isinstance(found, Tensor) else found)], outputs)
    run(prepare())
    print(json.dumps({"peak": status_bytes("VmHWM") - before}), flush=True)
    for _ in sys.stdin:
        given = prepare()
        began = clock()
        run(given)
        print(json.dumps({"seconds": clock() - began}), flush=True)
    return None


def status_bytes(key: str) -> int:
    """A line of ``/proc/self/status`` (Linux); not ``ru_maxrss``, as a child starts with its parent's."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[key].split()[0]) * 1024


class Process:
    """One side's process, seen from outside."""

    def __init__(self, module: str, name: str, side: str, threads: int, outputs: Path) -> None:
        self.outputs, self.talk = outputs, outputs.with_suffix(".log")
        command = [
            sys.executable,
            "-m",
            "benchmarks",
            "--work",
            module,
            name,
            side,
            str(threads),
            str(outputs),
        ]
        env = os.environ | {"OMP_NUM_THREADS": str(threads)}
        with self.talk.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=env
            )
        self.side, self.seconds = f"{name}, {side}", list[float]()

    def answer(self) -> dict[str, Any]:
        """Its next line of JSON; other lines are a library's talk."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise SystemExit(f"a side ended: {self.side}\n{self.talk.read_text()[-2000:]}")

    def turn(self) -> None:
        """Asks for one turn."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.seconds.append(self.answer()["seconds"])


def measure(module: str, what: Workload, threads: int, turns: int, seconds: float) -> dict[str, Any]:
    """Runs all sides of a workload that can run here, A B A B, until ``turns`` or ``seconds`` are over.

    Raises:
        SystemExit: a side fails, or outputs that should agree do not.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = [*what.sides, *([PRODUCTS] if what.products else [])]
        sides = {
            n: Process(module, what.name, n, threads, Path(folder) / f"{i}") for i, n in enumerate(names)
        }
        try:
            told = {name: side.answer() for name, side in sides.items()}
            missing = {name: given["missing"] for name, given in told.items() if "missing" in given}
            live = {name: side for name, side in sides.items() if name not in missing}
            agree(what, {name: side.outputs for name, side in live.items()})
            with Quiet(threads) as quiet:
                began, count = time.monotonic(), 0
                while count < min(turns, what.turns) and (count < 3 or time.monotonic() - began < seconds):
                    for side in live.values():
                        side.turn()
                    count += 1
        finally:
            for side in sides.values():
                side.process.kill()
                side.process.wait()
    result = {name: summary(side.seconds, what.per, told[name].get("peak")) for name, side in live.items()}
    ours = next(iter(live.values())).seconds
    for name, side in live.items():
        result[name]["over_ours"] = statistics.median(a / b for a, b in zip(side.seconds, ours, strict=True))
    return {
        "workload": what.name,
        "unit": what.unit,
        "turns": count,
        **quiet.told,
        "sides": result,
        "missing": missing,
    }


def summary(seconds: list[float], per: int, peak: int | None) -> dict[str, Any]:
    """Milliseconds of one unit: median and quartiles; and MiB."""
    each = [1e3 * s / per for s in seconds]
    low, middle, high = statistics.quantiles(each, n=4) if len(each) > 1 else each * 3
    return {"median": middle, "low": low, "high": high, "peak_mib": (peak or 0) / 2**20}


def agree(what: Workload, outputs: dict[str, Path]) -> None:
    """Compares what the sides computed with what ours did.

    Raises:
        SystemExit: it differs by more than the tolerance.
    """
    ours, *others = outputs
    if what.tolerance is None or not outputs[ours].exists():
        return
    wanted = torch.load(outputs[ours])
    for name in others:
        if not outputs[name].exists() or (what.alike is not None and name not in what.alike):
            continue
        for a, b in zip(wanted, torch.load(outputs[name]), strict=True):
            gap = float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-30))
            if not gap <= what.tolerance:
                raise SystemExit(f"{what.name}: ours and {name} differ by {gap:.1e} of the largest entry")


class Quiet:
    """Watches how many cores others use meanwhile, and what the hypervisor takes.

    ``told``: ``others`` cores, ``steal`` share, and whether that is ``quiet``.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.told: dict[str, Any] = {}

    def __enter__(self) -> "Quiet":
        self.began, self.jiffies = time.monotonic(), list(_jiffies())
        return self

    def __exit__(self, *_: object) -> None:
        took = max(time.monotonic() - self.began, 1e-3) * os.sysconf("SC_CLK_TCK")
        busy, steal = (after - before for before, after in zip(self.jiffies, _jiffies(), strict=True))
        others = max(0.0, busy / took - self.threads)  # one side works at a time, with all its threads
        self.told = {"others": round(others, 2), "steal": round(steal / took, 3)}
        self.told["quiet"] = others <= _NOT_QUIET and steal / took <= 0.02


def _jiffies() -> Iterator[int]:
    """The machine's busy and stolen time so far."""
    user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    yield user + nice + system + irq + soft
    yield steal
