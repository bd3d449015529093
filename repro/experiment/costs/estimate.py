"""The costs of a run: operations and memory, and from these GPU hours and the parts in which a batch fits."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from repro.data.core.datamodule import DataModule
from repro.data.core.stream_data import StreamData
from repro.data.sets.puzzles.echo import EchoData
from repro.errors import at_least
from repro.experiment.build import build
from repro.experiment.costs.batches import BatchSize, whole_size
from repro.experiment.costs.measured import Row, rows_of
from repro.experiment.costs.roofline import UPDATE_S, Arithmetic, Gpu, arithmetic_of, gpu_of, update_seconds
from repro.experiment.costs.step import StepCost, cache_key, step_cost
from repro.nn import BidirectionalLSTM
from repro.recipe import Recipe

# Tokens of training texts, which determine the number of updates of an epoch of a stage.
TOKENS = {"wikitext-103/words": 103_227_021, "wikitext-2/bytes": 10_797_148, "books/bpe29000": 700_000_000}
LONGEST = "every example has the greatest length: an upper bound"
FILLED = "pairs fill the budget on both sides: an upper bound"
ASSUMED = {
    "TranslationData": FILLED,
    "ParsingData": FILLED,
    "ListOpsData": LONGEST,
    "HomologyData": LONGEST,
    "SpeechData": LONGEST,
    "AlignmentData": LONGEST,
    "DialogueData": "a conversation is one window, and all of it is scored",
    "EchoData": "every token is scored: an upper bound",
}

_steps: dict[str, StepCost] = {}


@dataclass(frozen=True)
class Phase:
    """Updates with inputs of one length.

    Attributes:
        updates: number of updates.
        size: size of the global batch.
        step: the cost of an update on one device, the whole batch at once.
    """

    updates: int
    size: BatchSize
    step: StepCost


@dataclass(frozen=True)
class Cost:
    """The cost of one run of a recipe.

    Attributes:
        recipe: resolved.
        phases: of the training, the last one with inputs of the full length.
        row: an update with a single row.
        notes: assumptions, one line each.
    """

    recipe: Recipe
    phases: tuple[Phase, ...]
    row: StepCost
    notes: tuple[str, ...]

    @property
    def arithmetic(self) -> Arithmetic:
        """The recipe's own."""
        return arithmetic_of(self.recipe)

    @property
    def own_gpu(self) -> Gpu | None:
        """The GPU that the recipe expects at its scale."""
        return gpu_of(str(self.recipe.config.get("hardware", "")))

    @property
    def updates(self) -> int:
        return sum(phase.updates for phase in self.phases)

    @property
    def flops(self) -> float:
        """FLOPs of the whole training."""
        return sum(float(phase.updates * phase.step.flops) for phase in self.phases)

    @property
    def step(self) -> StepCost:
        """An update with inputs of the full length."""
        return self.phases[-1].step

    @property
    def rows(self) -> int:
        """Size of the global batch, with inputs of the full length."""
        return self.phases[-1].size.rows

    def parts(self, gpu: Gpu) -> int | None:
        """The fewest parts of the global batch of which each fits; None where a single row does not.

        The peak is taken to be linear between a single row and the whole batch.
        """
        largest = max(self.phases, key=lambda one: one.step.peak)
        rows, least = largest.size.rows, self.row.peak
        for n in range(1, rows + 1):
            share = (math.ceil(rows / n) - 1) / max(1, rows - 1) if rows > 1 else 1.0
            if least + (largest.step.peak - least) * share <= gpu.usable:
                return n
        return None

    def gpu_hours(
        self, gpu: Gpu, arithmetic: Arithmetic | None = None, compiled: bool = False
    ) -> float | None:
        """Hours of one GPU in some arithmetic, by default the recipe's; None where it has no such unit.

        By a measurement of the updates where there is one, else by the roofline. Compiled: None also where the network
        cannot be.
        """
        arithmetic = arithmetic or self.arithmetic
        if row := self.measured(gpu).get(f"{arithmetic}, compiled" if compiled else arithmetic):
            return self.hours_by(row)
        hours, parts = 0.0, self.parts(gpu) or 1
        for phase in self.phases:
            operations = phase.step.compiled if compiled else phase.step.operations
            seconds = update_seconds(operations, gpu, arithmetic, parts)
            if seconds is None or not operations:
                return None
            hours += phase.updates * seconds / 3600
        return hours

    def measured(self, gpu: Gpu) -> Mapping[str, Row]:
        """Measurements of the updates by variant."""
        return rows_of(self.recipe, gpu.name)

    def hours_by(self, row: Row) -> float:
        """Hours by a measurement; what Lightning takes is added."""
        pairs = zip(self.phases, row["seconds"], strict=True)
        return sum(phase.updates * (seconds + UPDATE_S) for phase, seconds in pairs) / 3600


def cost(recipe: Recipe) -> Cost:
    """Counts the cost of a run on the meta device; needs no data.

    Raises:
        UserError: the recipe cannot be built, or has no updates.
    """
    parts = build(recipe, meta=True)
    data = parts.data
    trainer = recipe.config.get("trainer") or {}
    updates = int(trainer.get("max_steps", 0))
    at_least(1, **{f"{recipe.experiment}: trainer.max_steps": updates})
    notes = [ASSUMED.get(recipe.config["data"]["class_path"].removeprefix("repro.data."))]
    lengths = stages(data, updates, str((recipe.config["data"].get("init_args") or {}).get("store")))
    if lengths is None:
        notes.append("how many updates the stages have is not known without the data: all at the full length")
    if recipe.config.get("stop"):
        notes.append("the run may end earlier: it has a stop rule")
    if any(isinstance(module, BidirectionalLSTM) for module in parts.task.modules()):
        notes.append("hours count kernels of each token, which cuDNN joins: an upper bound")
    if arithmetic_of(recipe) is Arithmetic.HALF:
        notes.append("memory is counted in float32: an upper bound")
    sizes = [(n, whole_size(data, seq_len)) for n, seq_len in lengths or [(updates, None)]]
    phases = tuple(Phase(n, size, _cached(recipe, size)) for n, size in sizes)
    row = _cached(recipe, replace(phases[-1].size, rows=1))
    return Cost(recipe, phases, row, tuple(note for note in notes if note))


def stages(data: DataModule, updates: int, store: str) -> list[tuple[int, int | None]] | None:
    """Updates and length of inputs of each stage, None for the recipe's own; None if an epoch's length is unknown."""
    if not isinstance(data, StreamData):
        return [(updates, None)]
    tokens = data.sizes["train"] if isinstance(data, EchoData) else TOKENS.get(store)
    lengths: list[tuple[int, int | None]] = []
    for stage in data.stages:
        if tokens is None:
            return None
        epoch = (tokens - 1) // data.shards // data.batch_tokens
        lengths.append((min(updates, stage.epochs * epoch), stage.seq_len))
        updates -= lengths[-1][0]
    return [*lengths, (updates, None)]


def _cached(recipe: Recipe, size: BatchSize) -> StepCost:
    key = cache_key(recipe, size)
    if key not in _steps:
        _steps[key] = step_cost(recipe, size)
    return _steps[key]
