"""Speed and memory of every mixer at contexts from 256 to 16,384, with random weights in the small models of the study.

    python -m benchmarks.crossover [--contexts 256 1024 4096 16384] [--threads 2]

One row of bytes, forward and backward: mixers without a memory read the whole context, those with one read half of it
and remember half. Then single bytes, each behind a context. Each cell has a process of its own: the median of a few
turns, and memory: in training the most beyond the model's, in generation that of the state. Writes
results/crossover.jsonl, which ``repro tables`` shows beside the recorded runs of ``configs/crossover``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.__main__ import about
from benchmarks.harness import Quiet, status_bytes
from repro.errors import UserError
from repro.experiment.build import build
from repro.nn.mixer import State, nbytes
from repro.nn.settings import CallSettings, MemorySettings
from repro.paths import results_dir
from repro.recipe import experiments, load_recipe
from repro.record import write_atomic

GRID = "crossover/bytes"
REMEMBERING = ("relative", "infused", "continuous")
GENERATED = 16  # bytes of a turn
SECONDS, MOST = 5.0, 5  # turns of a cell, at least two


def network(mixer: str, context: int) -> Any:
    """The small recipe's network for a context, with random weights."""
    mixers = "model.net.blocks.mixers.0"
    settings: dict[str, Any] = {}
    if mixer in ("relative", "infused"):
        settings = {f"{mixers}.mem_len": context // 2}
    elif mixer == "continuous":
        settings = {f"{mixers}.short_term.mem_len": context // 2, f"{mixers}.block": context // 2}
    elif mixer.startswith("lsh"):
        settings = {f"{mixers}.hashing.buckets": context // 16}
    recipe = load_recipe(f"{GRID}@{mixer}", "small", list(settings.items()))
    return build(recipe).task.net


def training(net: Any, mixer: str, context: int) -> tuple[Callable[[], object], int]:
    """An update's passes over one row, and the bytes that they train on."""
    given = context // 2 if mixer in REMEMBERING else context
    ids = torch.randint(256, (1, given))
    state = None
    if mixer in REMEMBERING:
        with torch.no_grad():
            state = net(ids, net.init_state(1)).state

    def turn() -> None:
        mixed = net(ids, state)
        loss = net.vocabulary.nll(mixed.y.flatten(0, 1), ids.flatten()).sum()
        (loss if mixed.aux is None else loss + mixed.aux).backward()
        net.zero_grad()

    return turn, given


def generation(net: Any, mixer: str, context: int) -> tuple[Callable[[], object], int]:
    """Bytes one by one, behind as many as leave room for them in the context."""
    settings = CallSettings(MemorySettings(context)) if mixer in ("relative", "infused") else CallSettings()
    net.eval()
    state = net.init_state(1, context, settings)
    half = context // 2
    with torch.inference_mode():
        for read in torch.randint(256, (1, context - GENERATED)).split(half, 1):
            state = net(read, state, None, settings).state
    byte = torch.zeros(1, 1, dtype=torch.long)
    start: Tensor = state["stream"]["start"].clone()

    @torch.inference_mode()
    def turn() -> State:
        past = state
        past["stream"]["start"].copy_(start)
        for _ in range(GENERATED):
            mixed = net(byte, past, None, settings)
            past = mixed.state
            net.vocabulary.log_probs(mixed.y[:, -1])
        return past

    return turn, GENERATED


def cell(mixer: str, context: int, what: str, threads: int) -> dict[str, Any]:
    """One measurement, in this process."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    turn, count = {"training": training, "generation": generation}[what](
        network(mixer, context), mixer, context
    )
    Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
    before = status_bytes("VmRSS")
    state = turn()
    seconds: list[float] = []
    began = time.perf_counter()
    while len(seconds) < 2 or (time.perf_counter() - began < SECONDS and len(seconds) < MOST):
        start = time.perf_counter()
        turn()
        seconds.append(time.perf_counter() - start)
    memory = status_bytes("VmHWM") - before if what == "training" else nbytes(state)
    speed = count / statistics.median(seconds)
    return {"mixer": mixer, "context": context, "what": what, "tokens_per_s": speed, "mib": memory / 2**20}


def measured(mixer: str, context: int, what: str, threads: int) -> dict[str, Any]:
    """One measurement in a fresh process, and whether the machine was quiet meanwhile."""
    words = [sys.executable, "-m", "benchmarks.crossover", "--cell", mixer, str(context), what, str(threads)]
    with Quiet(threads) as quiet:
        done = subprocess.run(
            words, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": str(threads)}
        )
    if done.returncode:
        sys.exit(f"{mixer}, {what} at {context}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | quiet.told


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.crossover", description=__doc__.splitlines()[0])
    parser.add_argument("--contexts", type=int, nargs="+", default=[256, 1024, 4096, 16384])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        mixer, context, what, threads = args.cell
        return print(json.dumps(cell(mixer, int(context), what, int(threads))))
    if any(context < 64 or context % 64 for context in args.contexts):
        raise UserError(f"--contexts {args.contexts}: give multiples of 64")
    mixers = [e.partition("@")[2] for e in experiments() if e.startswith(f"{GRID}@")]
    lines, told = [], about(args.threads)
    for context in args.contexts:
        for mixer in mixers:
            for what in ("training", "generation"):
                lines.append(told | measured(mixer, context, what, args.threads))
                print(json.dumps(lines[-1]), flush=True)
    path = results_dir() / "crossover.jsonl"
    return write_atomic(path, "".join(json.dumps(line) + "\n" for line in lines).encode())


if __name__ == "__main__":
    main()
