"""From the text of a corpus to the files of a store: a vocabulary counted on train, flat tokens, a manifest.

Works piece by piece. The raw text is not copied: the manifest has its SHA-256 and says so.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from repro.data.corpus import Corpus
from repro.data.manifest import Manifest
from repro.data.source import Source, Text
from repro.data.store import StoreWriter, token_dtype
from repro.data.tokenizers import AnyTokenizer, ByteBpe, Subwords
from repro.data.vocabulary import Bytes, Chars, Ids, Words, characters
from repro.errors import UserError

_MIN_COUNT = {"words": 1, "words-min3": 3}
NEWLINE = 10


def _prepared(text: Text, level: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces as a level reads them."""
    for piece in pieces:
        if level == "chars" and text.strip_lines:
            yield b"\n".join(line.strip() for line in piece.split(b"\n"))
        elif level.startswith("words") and not piece.endswith(b"\n"):
            yield piece + b"\n"  # the end of the file ends its last line
        else:
            yield piece


def make_vocabulary(text: Text, level: str, corpus: Corpus) -> Words | Bytes | Chars:
    """The vocabulary of a level, from the training split.

    Words: the line end first, then by falling frequency, equally frequent ones in the order in which they first occur.
    Bytes and characters: in their own order.

    Source: vocabulary of Transformer-XL's code.
    """
    train = _prepared(text, level, corpus.splits["train"]())
    if level.startswith("words"):
        return _words(text, _MIN_COUNT[level], train, corpus.words)
    if level == "chars":
        codes = {int(code) for piece in train for code in np.unique(characters(piece))}
        return Chars.of([chr(code) for code in sorted(codes)])
    dropped = [NEWLINE] if level == "bytes-nonl" else []
    seen = np.full(256, not text.seen_bytes)
    if text.seen_bytes:
        for piece in train:
            seen[np.frombuffer(piece, np.uint8)] = True
    return Bytes.of([byte for byte in range(256) if seen[byte] and byte not in dropped], dropped=dropped)


def _words(text: Text, min_count: int, train: Iterator[bytes], official: list[str] | None) -> Words:
    if official is not None:
        return Words.of(official, line_end=text.line_end, unknown=text.unknown)
    counts: Counter[str] = Counter()
    for piece in train:
        try:
            counts.update(piece.decode().split())
        except UnicodeDecodeError:
            raise UserError("the training text is not UTF-8; it cannot be read as words") from None
    kept = [word for word, n in counts.most_common() if n >= min_count and word != text.line_end]
    if min_count > 1 and text.unknown not in kept:
        kept.insert(0, text.unknown)
    unknown = text.unknown if text.unknown in kept else None
    return Words.of([text.line_end, *kept], line_end=text.line_end, unknown=unknown)


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
                        "no symbol for the unknown"
                    )
                ids[ids < 0] = tokenizer.unk_id
            self._lines += lines
            return _Coded(ids, missed, lines)
        self._lines += lines
        return _Coded(_subwords(tokenizer, piece), 0, lines)


def _subwords(tokenizer: Subwords, piece: bytes) -> Ids:
    lines = piece.decode(errors="replace").removesuffix("\n").split("\n")
    return np.fromiter(
        (i for ids in tokenizer.encode_batch(lines) for i in (*ids, tokenizer.eos_id)), np.int32
    )


def _bpe(corpus: Corpus, vocab_size: int) -> ByteBpe:
    pieces = corpus.splits["train"]()
    return ByteBpe.train(
        (line for p in pieces for line in p.decode(errors="replace").split("\n")), vocab_size
    )


def fill_text(
    source: Source,
    variant: str,
    corpus: Corpus,
    given: Subwords | None,
    bpe_size: int | None,
    writer: StoreWriter,
) -> Manifest:
    """Writes tokeniser and tokens of every split; returns the manifest.

    Args:
        source: of text.
        variant: name of the store: a level of the source, or of subwords.
        corpus: the raw text.
        given: a tokeniser to use.
        bpe_size: of a vocabulary to learn, None for the other levels.
        writer: of the store.

    Raises:
        UserError: the text cannot be read at this level.
    """
    text = source.text
    assert text is not None
    tokenizer: AnyTokenizer
    if given is not None:
        tokenizer = given
    else:
        tokenizer = make_vocabulary(text, variant, corpus) if bpe_size is None else _bpe(corpus, bpe_size)
    file = f"tokenizer{tokenizer.suffix}"
    tokenizer.save(writer.folder / file)
    writer.note(file)
    counts = {
        split: _write_split(text, variant, tokenizer, split, pieces(), writer)
        for split, pieces in corpus.splits.items()
    }
    return Manifest.of(
        source,
        variant,
        {**corpus.origin, "raw_text": "not kept"},
        counts,
        {"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256},
    )


def _write_split(
    text: Text,
    level: str,
    tokenizer: AnyTokenizer,
    split: str,
    pieces: Iterator[bytes],
    writer: StoreWriter,
) -> dict[str, Any]:
    coder, dtype = _Coder(tokenizer, split), token_dtype(tokenizer.size)
    written = lines = unknown = 0
    ends: list[np.ndarray[Any, Any]] = []
    with writer.stream(f"{split}.text.tokens.bin") as file:
        if text.sentences:  # what stands before the first sentence, as before every other
            file.write(np.array([tokenizer.eos_id], dtype).tobytes())
            written, ends = 1, [np.ones(1, np.int64)]
        for piece in _prepared(text, level, pieces):
            coded = coder.code(piece)
            file.write(coded.ids.astype(dtype).tobytes())
            if text.sentences:
                ends.append(np.flatnonzero(coded.ids == tokenizer.eos_id) + 1 + written)
            written += len(coded.ids)
            lines, unknown = lines + coded.lines, unknown + coded.unknown
    if text.sentences:
        writer.write(f"{split}.text.offsets.bin", np.concatenate(ends).astype("<i8").tobytes())
    if written < 2:
        raise UserError(f"{split} has {written} tokens; there is nothing to predict")
    counted = {"examples": lines, "tokens": {"text": written}}
    return counted | ({"unknown": unknown} if tokenizer.unk_id is not None else {})
