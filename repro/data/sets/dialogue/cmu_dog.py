"""The data set of conversations about documents, CMU DoG: one JSON file each. Needs no torch.

Blanks and ends of lines within a text are one blank. Utterances without words are left out.
"""

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.data_set import GPT2, TRAIN, VAL, TokenSet
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, decoded, glob_packed, read_packed, sha256_of
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


@dataclass(frozen=True, kw_only=True)
class Dialogues(TokenSet):
    """Conversations of two people, each about a document, in the layout of CMU DoG.

    A store has a table of its own for ``documents``, the ids of every document. In the table of a split a row is a
    conversation: ``topics``, the place of its document among them; ``speakers``, 0 or 1 for every utterance;
    ``lengths``, tokens of every utterance; and ``utterances``, the ids of all of them, one after another.
    """

    levels: tuple[str, ...] = ("bpe", GPT2)

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Subwords are learned from all documents and the utterances to train on."""
        folder = options.folder
        documents, digest = read_documents(folder)
        self.compare(DOCUMENTS, digest, f"--from {folder}, WikiData")
        splits = {split: read_conversations(folder, split, documents) for split in self.splits}
        for split, read in splits.items():
            self.compare(split, read.sha256, f"--from {folder}, conversations of {split}")
        utterances = (text for talk in splits[TRAIN].found for text in talk.utterances)
        tokenizer = self.subwords(variant, options, chain(documents.values(), utterances))
        ids = ids_of(tokenizer.size)
        writer.column(DOCUMENTS, DOCUMENTS, ids).add_rows(tokenizer.encode_batch(list(documents.values())))
        places = {number: place for place, number in enumerate(documents)}
        counts: dict[str, dict[str, Any]] = {}
        for split, read in splits.items():
            columns = {
                "topics": writer.column(split, "topics", ColumnType("uint16")),
                "speakers": writer.column(split, "speakers", ColumnType("uint8", ragged=True)),
                "lengths": writer.column(split, "lengths", ColumnType("uint32", ragged=True)),
                "utterances": writer.column(split, "utterances", ids),
            }
            for talk in read.found:
                said = tokenizer.encode_batch(talk.utterances)
                columns["topics"].add(np.array([places[talk.topic]]))
                columns["speakers"].add_rows([talk.speakers])
                columns["lengths"].add_rows([[len(row) for row in said]])
                columns["utterances"].add_rows([list(chain.from_iterable(said))])
            tokens = {"utterances": columns["utterances"].values}
            counts[split] = {"examples": len(read.found), "tokens": tokens}
        origin = self.origin(
            sha256={DOCUMENTS: digest} | {split: read.sha256 for split, read in splits.items()},
            without_words={split: read.empty for split, read in splits.items()},
            raw_text="not kept",
        )
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer))


@dataclass(frozen=True)
class Conversation:
    """One conversation.

    Attributes:
        topic: number of its document.
        speakers: of each utterance, 0 or 1.
        utterances: in their order.
    """

    topic: int
    speakers: list[int]
    utterances: list[str]


@dataclass(frozen=True)
class Conversations:
    """The conversations of a split.

    Attributes:
        found: by name of their files.
        empty: utterances without words.
        sha256: of all files, one after another.
    """

    found: list[Conversation]
    empty: int
    sha256: str


def read_documents(folder: Path) -> tuple[dict[int, str], str]:
    """All documents.

    Args:
        folder: with ``WikiData``.

    Returns:
        Texts by number, a line for each fact and scene; and the SHA-256 of all files, one after another.

    Raises:
        UserError: there are none, one cannot be read or lacks something, or two have one number.
    """
    records, digest = _records(folder, "WikiData")
    documents: dict[int, str] = {}
    for where, record in records:
        number = _topic(record, where)
        if number in documents:
            raise UserError(
                f"{where}: a second document has wikiDocumentIdx {number}; use the original files"
            )
        facts = record.get("0")
        if not isinstance(facts, dict):
            raise UserError(f"{where}: no facts under '0'; use the original files")
        lines = [f"{called}: {_text(facts, key, where)}" for key, called in FACTS.items()]
        documents[number] = "\n".join(lines + [_text(record, key, where) for key in SCENES])
    return dict(sorted(documents.items())), digest


def read_conversations(folder: Path, split: str, documents: dict[int, str]) -> Conversations:
    """The conversations of a split.

    Args:
        folder: with ``Conversations``.
        split: ``train``, ``val`` or ``test``.
        documents: by number.

    Raises:
        UserError: there are none, or one cannot be read, lacks something, or has no such document.
    """
    records, digest = _records(folder, f"Conversations/{FOLDERS[split]}")
    read = [_conversation(record, where, documents) for where, record in records]
    conversations = [conversation for conversation, _ in read if conversation.utterances]
    if not conversations:
        raise UserError(
            f"--from {folder}: no conversation in {split} has an utterance; use the original files"
        )
    return Conversations(conversations, sum(empty for _, empty in read), digest)


def _records(folder: Path, name: str) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Path and content of each file of a folder, and the SHA-256 of all of them."""
    paths = glob_packed(folder / name, "*.json")
    if not paths:
        raise UserError(f"--from {folder}: no {name}/*.json{AS}; give the folder that has it")
    contents = [(str(path), read_packed(path)) for path in paths]
    digest = sha256_of(content for _, content in contents)
    return [(where, _record(content, where)) for where, content in contents], digest


def _record(content: bytes, where: str) -> dict[str, Any]:
    try:
        record = json.loads(decoded(content, where))
    except ValueError as error:
        raise UserError(f"{where} is not JSON: {error}; get the file again") from None
    if not isinstance(record, dict):
        raise UserError(f"{where} holds no object; use the original files")
    return record


def _topic(record: dict[str, Any], where: str) -> int:
    number = record.get("wikiDocumentIdx")
    if not isinstance(number, int):
        raise UserError(f"{where}: wikiDocumentIdx is {number!r}, not a number; use the original files")
    return number


def _text(record: dict[str, Any], key: str, where: str) -> str:
    """A text, or several as one."""
    value = record.get(key)
    texts: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise UserError(f"{where}: no text under {key!r}; use the original files")
    return "; ".join(" ".join(text.split()) for text in texts)


def _conversation(record: dict[str, Any], where: str, documents: dict[int, str]) -> tuple[Conversation, int]:
    """A conversation, and how many utterances it has without words."""
    topic, history = _topic(record, where), record.get("history")
    if topic not in documents:
        raise UserError(f"{where}: no document has wikiDocumentIdx {topic}; use the original files")
    if not isinstance(history, list) or not all(isinstance(utterance, dict) for utterance in history):
        raise UserError(f"{where}: no utterances under 'history'; use the original files")
    speakers, utterances = [], []
    for utterance in history:
        if utterance.get("uid") not in SPEAKERS:
            raise UserError(f"{where}: uid {utterance.get('uid')!r} is not {' or '.join(SPEAKERS)}")
        if text := _text(utterance, "text", where):
            speakers.append(SPEAKERS.index(utterance["uid"]))
            utterances.append(text)
    return Conversation(topic, speakers, utterances), len(history) - len(utterances)


_CMU_DOG = Dialogues(
    name="cmu-dog",
    title="CMU Document Grounded Conversations: two people on a film and its Wikipedia article (Zhou et al. 2018)",
    licence="none stated for the conversations; the articles: Wikipedia, CC BY-SA 3.0; pass nothing on",
    size="3,373 conversations to train on; 5 MB as a store",
    parts=PARTS,
    aliases={"valid": VAL},
    # of all files of a folder, one after another by name, at the last commit of 2018
    sha256={
        "documents": "97465df5b726d96ce0bbb983383e1b7ac4c6ebe84bec8d63efba5c613121e962",
        "train": "82e5ad45680b4ebed691726ac6eb16fd6373db4cfb806eb87f7ba68cf089f2db",
        "val": "4fe0036ca5be3fb9316098bbfaa8b863e0555093192dc877d4930ed196156ed9",
        "test": "b4b7a34067c40be3a264b86a3801c543b3edd6dc74c339221f905d2116ea51e7",
    },
    files=("Conversations/train/*.json, also valid and test", "WikiData/*.json"),
)
DIALOGUES = (_CMU_DOG,)
