"""Batches as a recipe's data make them, without the data: shapes are those of the recipe, ids and vectors are zeros."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from repro.batches import Batch, ExampleBatch, Examples, PairBatch, StreamBatch
from repro.data.core.datamodule import DataModule
from repro.data.core.examples import ExampleData
from repro.data.core.stream_data import StreamData
from repro.data.sets.translation.translation_data import TranslationData
from repro.errors import UserError
from repro.recipe import Config

# Tokens of a sentence, where the data do not state it: rows x tokens is set by the recipe and decides the cost.
SENTENCE = 32


class Fields(NamedTuple):
    """The fields of a datamodule's examples; inputs are ids or vectors."""

    ids: bool = False
    lengths: bool = False
    hidden: bool = False
    scored: bool = False


FIELDS = {
    "AlignmentData": Fields(lengths=True, scored=True),
    "BitMemoryData": Fields(hidden=True),
    "BitXorData": Fields(),
    "CopyData": Fields(ids=True, scored=True),
    "DialogueData": Fields(ids=True, lengths=True, scored=True),
    "DuplicationData": Fields(ids=True, scored=True),
    "GeneratedDialogueData": Fields(ids=True, lengths=True),
    "HomologyData": Fields(ids=True, lengths=True),
    "ListOpsData": Fields(ids=True, lengths=True),
    "NoiseData": Fields(),
    "NoisePixelData": Fields(ids=True),
    "PatchData": Fields(),
    "PixelData": Fields(ids=True),
    "SortingData": Fields(ids=True, scored=True),
    "SpeechData": Fields(lengths=True, scored=True),
}


def fields_of(data: Config) -> Fields | bool:
    """Returns the fields of a recipe's examples; for streams whether some targets do not count; False for pairs."""
    name, args = data["class_path"].removeprefix("repro.data."), data.get("init_args") or {}
    if name not in FIELDS:
        return bool(args.get("context", 0)) or args.get("order") == "sentences" or name == "EchoData"
    fields = FIELDS[name]
    return fields._replace(lengths=fields.lengths and args.get("tokens") != "truncated")


@dataclass(frozen=True)
class BatchSize:
    """The size of one batch.

    Attributes:
        rows: B.
        steps: T, of the target in pairs.
        source: tokens of a source.
        counted: share of the targets of a row that count, where not all do.
    """

    rows: int
    steps: int
    source: int = SENTENCE
    counted: float = 0.5


def whole_size(data: DataModule, seq_len: int | None = None) -> BatchSize:
    """The size of a global batch.

    Args:
        data: the datamodule.
        seq_len: of a stage of streams; None for the recipe's own.

    Pairs fill their budget on both sides, examples are as long as the data allow: the cost is an upper bound.
    """
    if isinstance(data, TranslationData):
        steps = min(data.max_length, data.batch_tokens, SENTENCE)
        return BatchSize(max(1, data.batch_tokens // steps), steps, steps)
    if isinstance(data, StreamData):
        steps = seq_len or data.seq_len
        scored = 1.0 - min(data.context, steps - 1) / steps
        return BatchSize(data.batch_tokens // steps, steps, counted=scored)
    assert isinstance(data, ExampleData)
    known = "n_targets" in vars(data)  # else only the store has it: all
    counted = min(1.0, data.n_targets / data.seq_len) if known else 1.0
    return BatchSize(data.batch_size, data.seq_len, counted=counted)


def batches(data: DataModule, config: Config, size: BatchSize, device: torch.device) -> list[Batch]:
    """Two batches of a stream, of which the second continues; one of all else.

    Args:
        data: the datamodule, which reads nothing.
        config: the recipe's ``data`` section.
        size: of a batch.
        device: of all tensors.

    Raises:
        UserError: examples of a class that is not in :data:`FIELDS`.
    """
    fields = fields_of(config)
    if isinstance(data, TranslationData):
        return [pairs(size, device)]
    if isinstance(fields, Fields) and isinstance(data, ExampleData):
        return [examples(data, fields, size, device)]
    if isinstance(fields, Fields) or not isinstance(data, StreamData):
        raise UserError(f"{config['class_path']}: its fields are unknown; add them to FIELDS in {__name__}")
    made = [stream(size, fields, reset_memory, device) for reset_memory in (True, False)]
    by_document = (config.get("init_args") or {}).get("order") == "documents"
    return [documents(batch, device) for batch in made] if by_document else list(made)


def pairs(size: BatchSize, device: torch.device) -> PairBatch:
    """Sentence pairs, padded to the same lengths."""
    target = ids(device, size.rows, size.steps)
    lengths = torch.ones(size.rows, dtype=torch.long, device=device)
    source, indices = ids(device, size.rows, size.source), ids(device, size.rows)
    return PairBatch(source, lengths, target, target.clone(), lengths, indices, size.rows * size.steps)


def stream(size: BatchSize, scored: bool, reset_memory: bool, device: torch.device) -> StreamBatch:
    """Rows of streams, of which the last part is scored, or all."""
    read, total = ids(device, size.rows, size.steps), size.rows * size.steps
    places = torch.arange(-int(-total * size.counted // 1), device=device) if scored else None
    return StreamBatch(read, read.clone(), places, ids(device, size.rows), reset_memory, 0, total)


def documents(batch: StreamBatch, device: torch.device) -> StreamBatch:
    """The batch as blocks of documents, of which the first begins here."""
    rows, steps = batch.ids.shape
    lengths, begins = torch.full((rows,), steps, device=device), torch.arange(rows, device=device) == 0
    return batch._replace(scored=torch.arange(rows * steps, device=device), lengths=lengths, begins=begins)


def examples(data: ExampleData, fields: Fields, size: BatchSize, device: torch.device) -> ExampleBatch:
    """Examples as the datamodule describes them."""
    rows, steps = size.rows, min(data.seq_len, size.steps)
    read = ids(device, rows, steps)
    if not fields.ids:
        read = torch.zeros(rows, steps, data.input_size, device=device)
    follows = data.vocab_size is not None  # every token has a target, what follows it
    targets = ids(device, rows, steps if follows else data.n_targets)
    counted = max(1, round(size.counted * steps)) if follows else data.n_targets
    hidden = torch.zeros_like(targets, dtype=torch.bool) if fields.hidden else None
    lengths = torch.full((rows,), steps, device=device) if fields.lengths else None
    scored = last_places(rows, targets.shape[1], counted, device) if fields.scored else None
    return ExampleBatch(Examples(read, targets, hidden, lengths, scored), torch.arange(rows), targets.numel())


def last_places(rows: int, targets: int, counted: int, device: torch.device) -> Tensor:
    """The last ``counted`` places of each row ``(rows · counted,)`` in flattened targets ``(rows, targets)``."""
    first = targets * torch.arange(1, rows + 1, device=device) - counted
    return (first[:, None] + torch.arange(counted, device=device)).flatten()


def ids(device: torch.device, *shape: int) -> Tensor:
    """Zeros."""
    return torch.zeros(*shape, dtype=torch.long, device=device)
