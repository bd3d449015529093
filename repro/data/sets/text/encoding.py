"""From the text of a corpus to the tables of a store: a vocabulary counted on train, rows of tokens, a manifest.

Works piece by piece. The raw text is not copied: the manifest has its SHA-256 and says so.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.data.data_set import TRAIN
from repro.data.sets.text.corpus import Corpus, Piece, Reading, articles
from repro.data.store import StoreWriter
from repro.data.table import ids_of
from repro.data.tokenizers.gpt2_bpe import Gpt2Bpe
from repro.data.tokenizers.loading import AnyTokenizer
from repro.data.tokenizers.vocabulary import Bytes, Chars, Ids, Words, characters
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


@dataclass(frozen=True)
class Encoder:
    """Turns the pieces of splits into rows of tokens.

    Args:
        reading: of the text.
        level: what a token is.
        tokenizer: of the level.
    """

    reading: Reading
    level: str
    tokenizer: AnyTokenizer

    def write(self, split: str, pieces: Iterator[Piece], writer: StoreWriter) -> dict[str, Any]:
        """Writes the tokens of a split; returns its counts for the manifest.

        Raises:
            UserError: a word, byte or character that training did not have, with its line; or no text.
        """
        reading, tokenizer = self.reading, self.tokenizer
        column = writer.column(split, "text", ids_of(tokenizer.size))
        lines = unknown = length = 0  # the length of the row that has not ended yet
        opened = False
        if reading.sentences:  # the mark before the first sentence, as before every other
            column.add(np.array([tokenizer.eos_id]), [1])
        for text, begins in _prepared(reading, self.level, pieces):
            if reading.documents and begins and opened:
                column.end_row(length)
                length = 0
            opened = True
            ids, missed = self._encoded(text, f"{split}, line", lines)
            if reading.sentences:  # whole lines, each of which ends with the symbol
                column.add(ids, np.diff(np.flatnonzero(ids == tokenizer.eos_id), prepend=-1).tolist())
            else:
                column.add(ids, ())
                length += len(ids)
            lines, unknown = lines + text.count(b"\n"), unknown + missed
        if not reading.sentences:
            column.end_row(length)
        if column.values < 2:
            raise UserError(f"{split} has {column.values} tokens; there is nothing to predict")
        counted = {"examples": lines, "tokens": {"text": column.values}}
        return counted | ({"unknown": unknown} if tokenizer.unk_id is not None else {})

    def _encoded(self, piece: bytes, where: str, lines: int) -> tuple[Ids, int]:
        """Tokens of the next piece, after so many lines, and how many of them are unknown."""
        tokenizer = self.tokenizer
        if not isinstance(tokenizer, Words | Bytes | Chars):
            texts = piece.decode(errors="replace").removesuffix("\n").split("\n")
            ends = () if isinstance(tokenizer, Gpt2Bpe) else (tokenizer.eos_id,)
            coded = tokenizer.encode_batch(texts)
            return np.fromiter((i for ids in coded for i in (*ids, *ends)), np.int32), 0
        ids = tokenizer.ids(piece)
        missed = int(np.count_nonzero(ids < 0))
        if missed:
            if tokenizer.unk_id is None:
                symbol, line = tokenizer.first_unknown(piece)
                raise UserError(
                    f"{where} {lines + line}: {symbol} does not occur in train, and there is no symbol for "
                    "unknown ones"
                )
            ids[ids < 0] = tokenizer.unk_id
        return ids, missed
