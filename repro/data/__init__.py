"""Data: sources, stores, tokenisers, batches and LightningDataModules. Knows no model.

The names below are loaded on first use, so that listing sources needs no torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AlignmentData": "repro.data.speech.alignment",
    "BitMemoryData": "repro.data.puzzles.bits",
    "BitXorData": "repro.data.puzzles.bits",
    "CopyData": "repro.data.puzzles.copying",
    "DuplicationData": "repro.data.puzzles.copying",
    "DataModule": "repro.data.core.datamodule",
    "DialogueData": "repro.data.dialogue.dialogue_data",
    "EchoData": "repro.data.core.synthetic",
    "GeneratedDialogueData": "repro.data.dialogue.dialogue_generated",
    "ExampleBatch": "repro.batches",
    "ExampleData": "repro.data.core.examples",
    "Examples": "repro.batches",
    "PatchData": "repro.data.images.pixels",
    "NoiseData": "repro.data.puzzles.noise",
    "NoisePixelData": "repro.data.puzzles.noise",
    "PixelData": "repro.data.images.raster",
    "Pictures": "repro.data.images.pictures",
    "HomologyData": "repro.data.proteins.protein_data",
    "ListOpsData": "repro.data.listops.listops_data",
    "ParsingData": "repro.data.treebank.parsing",
    "SortingData": "repro.data.puzzles.sorting",
    "SpeechData": "repro.data.speech.speech_data",
    "TranslationData": "repro.data.translation.translation_data",
    "TextData": "repro.data.text.text_data",
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
    "Store": "repro.data.store.store",
    "open_store": "repro.data.store.store",
    "Tokenizer": "repro.data.tokenizers.tokenizer",
    "load_tokenizer": "repro.data.tokenizers.tokenizer",
    "list_sources": "repro.data.sources",
    "prepare": "repro.data.sources",
    "verify": "repro.data.sources",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
