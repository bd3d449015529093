"""Tokenisers of subwords: byte-level BPE (trained here) and SentencePiece files (read).

The four special symbols have ids 0..3, whatever the file's numbering, and are never made from text: a
``"<pad>"`` typed by a user is five ordinary characters. Needs no torch; the tokeniser libraries are imported
when used. Words, bytes and characters as tokens are in :mod:`repro.data.tokenizers.vocabulary`.
"""

import json
import string
from collections.abc import Iterable
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

from repro.data.tokenizers.vocabulary import Filed
from repro.errors import UserError

PAD_ID, BOS_ID, EOS_ID, UNK_ID = 0, 1, 2, 3
SPECIALS = 4
MIN_BYTE_BPE = SPECIALS + 256  # every byte is a symbol, so any text can be written


# Texts that a file must give back: blanks at the edges, a combining character, every printable one of ASCII.
PROBES = (" Zwei  Männer, e\u0301\r\n猫 <pad>! ", string.printable)
# What a file may hold that concerns neither text nor ids. Without its special symbols, text cannot imitate them.
_LEFT_OUT: dict[str, Any] = {"truncation": None, "padding": None, "post_processor": None, "added_tokens": []}


def byte_level(content: bytes, *keys: str) -> Any:
    """The byte-level BPE of a file of ``tokenizers``; it gives every text back, and makes no special symbol from it.

    Args:
        content: JSON.
        keys: where the file is in it.

    Raises:
        UserError: it is no such file, has added tokens beside special symbols of its vocabulary, or changes text.
    """
    from tokenizers import Tokenizer as Library
    from tokenizers.pre_tokenizers import ByteLevel

    try:
        file = reduce(getitem, keys, json.loads(content))
        vocab, cut = file["model"]["vocab"], json.dumps(file["pre_tokenizer"])
        added = [t["content"] for t in file["added_tokens"] if not t["special"] or t["content"] not in vocab]
        library = Library.from_str(json.dumps({**file, **_LEFT_OUT}))
        library.model.dropout = None
        absent = len(set(ByteLevel.alphabet()).difference(vocab))
        made_of = (type(library.model).__name__, type(library.decoder).__name__)
        if made_of != ("BPE", "ByteLevel") or absent:
            raise ValueError(f"it is {made_of}, its {len(vocab)} entries lack {absent} of the 256 bytes")
        if {*vocab.values()} != {*range(len(vocab))}:
            raise ValueError(f"the ids of its {len(vocab)} entries are not 0 to {len(vocab) - 1}")
    except Exception as error:  # the library raises bare Exception
        raise UserError(f"not a byte-level BPE file: {error!s:.120}") from None
    back = [(text, library.decode(library.encode(text, add_special_tokens=False).ids)) for text in PROBES]
    changes = [f"{text!r:.40} comes back as {decoded!r:.40}" for text, decoded in back if text != decoded]
    changes += [f"pre-tokeniser {cut:.120}"] if '"Removed"' in cut else []
    changes += [f"normaliser {json.dumps(file['normalizer']):.80}"] if file["normalizer"] else []
    changes += [f"added token {token!r}, which text could imitate" for token in added]
    if changes:
        raise UserError(f"this BPE file changes text: {changes[-1]}; use one without")
    return library


class Special(Filed):
    """Base of tokenisers with four special symbols."""

    pad_id: int = PAD_ID
    bos_id: int = BOS_ID
    eos_id: int = EOS_ID
    unk_id: int = UNK_ID


class ByteBpe(Special):
    """Byte-level BPE: ``decode(encode(x)) == x`` for every text.

    The library's file numbers bytes and merges from 0; here they follow the specials, so id = file id + 4.

    Args:
        content: a file as :func:`byte_level` reads it.

    Raises:
        UserError: the content is no such file.
    """

    kind = "byte-bpe"

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._library = byte_level(content)

    @classmethod
    def train(cls, texts: Iterable[str], size: int) -> "ByteBpe":
        """Learns merges from text; the same text gives the same file on any machine.

        Args:
            texts: the training text, both sides of a parallel corpus for a shared vocabulary.
            size: vocabulary size in all, specials and the 256 bytes included.

        Raises:
            UserError: ``size`` cannot be reached; names the size that can.
        """
        if size < MIN_BYTE_BPE:
            raise UserError(
                f"vocabulary size {size} is too small: 256 bytes and 4 specials need {MIN_BYTE_BPE}"
            )
        from tokenizers import Tokenizer as Library
        from tokenizers import decoders, models, pre_tokenizers, trainers

        library = Library(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size - SPECIALS,
            min_frequency=2,  # a pair seen once teaches nothing
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            special_tokens=[],
            show_progress=False,
        )
        library.train_from_iterator(texts, trainer)
        trained = cls(library.to_str().encode())
        if trained.size != size:
            raise UserError(
                f"vocabulary size {size} is too large for this text; the largest is {trained.size}"
            )
        return trained

    @property
    def size(self) -> int:
        """Vocabulary size, the four specials included."""
        return int(self._library.get_vocab_size()) + SPECIALS

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        encodings = self._library.encode_batch(texts, add_special_tokens=False)
        return [[i + SPECIALS for i in encoding.ids] for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; specials are dropped, bytes that form no character become U+FFFD."""
        return str(self._library.decode([int(i) - SPECIALS for i in ids if i >= SPECIALS]))


class SentencePiece(Special):
    """A SentencePiece model, its ids moved so that pad, bos, eos, unk are 0, 1, 2, 3.

    A model's own normalisation, as a rule NFKC and single blanks, is part of the vocabulary and stays: text comes back
    normalised, without what the model cannot write.

    Args:
        content: a SentencePiece ``.model`` file.

    Raises:
        UserError: the content is no such file.
    """

    kind = "sentencepiece"
    suffix = ".model"

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        from sentencepiece import SentencePieceProcessor

        try:
            self._library = SentencePieceProcessor(model_proto=content)
            pieces = int(self._library.get_piece_size())
        except (RuntimeError, OSError, TypeError) as error:
            raise UserError(f"not a SentencePiece model: {error!s:.120}") from None
        if not content or pieces == 0:  # the library takes an empty file for an empty model
            raise UserError("not a SentencePiece model: it has no pieces")
        sp = self._library
        own = {sp.pad_id(): PAD_ID, sp.bos_id(): BOS_ID, sp.eos_id(): EOS_ID, sp.unk_id(): UNK_ID}
        ordinary = [i for i in range(pieces) if i not in own]
        self._official = [-1] * SPECIALS + ordinary
        self._own = {i: SPECIALS + n for n, i in enumerate(ordinary)}
        self._own.update({official: own_id for official, own_id in own.items() if official >= 0})

    @property
    def size(self) -> int:
        """Vocabulary size, the four specials included whether or not the file had them."""
        return len(self._official)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        return [[self._own[i] for i in ids] for ids in self._library.encode(texts, out_type=int)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; specials are dropped."""
        return str(self._library.decode([self._official[i] for i in ids if i >= SPECIALS]))


class Gpt2Bpe(Filed):
    """The subwords of GPT-2 under GPT-2's own numbers, so that its pretrained vectors are those of these ids.

    Its one special symbol, ``<|endoftext|>``, is never made from text.

    Args:
        content: GPT-2's file of the ``tokenizers`` library, below ``file`` beside ``kind``.

    Raises:
        UserError: the content is no such file, or not of GPT-2.
    """

    kind = "gpt2-bpe"
    vocab_size, end = 50257, "<|endoftext|>"
    bos_id: int
    eos_id: int

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self._library = byte_level(content, "file")
        vocab = self._library.get_vocab()
        facts = len(vocab), vocab.get("!"), vocab.get(self.end)
        if facts != (self.vocab_size, 0, self.vocab_size - 1):
            raise UserError(
                f"not GPT-2's file: {len(vocab)} entries, {self.end} is {facts[2]}; use tokenizer.json of gpt2"
            )
        self.eos_id = self.bos_id = self.vocab_size - 1

    @property
    def size(self) -> int:
        """Vocabulary size."""
        return self.vocab_size

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        return [row.ids for row in self._library.encode_batch(texts, add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; ``<|endoftext|>`` is dropped."""
        return str(self._library.decode([int(i) for i in ids if i != self.eos_id]))


def load_gpt2(path: Path) -> Gpt2Bpe:
    """Reads GPT-2's ``tokenizer.json`` that a user gives.

    Raises:
        UserError: there is no such file, or it is another.
    """
    try:
        file = json.loads(path.read_bytes())
        return Gpt2Bpe((json.dumps({"kind": Gpt2Bpe.kind, "file": file}) + "\n").encode())
    except OSError as error:
        raise UserError(f"--tokenizer {path}: {error.strerror}") from None
    except (ValueError, UserError) as error:
        raise UserError(f"--tokenizer {path}: not GPT-2's file: {error!s:.160}") from None


Subwords = ByteBpe | SentencePiece
