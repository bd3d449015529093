"""Data: sources, stores, tokenisers, batches and LightningDataModules. Knows no model.

The names below are loaded on first use, so that listing sources needs no torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AlignmentData": "repro.data.sets.speech.speech_data",
    "BitMemoryData": "repro.data.sets.puzzles.bits",
    "BitXorData": "repro.data.sets.puzzles.bits",
    "CopyData": "repro.data.sets.puzzles.copying",
    "DuplicationData": "repro.data.sets.puzzles.copying",
    "DataModule": "repro.data.core.datamodule",
    "DialogueData": "repro.data.sets.dialogue.dialogue_data",
    "EchoData": "repro.data.sets.puzzles.echo",
    "GeneratedDialogueData": "repro.data.sets.dialogue.dialogue_data",
    "ExampleBatch": "repro.batches",
    "ExampleData": "repro.data.core.examples",
    "Examples": "repro.batches",
    "PatchData": "repro.data.sets.images.picture_data",
    "NoiseData": "repro.data.sets.puzzles.noise",
    "NoisePixelData": "repro.data.sets.puzzles.noise",
    "PixelData": "repro.data.sets.images.picture_data",
    "Pictures": "repro.data.sets.images.picture_data",
    "HomologyData": "repro.data.sets.proteins.protein_data",
    "ListOpsData": "repro.data.sets.listops.listops_data",
    "ParsingData": "repro.data.sets.treebank.parsing_data",
    "SortingData": "repro.data.sets.puzzles.sorting",
    "SpeechData": "repro.data.sets.speech.speech_data",
    "TranslationData": "repro.data.sets.translation.translation_data",
    "TextData": "repro.data.sets.text.text_data",
    "StreamData": "repro.data.core.stream_data",
    "Stage": "repro.data.core.stream_data",
    "StreamBatch": "repro.batches",
    "Streams": "repro.data.core.cuts",
    "Windows": "repro.data.core.cuts",
    "Cut": "repro.data.core.cuts",
    "PairBatch": "repro.batches",
    "SourceBatch": "repro.batches",
    "PlannedLoader": "repro.data.core.loader",
    "FixedLoader": "repro.data.core.loader",
    "Store": "repro.data.store",
    "open_store": "repro.data.prepare",
    "Tokenizer": "repro.batches",
    "load_tokenizer": "repro.data.tokenizers.loading",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
