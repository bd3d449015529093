"""Tokenisers of every kind, read from their files. Needs no torch."""

import json
from collections.abc import Callable
from pathlib import Path

from repro.data.tokenizers.merges import MergedWords
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.data.tokenizers.tokenizer import ByteBpe, Gpt2Bpe, SentencePiece, Subwords
from repro.data.tokenizers.vocabulary import Bytes, Chars, Words
from repro.errors import UserError

AnyTokenizer = Subwords | Gpt2Bpe | Words | Bytes | Chars | MergedWords | WordsAndSymbols
_KINDS: dict[str, Callable[[bytes], AnyTokenizer]] = {
    kind.kind: kind for kind in (Gpt2Bpe, Words, Bytes, Chars, MergedWords, WordsAndSymbols)
}


def _read_json(content: bytes) -> AnyTokenizer:
    try:
        kind = str(json.loads(content)["kind"])
    except (ValueError, KeyError, TypeError):
        kind = ""  # the library's message states the fault
    return _KINDS.get(kind, ByteBpe)(content)


def load_subwords(path: Path) -> Subwords:
    """Reads a tokeniser file that a user gives.

    Raises:
        UserError: as :func:`load_tokenizer`, or the tokeniser is not of subwords.
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
    if path.suffix not in (".json", ".model"):
        raise UserError(f"{path}: a tokeniser file ends in .json or .model")
    try:
        content = path.read_bytes()
        return SentencePiece(content) if path.suffix == ".model" else _read_json(content)
    except OSError as error:
        raise UserError(f"cannot read the tokeniser file {path}: {error.strerror}") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
