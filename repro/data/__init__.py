"""Data: sources, stores, tokenisers, batches and LightningDataModules. Knows no model.

The names below are loaded when they are first used, so that listing sources needs no torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "AlignmentData": "repro.data.alignment",
    "BitMemoryData": "repro.data.bits",
    "BitXorData": "repro.data.bits",
    "CopyData": "repro.data.puzzles",
    "DuplicationData": "repro.data.puzzles",
    "DataModule": "repro.data.datamodule",
    "DialogueData": "repro.data.dialogue",
    "EchoData": "repro.data.synthetic",
    "GeneratedDialogueData": "repro.data.dialogue_generated",
    "ExampleBatch": "repro.batches",
    "ExampleData": "repro.data.examples",
    "Examples": "repro.batches",
    "PatchData": "repro.data.pixels",
    "NoiseData": "repro.data.noise",
    "NoisePixelData": "repro.data.noise",
    "PixelData": "repro.data.raster",
    "Pictures": "repro.data.pictures",
    "HomologyData": "repro.data.proteins",
    "ListOpsData": "repro.data.listops",
    "ParsingData": "repro.data.parsing",
    "SortingData": "repro.data.sorting",
    "SpeechData": "repro.data.speech",
    "TranslationData": "repro.data.translation",
    "TextData": "repro.data.text",
    "StreamData": "repro.data.stream_data",
    "Stage": "repro.data.stream_data",
    "StreamBatch": "repro.batches",
    "Streams": "repro.data.cuts",
    "Windows": "repro.data.cuts",
    "Cut": "repro.data.cuts",
    "PairBatch": "repro.batches",
    "SourceBatch": "repro.batches",
    "PlannedLoader": "repro.data.loader",
    "FixedLoader": "repro.data.loader",
    "Store": "repro.data.store",
    "open_store": "repro.data.store",
    "Tokenizer": "repro.data.tokenizers",
    "load_tokenizer": "repro.data.tokenizers",
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
