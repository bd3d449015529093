"""From the text of a corpus to the tables of a store: a vocabulary counted on train, rows of tokens, a manifest.

Works piece by piece. The raw text is not copied: the manifest has its SHA-256 and says so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.data.data_set import GPT2, TRAIN
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.sets.text.corpus import Corpus, Piece, articles
from repro.data.sets.text.text_sets import Reading, TextSet
from repro.data.store import StoreWriter
from repro.data.table import ids_of
from repro.data.tokenizers.gpt2_bpe import Gpt2Bpe
from repro.data.tokenizers.tokenizer import AnyTokenizer
from repro.data.tokenizers.vocabulary import Bytes, Chars, Ids, Words, characters
from repro.data.variants import is_subwords
from repro.errors import UserError

_MIN_COUNT = {"words": 1, "words-min3": 3}
NEWLINE = 10


def _prepared(reading: Reading, level: str, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Pieces as a level reads them."""
    for text, begins in articles(pieces) if reading.documents == "articles" else pieces:
        if level == "chars" and reading.strip_lines:
            text = b"\n".join(line.strip() for line in text.split(b"\n"))
        elif level.startswith("words") and not text.endswith(b"\n"):
            text += b"\n"  # the end of the file ends its last line
        yield Piece(text, begins)


def make_vocabulary(reading: Reading, level: str, corpus: Corpus) -> Words | Bytes | Chars:
    """The vocabulary of a level, from the training split.

    Words: the line end first, then by falling frequency, equally frequent ones in the order in which they first occur.
    Bytes and characters: in their own order.

    Source: vocabulary of Transformer-XL's code.
    """
    train = (piece.text for piece in _prepared(reading, level, corpus.splits[TRAIN]()))
    if level.startswith("words"):
        return _words(reading, _MIN_COUNT[level], train, corpus.words)
    if level == "chars":
        codes = {int(code) for piece in train for code in np.unique(characters(piece))}
        return Chars.of([chr(code) for code in sorted(codes)])
    dropped = [NEWLINE] if level == "bytes-nonl" else []
    seen = np.full(256, not reading.seen_bytes)
    if reading.seen_bytes:
        for piece in train:
            seen[np.frombuffer(piece, np.uint8)] = True
    return Bytes.of([byte for byte in range(256) if seen[byte] and byte not in dropped], dropped=dropped)


def _words(reading: Reading, min_count: int, train: Iterator[bytes], official: list[str] | None) -> Words:
    if official is not None:
        return Words.of(official, line_end=reading.line_end, unknown=reading.unknown)
    counts: Counter[str] = Counter()
    for piece in train:
        try:
            counts.update(piece.decode().split())
        except UnicodeDecodeError:
            raise UserError("the training text is not UTF-8; it cannot be read as words") from None
    words = [word for word, n in counts.most_common() if n >= min_count and word != reading.line_end]
    if min_count > 1 and reading.unknown not in words:
        words.insert(0, reading.unknown)
    unknown = reading.unknown if reading.unknown in words else None
    return Words.of([reading.line_end, *words], line_end=reading.line_end, unknown=unknown)


@dataclass
class _Coded:
    """Tokens of one piece, how many were unknown, and how many lines it had."""

    ids: Ids
    unknown: int
    lines: int


class _Coder:
    """Turns the pieces of one split into tokens."""

    def __init__(self, tokenizer: AnyTokenizer, where: str) -> None:
        self._tokenizer = tokenizer
        self._where = where
        self._lines = 0

    def code(self, piece: bytes) -> _Coded:
        """Tokens of the next piece.

        Raises:
            UserError: a word, byte or character that training did not have, with its line.
        """
        tokenizer = self._tokenizer
        lines = piece.count(b"\n")
        if isinstance(tokenizer, Words | Bytes | Chars):
            ids = tokenizer.ids(piece)
            missed = int(np.count_nonzero(ids < 0))
            if missed:
                if tokenizer.unk_id is None:
                    symbol, line = tokenizer.first_unknown(piece)
                    raise UserError(
                        f"{self._where}, line {self._lines + line}: {symbol} does not occur in train, and there is "
                        "no symbol for unknown ones"
                    )
                ids[ids < 0] = tokenizer.unk_id
            self._lines += lines
            return _Coded(ids, missed, lines)
        self._lines += lines
        return _Coded(_subwords(tokenizer, piece), 0, lines)


def _subwords(tokenizer: AnyTokenizer, piece: bytes) -> Ids:
    lines = piece.decode(errors="replace").removesuffix("\n").split("\n")
    ends = () if isinstance(tokenizer, Gpt2Bpe) else (tokenizer.eos_id,)
    return np.fromiter((i for ids in tokenizer.encode_batch(lines) for i in (*ids, *ends)), np.int32)


def _lines(piece: bytes) -> list[str]:
    return piece.decode(errors="replace").split("\n")


def fill_text(data_set: TextSet, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Writes tokeniser and tokens of every split; see ``DataSet.fill``. A row is a document, a sentence or a split.

    Raises:
        UserError: beside what is said there, the text cannot be read at this level.
    """
    reading, corpus = data_set.reading, data_set.corpus(variant, options.from_dir)
    tokenizer: AnyTokenizer
    if variant == GPT2 or is_subwords(variant):
        lines = (line for piece in corpus.splits[TRAIN]() for line in _lines(piece.text))
        tokenizer = data_set.subwords(variant, options, lines)
    else:
        tokenizer = make_vocabulary(reading, variant, corpus)
    counts = {
        split: _write_split(reading, variant, tokenizer, split, pieces(), writer)
        for split, pieces in corpus.splits.items()
    }
    row = "sentence" if reading.sentences else "document" if reading.documents else "split"
    origin = {**corpus.origin, "raw_text": "not kept"}
    return data_set.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer), row)


def _write_split(
    reading: Reading,
    level: str,
    tokenizer: AnyTokenizer,
    split: str,
    pieces: Iterator[Piece],
    writer: StoreWriter,
) -> dict[str, Any]:
    coder, column = _Coder(tokenizer, split), writer.column(split, "text", ids_of(tokenizer.size))
    lines = unknown = length = 0  # the length of the row that has not ended yet
    opened = False
    if reading.sentences:  # the mark before the first sentence, as before every other
        column.add(np.array([tokenizer.eos_id]), [1])
    for text, begins in _prepared(reading, level, pieces):
        if reading.documents and begins and opened:
            column.end_row(length)
            length = 0
        opened = True
        coded = coder.code(text)
        if reading.sentences:  # whole lines, each of which ends with the symbol
            ends = np.flatnonzero(coded.ids == tokenizer.eos_id)
            column.add(coded.ids, np.diff(ends, prepend=-1).tolist())
        else:
            column.add(coded.ids, ())
            length += len(coded.ids)
        lines, unknown = lines + coded.lines, unknown + coded.unknown
    if not reading.sentences:
        column.end_row(length)
    if column.values < 2:
        raise UserError(f"{split} has {column.values} tokens; there is nothing to predict")
    counted = {"examples": lines, "tokens": {"text": column.values}}
    return counted | ({"unknown": unknown} if tokenizer.unk_id is not None else {})
