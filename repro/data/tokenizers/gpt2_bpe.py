"""GPT-2's own subwords for its pretrained weights. Needs no torch."""

import json
from collections.abc import Iterable
from pathlib import Path

from repro.data.tokenizers.tokenizer import encode_all
from repro.data.tokenizers.vocabulary import Filed
from repro.errors import UserError


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
        from tokenizers import Tokenizer as Library

        try:
            file = json.loads(content)["file"]
            vocab = file["model"]["vocab"]
            # `post_processor` and `added_tokens` concern special symbols only
            plain = {**file, "added_tokens": [], "post_processor": None}
            self._library = Library.from_str(json.dumps(plain))
            encode_all(self._library)
        except Exception as error:  # the library raises bare Exception
            raise UserError(f"not a byte-level BPE file: {error!s:.120}") from None
        facts = len(vocab), vocab.get("!"), vocab.get(self.end)
        if facts != (self.vocab_size, 0, self.vocab_size - 1):
            raise UserError(
                f"not GPT-2's file: {len(vocab)} entries, {self.end} is {facts[2]}; use tokenizer.json of gpt2"
            )
        self.eos_id = self.bos_id = self.vocab_size - 1

    @classmethod
    def parse(cls, content: bytes) -> "Gpt2Bpe":
        """Makes the tokeniser from GPT-2's own ``tokenizer.json``."""
        try:
            file = json.loads(content)
        except ValueError as error:
            raise UserError(f"not a byte-level BPE file: {error!s:.120}") from None
        return cls((json.dumps({"kind": cls.kind, "file": file}) + "\n").encode())

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
        return Gpt2Bpe.parse(path.read_bytes())
    except OSError as error:
        raise UserError(f"--tokenizer {path}: {error.strerror}") from None
    except UserError as error:
        raise UserError(f"--tokenizer {path}: {error}") from None
