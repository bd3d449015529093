"""Attention over continuous memories, and the samples of sticky ones, for one example, as numbers."""

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from repro.batches import FirstExamples, TextCut
from repro.data.core.datamodule import DataModule
from repro.errors import UserError
from repro.experiment.build import AnyTask
from repro.experiment.trained import load_with_data
from repro.models.decodable import evaluating
from repro.nn.attention.continuous import ContinuousMemory
from repro.nn.attention.continuous.capture import PLACES, MemoryCapture, capture_memories
from repro.record import thin
from repro.tasks.evaluated import EvaluatedTask
from repro.tasks.lightning_private import stand_in_trainer

PARTS = 64  # of [0, 1], in which densities are shown
SEGMENTS = 16  # of a text that are read
LAYERS = 4  # that a record describes
_LAYER = re.compile(r"layers\.(\d+)\.")

Captures = dict[int, MemoryCapture]  # by the number of the layer, from 1


def load_captures(word: str, scale: str | None = None, seed: int | None = None) -> tuple[Path, Captures]:
    """Reads the first example of the test split with a trained run, on the CPU.

    Returns:
        The run's folder, and the captures.

    Raises:
        UserError: a run without a continuous memory, an example that is too short, and the errors of
            :func:`repro.experiment.trained.load_with_data`.
    """
    folder, parts = load_with_data(word, scale, seed)
    if not _has_memory(parts.task):
        raise UserError(f"{word}: no layer of its network has a continuous memory that could be shown")
    parts.data.setup("test")
    stand_in_trainer(parts.task, datamodule=parts.data, global_step=0)
    captures = read_example(parts.task, parts.data)
    if not captures:
        raise UserError(
            f"{word}: the first example of its test split is too short to reach a continuous memory"
        )
    return folder, captures


@torch.no_grad()
def read_example(task: AnyTask, data: DataModule) -> Captures:
    """Captures the content and reading of continuous memories for the first example of the test split.

    Of a text the first segments of the test split are read, as one stream. The network is copied to the CPU, where it
    is captured; the task stays as it was.

    Args:
        task: the task after the test.
        data: the datamodule after ``setup``.

    Returns:
        By layer; only those whose memory was read. Empty where no example of the data can be read by itself.
    """
    if not isinstance(task, EvaluatedTask) or not _has_memory(task):
        return {}
    evaluation = task.tests()[0]
    cut = evaluation.selection
    if isinstance(cut, TextCut):
        tokens = min(SEGMENTS * cut.seq_len, cut.tokens or SEGMENTS * cut.seq_len)
        evaluation = replace(evaluation, selection=replace(cut, rows=1, tokens=tokens, batches=None))
    elif FirstExamples in data.selections:
        # named as the validation during training, in which a model of conversations draws no replies
        evaluation = replace(evaluation, name=task.validation().name, selection=FirstExamples(1))
    else:
        return {}
    net = task.net
    task.net = copy.deepcopy(task.module).cpu()
    try:
        with evaluating(task), capture_memories(task.net) as captures:
            for batch in data.evaluation_loader(evaluation):
                task.score(batch, evaluation, task.metrics(evaluation))
    finally:
        task.net = net
    layers = ((_number(name, i), capture) for i, (name, capture) in enumerate(captures.items()))
    return {number: capture for number, capture in layers if capture.mean is not None}


def _has_memory(task: AnyTask) -> bool:
    return any(isinstance(module, ContinuousMemory) for module in task.module.modules())


def _number(name: str, place: int) -> int:
    """The layer that a module belongs to, from 1; in networks without numbered layers, the memory's own number."""
    match = _LAYER.search(name)
    return int(match[1]) + 1 if match else place + 1


# --- in numbers -------------------------------------------------------------------------------------------------------


def profiles(captures: Mapping[int, MemoryCapture]) -> dict[str, list[float]]:
    """Profiles for a record: lists of numbers over equal parts of [0, 1], named ``<quantity>/layer <number>``.

    The density is the mean over heads and the queries of the last piece. At most four layers, evenly spread, the first
    and the last among them; a list that is not finite is left out.
    """
    measured: dict[str, Tensor] = {}
    for number in thin(sorted(captures), LAYERS):
        capture = captures[number]
        measured[f"density of attention/layer {number}"] = capture.density(PARTS).mean((0, 1))
        measured[f"number of the token/layer {number}"] = _at_parts(capture)
        if capture.mass is not None:
            measured[f"share of attention by bin/layer {number}"] = capture.mass / capture.mass.sum()
        if capture.draws is not None:
            measured[f"draws by bin/layer {number}"] = capture.draws
    lists = {name: _rounded(values) for name, values in measured.items()}
    return {name: values for name, values in lists.items() if all(map(math.isfinite, values))}


def _rounded(values: Tensor) -> list[float]:
    return [float(f"{value:.4g}") if isinstance(value, float) else value for value in values.tolist()]


def _at_parts(capture: MemoryCapture, parts: int = PARTS) -> Tensor:
    """Number of the token in the middle of each part."""
    assert capture.tokens is not None
    return capture.tokens[(2 * torch.arange(parts) + 1) * PLACES // (2 * parts)]
