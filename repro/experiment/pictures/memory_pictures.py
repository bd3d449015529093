"""Attention over continuous memories, and the samples of sticky ones, for one example: as a sheet and as numbers."""

import copy
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from repro.batches import FirstExamples, TextCut
from repro.data.core.datamodule import DataModule
from repro.errors import UserError
from repro.experiment.build import AnyTask
from repro.experiment.pictures.heat_maps import Band, HeatMap, draw
from repro.experiment.trained import load_with_data
from repro.models.decodable import evaluating
from repro.nn.attention.continuous import ContinuousMemory
from repro.nn.attention.continuous.capture import PLACES, MemoryCapture, capture_memories
from repro.record import thin
from repro.tasks.evaluated import EvaluatedTask
from repro.tasks.lightning_private import stand_in_trainer

PARTS = 64  # of [0, 1], in which densities are shown
SEGMENTS = 16  # of a text that are read
QUERIES = 48  # that are shown: the last ones
LAYERS = 4  # that a record describes
_LAYER = re.compile(r"layers\.(\d+)\.")

Captures = dict[int, MemoryCapture]  # by the number of the layer, from 1


def load_captures(word: str, scale: str | None = None, seed: int | None = None) -> Captures:
    """Reads the first example of the test split with a finished run, on the CPU.

    Raises:
        UserError: a run without a continuous memory, an example that is too short, and the errors of
            :func:`repro.experiment.trained.load_with_data`.
    """
    _, parts = load_with_data(word, scale, seed)
    if not _has_memory(parts.task):
        raise UserError(f"{word}: no layer of its network has a continuous memory that could be shown")
    parts.data.setup("test")
    stand_in_trainer(parts.task, datamodule=parts.data, global_step=0)
    captures = read_example(parts.task, parts.data)
    if not captures:
        raise UserError(
            f"{word}: the first example of its test split is too short to reach a continuous memory"
        )
    return captures


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
        with evaluating(task.net), capture_memories(task.net) as captures:
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


# --- as a sheet -------------------------------------------------------------------------------------------------------


def memory_sheet(
    title: str, captures: Captures, layers: Sequence[int] | None = None, heads: Sequence[int] | None = None
) -> bytes:
    """Short-term attention, attention to the continuous memory and what sticky memories sample, as a PNG.

    Args:
        title: above all.
        captures: by layer.
        layers: those that are shown, from 1; None for all.
        heads: those that are shown, from 1; None for all.

    Raises:
        UserError: no such layer or head.
        ReproError: the sheet would be too large.
    """
    wrong = [layer for layer in layers or () if layer not in captures]
    if wrong:
        raise UserError(
            f"layer {wrong[0]} has no continuous memory; there are: {', '.join(map(str, captures))}"
        )
    bands = []
    for layer in layers or captures:
        count = captures[layer].n_heads
        unknown = [head for head in heads or () if not 1 <= head <= count]
        if unknown:
            raise UserError(f"head {unknown[0]} does not exist; layer {layer} has heads 1 to {count}")
        bands += _bands(layer, captures[layer], [head - 1 for head in heads or range(1, count + 1)])
    return draw(title, bands)


def _bands(layer: int, capture: MemoryCapture, heads: Sequence[int]) -> list[Band]:
    """All pictures of one layer."""
    assert capture.mean is not None
    steps = min(capture.mean.shape[1], QUERIES)
    rows = [str(capture.held - steps + i) for i in range(steps)]
    bands = []
    short = capture.short
    if short is not None:
        maps = [_short(capture, head, short[head, -steps:], rows) for head in heads]
        text = "a row is a query, a column a token that short-term attention sees"
        bands.append(Band(f"Layer {layer}: {text}", maps))
    density = capture.density(PARTS)
    maps = [_long(capture, head, density[head, -steps:], rows) for head in heads]
    text = (
        "a row is a query, a column a part of the continuous memory, the oldest left; lines: ends of blocks"
    )
    bands.append(Band(f"Layer {layer}: {text}", maps))
    if capture.mass is not None and capture.draws is not None:
        text = "attention by bin, and the bins that its last update drew; darker where more"
        bands.append(Band(f"Layer {layer}: {text}", [_histogram(capture.mass, capture.draws)]))
    return bands


def _short(capture: MemoryCapture, head: int, weights: Tensor, rows: list[str]) -> HeatMap:
    """Weights ``(R, S)``; every eighth token has its number."""
    first = capture.held - weights.shape[1]
    columns = [str(n) if n % 8 == 0 else "" for n in range(first, capture.held)]
    peak = float(weights.max())
    title = f"head {head + 1}, darkest {peak:.2g}"
    return HeatMap(title, (weights / peak).tolist(), rows[-len(weights) :], columns, cell=(6, 11))


def _long(capture: MemoryCapture, head: int, density: Tensor, rows: list[str]) -> HeatMap:
    """Densities ``(R, parts)``; each block has the number of its first token."""
    tokens = _at_parts(capture, density.shape[1])
    begins = [True, *(tokens[1:] // capture.block != tokens[:-1] // capture.block).tolist()]
    firsts = (tokens // capture.block * capture.block).tolist()
    columns = [f"from {n}" if new else "" for n, new in zip(firsts, begins, strict=True)]
    peak, outside = float(density.max()), 1 - float(density.mean())
    title = f"head {head + 1}, darkest {peak:.2g} x uniform, {outside:.0%} outside"
    rules = [i for i, new in enumerate(begins) if new and i]
    return HeatMap(title, (density / peak).tolist(), rows, columns, cell=(6, 11), rules=rules)


def _histogram(mass: Tensor, draws: Tensor) -> HeatMap:
    """The attention by bin ``(bins,)``, and how often each was drawn ``(bins,)``."""
    values = [(counts / counts.max()).tolist() for counts in (mass, draws)]
    columns = [str(i) if i % 8 == 0 else "" for i in range(len(mass))]
    title = f"most attention {float(mass.max() / mass.sum()):.2g} of all, most draws {int(draws.max())}"
    return HeatMap(title, values, ["attention", "drawn"], columns, cell=(8, 14))
