"""What logging to W&B costs training: the calls themselves, the start, the end, and the updates beside the thread.

    python -m benchmarks.tracking [--rows 200] [--repeats 5]

Updates of a small matrix product, a row after each, with the logger (offline) and without, taking turns; a ratio is
the median of neighbours. ``--every`` updates a row; runs of ours log at most every 50 updates in long trainings, so
the default, a row after each update, is the worst case. Prints a table and one line of JSON.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate

from repro.tracking import client
from repro.tracking.background import BackgroundLogger, Limits
from repro.tracking.sync import write_about


def begin(folder: Path) -> BackgroundLogger:
    """A logger of a run in a new folder, offline."""
    (folder / "wandb").mkdir(parents=True)
    write_about(folder, "0" * 16, "benchmark")
    about = {
        "id": "0" * 16, "name": "benchmark", "dir": str(folder), "project": "benchmark", "group": "g",
        "job_type": "train", "tags": [], "config": {}, "summaries": {},
    }  # fmt: skip
    return BackgroundLogger(about, folder / "wandb", Limits(), online=False)


def updates(count: int, every: int, size: int, logger: BackgroundLogger | None) -> tuple[float, list[float]]:
    """Seconds of so many updates, and of each call of the logger."""
    weight, calls = torch.randn(size, size), []
    began = time.perf_counter()
    for step in range(count):
        weight = torch.tanh(weight @ weight)
        if logger is not None and step % every == 0:
            call = time.perf_counter()
            logger.log_metrics({f"train/{name}": float(step) for name in "abcdefghij"}, step)
            calls.append(time.perf_counter() - call)
    return time.perf_counter() - began, calls


def measure(args: argparse.Namespace, root: Path) -> dict[str, Any]:
    """Medians over the repeats."""
    found: dict[str, list[float]] = {
        name: [] for name in ("start_s", "end_s", "call_us", "slowest_call_us", "ratio", "update_ms")
    }
    for repeat in range(args.repeats + 1):
        alone, _ = updates(args.rows * args.every, args.every, args.size, None)
        clock = time.perf_counter()
        logger = begin(root / str(repeat))
        started = time.perf_counter() - clock
        while not client.services():  # its service starts while training goes on; here it is left out
            time.sleep(0.01)
        time.sleep(1)
        beside, calls = updates(args.rows * args.every, args.every, args.size, logger)
        clock = time.perf_counter()
        logger.close(60)
        ended = time.perf_counter() - clock
        if repeat:  # the first turn warms up
            told = (started, ended, 1e6 * statistics.median(calls), 1e6 * max(calls), beside / alone)
            for name, value in zip(found, (*told, 1e3 * alone / (args.rows * args.every)), strict=True):
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default, what in (
        ("rows", 200, "rows of a turn"),
        ("every", 1, "updates for each row"),
        ("size", 512, "of the matrices"),
        ("repeats", 5, "timed turns of each side"),
        ("threads", 1, "of the CPU"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{what}; default {default}")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    os.environ.pop("WANDB_MODE", None)
    with tempfile.TemporaryDirectory() as root:
        found = measure(args, Path(root))
    print(tabulate([(name, f"{value:.3f}") for name, value in found.items()], tablefmt="plain"))
    print(json.dumps({"benchmark": "tracking", **vars(args), **found, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
