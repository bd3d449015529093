"""Conversations about two documents in the layout of the published files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repro.data.registry import DATA_SETS

FACTS = {
    "movieName": "The Kite", "year": "1999", "director": "A. Poet", "genre": "Drama",
    "cast": ["B. Lamp as the cat", "C. Dog"], "rating": ["Tomatoes: 9%"],
    "critical_response": [" a  kite! ", "no\nkite"], "introduction": "The Kite is a film.",
}  # fmt: skip
TEXT = (
    "Movie: The Kite\nYear: 1999\nDirector: A. Poet\nGenre: Drama\nCast: B. Lamp as the cat; C. Dog\n"
    "Rating: Tomatoes: 9%\nCritical response: a kite!; no kite\nIntroduction: The Kite is a film.\n"
    "A cat sees a kite.\nThe kite falls.\nThe end."
)
SAID = {
    "train": {
        "b": (5, [(0, "a cat"), (0, "a kite"), (1, "the end")]),
        "a": (9, [(1, "hello there"), (0, "  hello\n there  "), (1, " \n"), (1, "the kite falls")]),
        "c": (9, [(0, "bye")]),
    },
    "valid": {"d": (5, [(0, "hello"), (1, "the film"), (0, "é 🪁")])},
    "test": {"e": (9, [(1, "the cat sees the kite"), (0, "the kite")])},
}


def conversation(topic: int, said: list[tuple[int, str]]) -> dict[str, Any]:
    history = [
        {"docIdx": 0, "text": text, "uid": f"user{1 + speaker}", "utcTimestamp": "2018"}
        for speaker, text in said
    ]
    return {"date": "2018", "history": history, "rating": 1, "status": 1, "wikiDocumentIdx": topic}


def write_folder(patch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Writes the files, and takes the known hashes away, which are others."""
    patch.setitem(DATA_SETS, "cmu-dog", replace(DATA_SETS["cmu-dog"], sha256={}))
    files: dict[str, Any] = {}
    for name, number, facts in (("Alpha", 9, FACTS), ("Beta", 5, {**FACTS, "year": "2001"})):
        scenes = {"1": "A cat  sees a kite. ", "2": "The kite falls.", "3": "The end."}
        files[f"WikiData/{name}.json"] = {"0": facts, **scenes, "wikiDocumentIdx": number}
    for split, conversations in SAID.items():
        for name, (topic, output) in conversations.items():
            files[f"Conversations/{split}/{name}.json"] = conversation(topic, output)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return folder
