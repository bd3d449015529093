"""What it costs never to lose a run: the watching callbacks in each update, and durable checkpoint files.

    python -m benchmarks.resilience

Trains the recipe's ``cpu`` scale for ``--steps`` updates with the callbacks of a real run and times every hook of
each, in the run itself; a share is of the whole training time. Checkpoints are of the ``paper`` scale's model with
Adam's state: ours (temporary file, fsync, SHA-256, manifest) beside Lightning's own ``TorchCheckpointIO``, taking
turns; seconds are medians. Prints a table and one line of JSON.
"""

import argparse
import functools
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins.io import TorchCheckpointIO
from tabulate import tabulate

from repro.checkpoints import DurableIO, fault
from repro.experiment.build import build
from repro.experiment.session import prepare
from repro.experiment.trainer import quiet
from repro.recipe import load_recipe

EXPERIMENT = "attention-is-all-you-need/base"


def timed(callback: Callback, spent: dict[str, float]) -> None:
    """Adds up the seconds that a callback's hooks take, under its class's name."""
    name = type(callback).__name__
    for hook in (word for word in dir(Callback) if word.startswith("on_")):
        if getattr(type(callback), hook) is getattr(Callback, hook):
            continue
        original = getattr(callback, hook)

        @functools.wraps(original)
        def measured(*given: Any, _original: Callable[..., Any] = original, **more: Any) -> Any:
            began = time.perf_counter()
            try:
                return _original(*given, **more)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - began

        setattr(callback, hook, measured)


def updates(steps: int) -> dict[str, Any]:
    """Milliseconds of an update, and of each callback in it."""
    settings: list[tuple[str, Any]] = [
        ("trainer.max_steps", steps),
        ("trainer.val_check_interval", 10 * steps),
    ]
    run = prepare(load_recipe(EXPERIMENT, "cpu", [*settings, ("checkpoints.every_steps", steps)]), seed=1)
    run.saver.folder = Path(tempfile.mkdtemp())
    spent: dict[str, float] = {}
    watching = [c for c in run.trainer.callbacks if type(c).__module__.startswith("repro.")]  # type: ignore[attr-defined]
    for callback in watching:
        if callback is not run.saver:
            timed(callback, spent)
    began = time.perf_counter()
    run.trainer.fit(run.parts.task, datamodule=run.parts.data)
    whole = time.perf_counter() - began
    each = {name: 1000 * seconds / steps for name, seconds in sorted(spent.items())}
    return {"update_ms": 1000 * whole / steps, "callbacks_ms": each, "share": sum(spent.values()) / whole}


def checkpoint_files(repeats: int) -> dict[str, Any]:
    """Seconds to write, verify and read one checkpoint, ours and Lightning's."""
    task = build(load_recipe(EXPERIMENT), with_data=False).task
    weights = task.state_dict()
    state = {"state_dict": weights, "mean": [{n: torch.zeros_like(w) for n, w in weights.items()}]}
    state["square"] = [{n: torch.zeros_like(w) for n, w in weights.items()}]
    seconds: dict[str, list[float]] = {
        name: [] for name in ("write", "verify", "read", "their write", "their read")
    }

    def clock(name: str, call: Callable[[], Any]) -> None:
        began = time.perf_counter()
        call()
        seconds[name].append(time.perf_counter() - began)

    ours, theirs = DurableIO(), TorchCheckpointIO()
    with tempfile.TemporaryDirectory() as folder:
        mine, other = Path(folder) / "ours" / "step-00000001.ckpt", Path(folder) / "theirs.ckpt"
        for _ in range(repeats):
            clock("write", lambda: ours.save_checkpoint(state, mine))
            clock("their write", lambda: theirs.save_checkpoint(state, other))
            clock("verify", lambda: fault(mine))
            clock("read", lambda: ours.load_checkpoint(mine))
            clock("their read", lambda: theirs.load_checkpoint(other, weights_only=True))
        size = mine.stat().st_size
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {"megabytes": size / 1e6, "seconds": medians}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200, help="updates to train (default 200)")
    parser.add_argument("--repeats", type=int, default=5, help="checkpoints to write (default 5)")
    args = parser.parse_args()
    quiet()
    found = {"updates": updates(args.steps), "checkpoints": checkpoint_files(args.repeats)}
    rows = [
        (f"callback {name}", f"{ms:.3f} ms an update")
        for name, ms in found["updates"]["callbacks_ms"].items()
    ]
    rows.append(("an update, all in all", f"{found['updates']['update_ms']:.1f} ms"))
    rows.append(("share of the callbacks", f"{100 * found['updates']['share']:.1f} %"))
    rows += [(f"checkpoint, {name}", f"{s:.2f} s") for name, s in found["checkpoints"]["seconds"].items()]
    rows.append(("size of a checkpoint", f"{found['checkpoints']['megabytes']:.0f} MB"))
    print(tabulate(rows, tablefmt="plain"))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
