"""Tokenisers of every kind, read from their files. Needs no torch."""

import json
from collections.abc import Callable
from pathlib import Path

from repro.data.tokenizers.gpt2_bpe import Gpt2Bpe
from repro.data.tokenizers.merges import MergedWords
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.data.tokenizers.tokenizer import ByteBpe, SentencePiece, Subwords
from repro.data.tokenizers.vocabulary import Bytes, Chars, Words
from repro.errors import UserError

AnyTokenizer = Subwords | Gpt2Bpe | Words | Bytes | Chars | MergedWords | WordsAndSymbols
_KINDS: dict[str, Callable[[bytes], AnyTokenizer]] = {
    kind.kind: kind for kind in (Gpt2Bpe, Words, Bytes, Chars, MergedWords, WordsAndSymbols)
}


def _read_json(content: bytes) -> AnyTokenizer:
    try:
        body = json.loads(content)
    except ValueError:
        body = None  # the library says what is wrong
    kind = str(body.get("kind")) if isinstance(body, dict) else None
    return _KINDS.get(str(kind), ByteBpe)(content)


_READERS: dict[str, Callable[[bytes], AnyTokenizer]] = {".json": _read_json, ".model": SentencePiece}


def load_subwords(path: Path) -> Subwords:
    """Reads a tokeniser file that a user gives.

    Raises:
        UserError: as below, or it is not of subwords.
    """
    tokenizer = load_tokenizer(path)
    if not isinstance(tokenizer, ByteBpe | SentencePiece):
        raise UserError(
            f"--tokenizer {path} holds {tokenizer.kind}; it must be byte-level BPE or SentencePiece"
        )
    return tokenizer


def load_tokenizer(path: Path) -> AnyTokenizer:
    """Reads a tokeniser file: ``.json`` is byte-level BPE or a vocabulary, ``.model`` is SentencePiece.

    Raises:
        UserError: no such file, another suffix, or a broken file; names the file.
    """
    path = Path(path)
    if path.suffix not in _READERS:
        raise UserError(f"{path}: a tokeniser file ends in {' or '.join(_READERS)}")
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"no such tokeniser file: {path}") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    try:
        return _READERS[path.suffix](content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
