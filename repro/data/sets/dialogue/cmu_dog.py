"""The data set of conversations about documents, CMU DoG: one JSON file each. Needs no torch.

Blanks and ends of lines within a text are one blank. Utterances without words are left out.
"""

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from repro.data.data_set import GPT2, TRAIN, DataSet, Options
from repro.data.packed import AS, glob_packed, read_packed, sha256_of
from repro.data.store import Manifest, StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

PARTS = ("documents", "topics", "speakers", "lengths", "utterances")
DOCUMENTS = PARTS[0]  # also the name of their table
FOLDERS = {"train": "Conversations/train", "val": "Conversations/valid", "test": "Conversations/test"}
SPEAKERS = ("user1", "user2")
# What a document's section 0 holds, and what it is called in the text; sections 1 to 3 are plain text.
FACTS = {
    "movieName": "Movie", "year": "Year", "director": "Director", "genre": "Genre", "cast": "Cast",
    "rating": "Rating", "critical_response": "Critical response", "introduction": "Introduction",
}  # fmt: skip
SCENES = ("1", "2", "3")


class Conversation(NamedTuple):
    """One conversation.

    Attributes:
        topic: number of its document.
        utterances: speaker, 0 or 1, and text of each in their order, those without words left out.
        empty: how many those are.
    """

    topic: int
    utterances: list[tuple[int, str]]
    empty: int


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
        hashes: dict[str, str] = {}
        records = self._records(options.folder, DOCUMENTS, "WikiData", hashes)
        documents = dict(sorted((record["wikiDocumentIdx"], _document(record)) for record in records))
        splits = {
            split: list(map(_conversation, self._records(options.folder, split, FOLDERS[split], hashes)))
            for split in self.splits
        }
        utterances = (text for talk in splits[TRAIN] for _, text in talk.utterances)
        tokenizer = self.subwords(variant, options, chain(documents.values(), utterances))
        ids = ids_of(tokenizer.size)
        writer.column(DOCUMENTS, DOCUMENTS, ids).add_rows(tokenizer.encode_batch(list(documents.values())))
        places = {number: place for place, number in enumerate(documents)}
        counts: dict[str, dict[str, Any]] = {}
        for split, talks in splits.items():
            topics = writer.column(split, "topics", ColumnType("uint16"))
            speakers = writer.column(split, "speakers", ColumnType("uint8", ragged=True))
            lengths = writer.column(split, "lengths", ColumnType("uint32", ragged=True))
            words = writer.column(split, "utterances", ids)
            for talk in talks:
                if encoded := tokenizer.encode_batch([text for _, text in talk.utterances]):
                    topics.add(np.array([places[talk.topic]]))
                    speakers.add_rows([[speaker for speaker, _ in talk.utterances]])
                    lengths.add_rows([[len(row) for row in encoded]])
                    words.add_rows([list(chain.from_iterable(encoded))])
            counts[split] = {"examples": topics.rows, "tokens": {"utterances": words.values}}
        empty = {split: sum(talk.empty for talk in talks) for split, talks in splits.items()}
        origin = self.origin(sha256=hashes, without_words=empty, raw_text="not kept")
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer))

    def _records(self, folder: Path, key: str, name: str, hashes: dict[str, str]) -> list[dict[str, Any]]:
        """The objects in the files of a folder; adds the SHA-256 of all files, one after another, to ``hashes``.

        Raises:
            UserError: there are none, or they are not the published ones.
        """
        files = [read_packed(path) for path in glob_packed(folder / name, "*.json")]
        if not files:
            raise UserError(f"--from {folder}: no {name}/*.json{AS}; give the folder that has it")
        hashes[key] = self.compare(key, sha256_of(files), f"--from {folder}, {key}")
        return [json.loads(content) for content in files]


def _text(value: str | list[str]) -> str:
    """A text with single blanks; several are joined."""
    texts = [value] if isinstance(value, str) else value
    return "; ".join(" ".join(text.split()) for text in texts)


def _document(record: dict[str, Any]) -> str:
    """A line for each fact and scene."""
    lines = [f"{called}: {_text(record['0'][key])}" for key, called in FACTS.items()]
    return "\n".join(lines + [_text(record[key]) for key in SCENES])


def _conversation(record: dict[str, Any]) -> Conversation:
    spoken = [(SPEAKERS.index(one["uid"]), _text(one["text"])) for one in record["history"]]
    kept = [(speaker, text) for speaker, text in spoken if text]
    return Conversation(record["wikiDocumentIdx"], kept, len(spoken) - len(kept))
