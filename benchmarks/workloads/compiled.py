"""Training steps with ``compile: true`` beside eager ones, on torch's own compiler (inductor; a C++ compiler on a CPU).

Layers of the base Transformer (:mod:`benchmarks.workloads.training`) and of Transformer-XL behind a full memory
(:mod:`benchmarks.workloads.memory`), two of each stack, without an optimiser. Compiling itself is not timed; it
takes minutes. The same weights: losses of Transformer-XL, which has no dropout, must agree.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.harness import Workload
from benchmarks.workloads import memory, training, translators
from repro.experiment.compiling import compile_training

NAMES, LAYERS = ("ours", "compiled"), 2


def base(name: str) -> tuple[Callable[[], None], Callable[[None], Any]]:
    """A training step of the Transformer."""
    model = translators.ours(0.1, LAYERS).train()
    if name == "compiled":
        compile_training(model)
    source, target, wanted = training.batch()

    def run(_: None) -> None:
        training.our_loss(model, source, target, wanted).backward()

    return partial(model.zero_grad, set_to_none=True), run


def recurrent(name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """A training step of Transformer-XL."""
    torch.manual_seed(0)
    side = memory.Ours(n_layer=LAYERS)
    if name == "compiled":
        compile_training(side.model)
    return memory.turn_of(side, learn=True, tokens=0)


WORKLOADS = [
    Workload(
        "Transformer of 2 layers, compiled training step", {n: partial(base, n) for n in NAMES}, turns=7
    ),
    Workload(
        "Transformer-XL of 2 layers, compiled training step",
        {n: partial(recurrent, n) for n in NAMES},
        tolerance=1e-4,
        turns=7,
    ),
]
