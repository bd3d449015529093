"""Vocabularies of words, bytes and characters: each symbol is a token. Needs no torch.

They have the interface of the other tokenisers. A file is JSON with its ``kind`` and its ``symbols`` in the order of
their ids. There are no special symbols beside those of the text: ``pad_id`` is None.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from repro.data.packed import decoded
from repro.errors import UserError
from repro.files import write_atomic

Ids = np.ndarray[Any, np.dtype[np.int32]]


class Filed(ABC):
    """Base of all tokenisers: text to ids and back, and a file.

    Args:
        content: of the file.

    Attributes:
        kind: what it is, in manifests.
        suffix: of the file.
    """

    kind: ClassVar[str]
    suffix: ClassVar[str] = ".json"
    pad_id: int | None = None
    bos_id: int | None = None
    eos_id: int | None = None
    unk_id: int | None = None

    def __init__(self, content: bytes) -> None:
        self.content = content

    @property
    def sha256(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.content).hexdigest()

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        write_atomic(path, self.content)

    @property
    @abstractmethod
    def size(self) -> int:
        """Vocabulary size, special symbols included."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, no specials among them.

        Raises:
            UserError: it is not valid Unicode, or something in it is not in the vocabulary.
        """
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of many texts, in their order; errors of :meth:`encode`."""
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise UserError(
                    f"text is not valid Unicode at character {error.start}: {text!r:.80}"
                ) from None
        return self._encoded(list(texts))

    @abstractmethod
    def _encoded(self, texts: list[str]) -> list[list[int]]:
        """Ids of texts in valid Unicode."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; specials are dropped."""


def written(kind: str, **body: object) -> bytes:
    """The content of a file in JSON."""
    return (json.dumps({"kind": kind, **body}, ensure_ascii=False) + "\n").encode()


def body_of(content: bytes, kind: str, *keys: str) -> list[Any]:
    """The values of some keys of a file in JSON; the first is a list of symbols.

    Raises:
        UserError: the content is malformed, or a symbol is repeated.
    """
    try:
        body = json.loads(content)
        values = [body[key] for key in keys]
        if body["kind"] != kind or not 0 < len(set(values[0])) == len(values[0]):
            raise ValueError
    except (ValueError, KeyError, TypeError):
        raise UserError(f"not a vocabulary of {kind.replace('-', ' ')}") from None
    return values


class SymbolVocabulary(Filed):
    """Base of the three kinds.

    Args:
        content: of the file.

    Attributes:
        kind: ``words``, ``bytes`` or ``chars``.
        settings: the file's keys beside ``kind`` and ``symbols``.

    Raises:
        UserError: the content is no such file.
    """

    keys: ClassVar[tuple[str, ...]] = ()

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.symbols, *values = body_of(content, self.kind, "symbols", *self.keys)
        self.settings: dict[str, Any] = dict(zip(self.keys, values, strict=True))
        try:
            self._read()
        except (ValueError, KeyError, TypeError):
            raise UserError(f"not a vocabulary of {self.kind}") from None

    @abstractmethod
    def _read(self) -> None:
        """Builds tables from symbols and settings; ValueError where they make no sense."""

    @classmethod
    def from_symbols(cls, symbols: Sequence[Any], **settings: object) -> Self:
        """A vocabulary of these symbols, in the order of their ids."""
        return cls(written(cls.kind, **settings, symbols=list(symbols)))

    @property
    def size(self) -> int:
        """Number of symbols."""
        return len(self.symbols)

    @abstractmethod
    def split(self, data: bytes) -> Sequence[object]:
        """The symbols of a text.

        Raises:
            UserError: not UTF-8, for words and characters.
        """

    @abstractmethod
    def ids(self, data: bytes) -> Ids:
        """Ids of the symbols of a text, -1 for those that are not in the vocabulary; errors of :meth:`split`."""

    def known_ids(self, data: bytes) -> tuple[Ids, int]:
        """Ids of the symbols of a text, and how many of them are the one for unknown symbols.

        Raises:
            UserError: a symbol is not in the vocabulary, and there is none for unknown ones; names it.
        """
        ids = self.ids(data)
        unknown = ids < 0
        if unknown.any():
            if self.unk_id is None:
                symbol = self.split(data)[int(np.argmax(unknown))]
                raise UserError(f"{symbol!r} is not in this vocabulary of {self.size} {self.kind}")
            ids[unknown] = self.unk_id
        return ids, int(np.count_nonzero(unknown))

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        return [self.known_ids(text.encode())[0].tolist() for text in texts]


class Words(SymbolVocabulary):
    """Words between blanks; the end of a line is a word of its own.

    Source: vocabulary of Transformer-XL's code.
    """

    kind = "words"
    keys = ("line_end", "unknown")

    def _read(self) -> None:
        self._index: dict[str, int] = {word: i for i, word in enumerate(self.symbols)}
        self.eos_id = self.bos_id = self._index[self.settings["line_end"]]
        if self.settings["unknown"] is not None:
            self.unk_id = self._index[self.settings["unknown"]]

    def split(self, data: bytes) -> list[str]:
        """The words and line ends of a text."""
        return decoded(data, "text").replace("\n", f" {self.settings['line_end']} ").split()

    def ids(self, data: bytes) -> Ids:
        """Ids of the words and line ends of a text, -1 for words out of the vocabulary."""
        words = self.split(data)
        return np.fromiter(map(self._index.get, words, repeat(-1)), np.int32, len(words))

    def decode(self, ids: Iterable[int]) -> str:
        """Words with a blank between; ends of lines become line breaks."""
        text = " ".join("\n" if i == self.eos_id else self.symbols[i] for i in ids)
        return re.sub(" ?\n ?", "\n", text)


class Bytes(SymbolVocabulary):
    """Bytes; those in ``dropped`` are passed over."""

    kind = "bytes"
    keys = ("dropped",)

    def _read(self) -> None:
        self._table = np.full(256, -1, np.int32)
        self._table[np.frombuffer(bytes(self.symbols), np.uint8)] = np.arange(self.size, dtype=np.int32)

    def split(self, data: bytes) -> bytes:
        """The bytes that are not dropped."""
        return data.translate(None, bytes(self.settings["dropped"]))

    def ids(self, data: bytes) -> Ids:
        """Ids of the bytes that are not dropped, -1 for those out of the vocabulary."""
        return self._table[np.frombuffer(self.split(data), np.uint8)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some bytes; those that form no character become U+FFFD."""
        return bytes(self.symbols[i] for i in ids).decode(errors="replace")


class Chars(SymbolVocabulary):
    """Unicode characters."""

    kind = "chars"

    def _read(self) -> None:
        codes = np.array([ord(symbol) for symbol in self.symbols], np.int64)
        self._table = np.full(int(codes.max()) + 2, -1, np.int32)  # the last entry serves all higher codes
        self._table[codes] = np.arange(self.size, dtype=np.int32)

    def split(self, data: bytes) -> str:
        """The characters of a text."""
        return decoded(data, "text")

    def ids(self, data: bytes) -> Ids:
        """Ids of the characters, -1 for those out of the vocabulary."""
        codes = characters(data)
        return self._table[np.minimum(codes, np.uint32(len(self._table) - 1))]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some characters."""
        return "".join(self.symbols[i] for i in ids)


def characters(data: bytes) -> np.ndarray[Any, Any]:
    """Code points of a text in UTF-8."""
    if data.isascii():
        return np.frombuffer(data, np.uint8)
    return np.frombuffer(decoded(data, "text").encode("utf-32-le"), "<u4")
