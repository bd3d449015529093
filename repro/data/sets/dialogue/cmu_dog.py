"""The data set of conversations about documents, CMU DoG: one JSON file each. Needs no torch.

Blanks and ends of lines within a text are one blank. Utterances without words are left out.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.data_set import GPT2, TRAIN, DataSet
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, glob_packed, read_json, sha256_of
from repro.data.store import StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

PARTS = ("documents", "topics", "speakers", "lengths", "utterances")
DOCUMENTS = PARTS[0]  # also the name of their table
FOLDERS = {"train": "train", "val": "valid", "test": "test"}  # of conversations
SPEAKERS = ("user1", "user2")
# What a document's section 0 holds, and what it is called in the text; sections 1 to 3 are plain text.
FACTS = {
    "movieName": "Movie",
    "year": "Year",
    "director": "Director",
    "genre": "Genre",
    "cast": "Cast",
    "rating": "Rating",
    "critical_response": "Critical response",
    "introduction": "Introduction",
}
SCENES = ("1", "2", "3")
_TOPICS = ColumnType("uint16")
_SPEAKERS = ColumnType("uint8", ragged=True)
_LENGTHS = ColumnType("uint32", ragged=True)


@dataclass(frozen=True, kw_only=True)
class Dialogues(DataSet):
    """Conversations of two people, each about a document, in the layout of CMU DoG.

    A store has a table of its own for ``documents``, the ids of every document. In the table of a split a row is a
    conversation: ``topics``, the place of its document among them; ``speakers``, 0 or 1 for every utterance;
    ``lengths``, tokens of every utterance; and ``utterances``, the ids of all of them, one after another.
    """

    levels: tuple[str, ...] = ("bpe", GPT2)

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Subwords are learned from all documents and the utterances to train on."""
        folder, hashes = options.folder, {}
        records, hashes[DOCUMENTS] = read_records(folder, "WikiData")
        documents = dict(sorted((record.topic, record.document()) for record in records))
        numbers = [record.topic for record in records]
        if twice := [number for number in documents if numbers.count(number) > 1]:
            raise UserError(
                f"--from {folder}: two documents have wikiDocumentIdx {twice[0]}; use the originals"
            )
        splits: dict[str, list[Conversation]] = {}
        for split in self.splits:
            records, hashes[split] = read_records(folder, f"Conversations/{FOLDERS[split]}")
            splits[split] = [record.conversation(documents) for record in records]
        for key, digest in hashes.items():
            self.compare(key, digest, f"--from {folder}, {key}")
        utterances = (text for talk in splits[TRAIN] for text in talk.utterances)
        tokenizer = self.subwords(variant, options, chain(documents.values(), utterances))
        ids = ids_of(tokenizer.size)
        writer.column(DOCUMENTS, DOCUMENTS, ids).add_rows(tokenizer.encode_batch(list(documents.values())))
        places = {number: place for place, number in enumerate(documents)}
        counts: dict[str, dict[str, Any]] = {}
        for split, talks in splits.items():
            topics, speakers, lengths, words = (
                writer.column(split, name, type_)
                for name, type_ in zip(PARTS[1:], (_TOPICS, _SPEAKERS, _LENGTHS, ids), strict=True)
            )
            for talk in talks:
                if encoded := tokenizer.encode_batch(talk.utterances):
                    topics.add(np.array([places[talk.topic]]))
                    speakers.add_rows([talk.speakers])
                    lengths.add_rows([[len(row) for row in encoded]])
                    words.add_rows([list(chain.from_iterable(encoded))])
            if not topics.rows:
                raise UserError(
                    f"--from {folder}: no conversation in {split} has an utterance; use the original files"
                )
            counts[split] = {"examples": topics.rows, "tokens": {"utterances": words.values}}
        empty = {split: sum(talk.empty for talk in talks) for split, talks in splits.items()}
        origin = self.origin(sha256=hashes, without_words=empty, raw_text="not kept")
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer))


@dataclass(frozen=True)
class Conversation:
    """One conversation.

    Attributes:
        topic: number of its document.
        speakers: of each utterance, 0 or 1.
        utterances: in their order, those without words left out.
        empty: how many those are.
    """

    topic: int
    speakers: list[int]
    utterances: list[str]
    empty: int


class Record:
    """The object in a JSON file; unexpected content is refused."""

    def __init__(self, origin: str, content: object) -> None:
        self.where = origin
        self.content = content if isinstance(content, dict) else {}

    def _need(self, good: bool, problem: str) -> None:
        if not good:
            raise UserError(f"{self.where}: {problem}; use the original files")

    @property
    def topic(self) -> int:
        """The number of a document."""
        number = self.content.get("wikiDocumentIdx")
        self._need(isinstance(number, int), f"wikiDocumentIdx is {number!r}, not a number")
        return int(number or 0)

    def text(self, key: str, inside: Mapping[str, object] | None = None) -> str:
        """A text of the object, or of one inside it; several are joined."""
        value = (self.content if inside is None else inside).get(key)
        texts: list[Any] = value if isinstance(value, list) else [value]
        self._need(all(isinstance(text, str) for text in texts), f"no text under {key!r}")
        return "; ".join(" ".join(text.split()) for text in texts)

    def document(self) -> str:
        """A line for each fact and scene."""
        facts = self.content.get("0")
        self._need(isinstance(facts, dict), "no facts under '0'")
        lines = [f"{called}: {self.text(key, facts)}" for key, called in FACTS.items()]
        return "\n".join(lines + [self.text(key) for key in SCENES])

    def conversation(self, topics: Container[int]) -> Conversation:
        """The conversation about one of some documents."""
        history, topic = self.content.get("history"), self.topic
        self._need(topic in topics, f"no document has wikiDocumentIdx {topic}")
        listed = isinstance(history, list) and all(isinstance(item, dict) for item in history)
        self._need(listed, "no utterances under 'history'")
        utterances = []
        for utterance in history or ():
            speaker = utterance.get("uid")
            self._need(speaker in SPEAKERS, f"uid {speaker!r} is not {' or '.join(SPEAKERS)}")
            utterances.append((SPEAKERS.index(speaker), self.text("text", utterance)))
        kept = [(speaker, text) for speaker, text in utterances if text]
        speakers, texts = [speaker for speaker, _ in kept], [text for _, text in kept]
        return Conversation(topic, speakers, texts, len(utterances) - len(kept))


def read_records(folder: Path, name: str) -> tuple[list[Record], str]:
    """The object of each file of a folder, and the SHA-256 of all files, one after another.

    Raises:
        UserError: there are none, or one is no JSON.
    """
    paths = glob_packed(folder / name, "*.json")
    if not paths:
        raise UserError(f"--from {folder}: no {name}/*.json{AS}; give the folder that has it")
    read = [(path, *read_json(path)) for path in paths]
    return [Record(str(path), content) for path, content, _ in read], sha256_of(raw for *_, raw in read)
