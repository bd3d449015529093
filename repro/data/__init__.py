"""Data: sources, stores, tokenisers, batches and LightningDataModules. Imports no model.

The names below are loaded on first use, so that listing sources needs no torch.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    name: f"repro.{home}"
    for home, names in {
        "batches": "ExampleBatch Examples PairBatch SourceBatch StreamBatch Tokenizer",
        "data.core.datamodule": "DataModule",
        "data.core.examples": "ExampleData",
        "data.core.loader": "FixedLoader PlannedLoader",
        "data.core.stream_data": "Stage StreamData",
        "data.prepare": "open_store",
        "data.sets.dialogue.dialogue_data": "DialogueData GeneratedDialogueData",
        "data.sets.images.picture_data": "PatchData Pictures PixelData",
        "data.sets.labelled.labelled_data": "LabelledData",
        "data.sets.listops.listops_data": "ListOpsData",
        "data.sets.proteins.protein_data": "HomologyData",
        "data.sets.puzzles.bits": "BitMemoryData BitXorData",
        "data.sets.puzzles.copying": "CopyData DuplicationData",
        "data.sets.puzzles.echo": "EchoData",
        "data.sets.puzzles.noise": "NoiseData NoisePixelData",
        "data.sets.puzzles.sorting": "SortingData",
        "data.sets.speech.speech_data": "AlignmentData SpeechData",
        "data.sets.text.text_data": "TextData",
        "data.sets.translation.translation_data": "TranslationData",
        "data.sets.treebank.parsing_data": "ParsingData",
        "data.store": "Store",
        "data.tokenizers.loading": "load_tokenizer",
    }.items()
    for name in names.split()
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
