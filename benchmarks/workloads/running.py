"""What surrounds training: reading data, starting, callbacks, tracking and checkpoints, of the base Transformer.

- data pipeline: the training batches of the ``cpu`` scale alone, beside the model's training step on them: how many
  times as fast as the model data are read.
- first batch: a fresh interpreter from the recipe to the first batch, beside the imports alone.
- callbacks: 60 updates with the callbacks of a real run, beside the same without.
- tracking: updates of a small matrix product and an event of ten numbers after each, with the run's file and without.
- checkpoint: the base model with Adam's state (757 MB): temporary file, fsync, SHA-256 and manifest, beside
  Lightning's.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import torch

from benchmarks.harness import Workload

EXPERIMENT, BATCHES, UPDATES, ROWS = "attention-is-all-you-need/base", 20, 60, 200
_TO_FIRST_BATCH = (
    f"from benchmarks.workloads.running import first_batches; next(iter(first_batches({EXPERIMENT!r})))"
)


def first_batches(experiment: str) -> Any:
    """The training batches of a recipe's ``cpu`` scale."""
    from repro.experiment.build import build
    from repro.recipe import load_recipe

    parts = build(load_recipe(experiment, "cpu"))
    parts.data.prepare_data()
    parts.data.setup("fit")
    return parts.data.train_dataloader()


def reading() -> Callable[[], None]:
    """Batches alone, epoch after epoch."""
    batches = chain.from_iterable(repeat(first_batches(EXPERIMENT)))

    def turn() -> None:
        for _ in range(BATCHES):
            next(batches)

    return turn


def learning() -> Callable[[], None]:
    """Training steps on as many batches, read beforehand; no optimiser."""
    from repro.experiment.build import build
    from repro.recipe import load_recipe

    model: Any = build(load_recipe(EXPERIMENT, "cpu")).task.net
    batches = [batch for batch, _ in zip(first_batches(EXPERIMENT), range(BATCHES), strict=False)]

    def turn() -> None:
        for b in batches:
            hidden = model(b.source, b.source_lengths, b.target_in, b.target_lengths).y
            model.vocabulary.nll(hidden, b.target_out.clamp(min=0)).sum().backward()

    return turn


def interpreter(code: str) -> Callable[[], None]:
    """A fresh interpreter that runs a line."""
    command = [sys.executable, "-c", code]
    return lambda: subprocess.run(command, check=True, env=os.environ, stdout=subprocess.DEVNULL) and None


def fitting(watched: bool) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Some updates in Lightning's loop."""
    from repro.experiment.session import prepare
    from repro.experiment.trainer import quiet
    from repro.recipe import load_recipe

    quiet()
    settings: list[tuple[str, Any]] = [
        ("trainer.max_steps", UPDATES), ("trainer.val_check_interval", 10 * UPDATES),
        ("checkpoints.every_steps", UPDATES),
    ]  # fmt: skip

    def ready() -> Any:
        run: Any = prepare(load_recipe(EXPERIMENT, "cpu", settings), seed=1)
        run.saver.folder = Path(tempfile.mkdtemp())
        ours = [c for c in run.trainer.callbacks if type(c).__module__.startswith("repro.")]
        dropped = [run.saver] if watched else ours
        run.trainer.callbacks = [c for c in run.trainer.callbacks if c not in dropped]
        return run

    return ready, lambda run: run.trainer.fit(run.parts.task, datamodule=run.parts.data)


def logging(tracked: bool) -> Callable[[], None]:
    """Updates with a row after each."""
    from repro.events import EventLog

    log = EventLog(Path(tempfile.mkdtemp()))
    steps = iter(range(10**9))

    def turn() -> None:
        weight = torch.eye(512)
        for _ in range(ROWS):
            weight, step = torch.tanh(weight @ weight), next(steps)
            if tracked:
                log.append("train", step, {f"train/{name}": float(step) for name in "abcdefghij"})

    return turn


def checkpoint(durable: bool, read: bool) -> Callable[[], None]:
    """Writing or reading one."""
    from lightning.pytorch.plugins.io import TorchCheckpointIO

    from repro.experiment.build import build_task
    from repro.recipe import load_recipe
    from repro.training.checkpoints import DurableIO

    weights = build_task(load_recipe(EXPERIMENT)).state_dict()
    adam = [{name: torch.zeros_like(w) for name, w in weights.items()} for _ in range(2)]
    state = {"state_dict": weights, "mean": adam[0], "square": adam[1]}
    files, path = (
        (DurableIO() if durable else TorchCheckpointIO()),
        Path(tempfile.mkdtemp()) / "step-00000001.ckpt",
    )
    files.save_checkpoint(state, path)
    return lambda: files.load_checkpoint(path) and None if read else files.save_checkpoint(state, path)


def plain(name: str, sides: dict[str, Callable[[], Any]], unit: str = "ms", per: int = 1) -> Workload:
    """A workload without products and outputs."""
    return Workload(name, sides, unit, per, None, products=False, turns=5)


WORKLOADS = [
    plain("data pipeline", {"ours": reading, "the model's step": learning}, "ms a batch", BATCHES),
    plain(
        "first batch",
        {
            "ours": partial(interpreter, _TO_FIRST_BATCH),
            "imports of torch and lightning": partial(interpreter, "import torch, lightning.pytorch"),
        },
    ),
    plain(
        "callbacks",
        {"with": partial(fitting, True), "without": partial(fitting, False)},
        "ms an update",
        UPDATES,
    ),
    plain(
        "tracking", {"with": partial(logging, True), "without": partial(logging, False)}, "ms an update", ROWS
    ),
] + [
    plain(f"checkpoint, {name}", {"ours": partial(checkpoint, True, r), "Lightning": partial(checkpoint, False, r)})
    for name, r in (("write", False), ("read", True))
]  # fmt: skip
