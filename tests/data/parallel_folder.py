"""Tiny folders under the true names of the large parallel corpora, for tests."""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from repro.data import registry
from repro.data.registry import DATA_SETS
from repro.data.sets.translation.pairs import SentencePairs

HELD = {
    "newstest2013.en": ["Good morning .", "  two  blanks ", "three & more"],
    "newstest2013.de": ["Guten Morgen .", "zwei\u00a0Leerzeichen", "drei & mehr"],
    "newstest2014.en": ["a", "b", "c", "d " * 300],
    "newstest2014.de": ["A", "B", "C", "D"],
}
CORPORA = {
    "training/europarl-v7.de-en": [(f"the {n} houses", f"die {n} H\u00e4user") for n in range(30)],
    "commoncrawl.de-en": [
        ("odd\u2028line\x0c", "schr\u00e4ge\x85Zeile\r"),
        ("", "nichts"),
        ("no", " \u00a0 "),
    ],
    "training-parallel-nc-v9/training/news-commentary-v9.de-en": [
        ("word " * 256, "Wort " * 256),
        ("word " * 257, "Wort"),
    ],
}


def text(lines: Sequence[str]) -> bytes:
    """Lines as a file has them."""
    return "".join(f"{line}\n" for line in lines).encode()


def write_wmt(folder: Path, languages: str = "de-en") -> Path:
    """The files of WMT14 English-German: training, dev and test in the folders they come in."""
    for stem, pairs in CORPORA.items():
        for side, part in enumerate(("en", "de")):
            path = folder / f"{stem.replace('de-en', languages)}.{part}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text([pair[side] for pair in pairs]))
    (folder / "dev").mkdir()
    for name, lines in HELD.items():
        (folder / ("dev" if "2013" in name else "") / name).write_bytes(text(lines))
    return folder


def segments(lines: Sequence[str]) -> bytes:
    """Lines as a file of segments has them."""
    marked = [f'<seg id="{n}"> {line.replace("&", "&amp;")} </seg>' for n, line in enumerate(lines, start=1)]
    return text(
        ['<?xml version="1.0" encoding="UTF-8"?>', '<doc docid="1">', "<title>x</title>", *marked, "</doc>"]
    )


def small_wmt(patch: pytest.MonkeyPatch, hashes: Mapping[str, str] | None = None) -> SentencePairs:
    """The registry's WMT14 English-German with hashes and numbers of lines of the files above."""
    real = DATA_SETS["wmt14-en-de"]
    assert isinstance(real, SentencePairs)
    known = {name: hashlib.sha256(text(lines)).hexdigest() for name, lines in HELD.items()}
    lines = {"newstest2013": 3, "newstest2014": 4}
    small = dataclasses.replace(real, sha256=known if hashes is None else dict(hashes), lines=lines)
    patch.setitem(registry.DATA_SETS, "wmt14-en-de", small)
    return small


def write_iwslt(folder: Path, pairs: int = 46) -> Path:
    """The files of IWSLT14 German-English, as they lie in ``de-en.tgz``."""
    inside = folder / "de-en"
    inside.mkdir(parents=True)
    for part, word in (("de", "Nummer"), ("en", "Number")):
        head = ["<url>http://x</url>", "<keywords>talks</keywords>", "<talkid>1</talkid>"]
        messages = [f"<title>A Title {word}</title>", f"<description>TED: {word} told</description>"]
        spoken = [f" {word} {n} is the one . " for n in range(pairs - 2)]
        (inside / f"train.tags.de-en.{part}").write_bytes(text([*head, *messages, *spoken]))
        for talks in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012"):
            lines = [f"{talks} {word}", "It\N{RIGHT SINGLE QUOTATION MARK}s Fine"]
            (inside / f"IWSLT14.{talks}.de-en.{part}.xml").write_bytes(segments(lines))
    return folder
