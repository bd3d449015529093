"""One vocabulary for sentences and their trees: a symbol for each bracket, subwords for words. Needs no torch."""

import json
from collections.abc import Iterable, Sequence
from itertools import groupby

from repro.data.tokenizers.tokenizer import SPECIALS, ByteBpe, Special
from repro.data.tokenizers.vocabulary import body_of, written
from repro.errors import UserError


class WordsAndSymbols(Special):
    """Text to ids and back, where some blank-separated tokens are symbols of their own.

    After the four specials come the symbols, in the order of the file, then bytes and merges of byte-level BPE.
    Brackets of a label that no training tree has are spelled in subwords, so nothing is unknown. ``decode(encode(x))``
    is ``x`` for every text without symbols in it, and for every row of symbols.

    Args:
        content: JSON: ``kind``, ``symbols``, and the BPE's own file under ``words``.

    Raises:
        UserError: the content is no such file.
    """

    kind = "words-and-symbols"

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.symbols, words = body_of(content, self.kind, "symbols", "words")
        self._words = ByteBpe(json.dumps(words, ensure_ascii=False).encode())
        self._ids = {symbol: SPECIALS + n for n, symbol in enumerate(self.symbols)}

    @classmethod
    def train(cls, sentences: Iterable[str], symbols: Sequence[str], size: int) -> "WordsAndSymbols":
        """Learns subwords from sentences; the same sentences give the same file on any machine.

        Args:
            sentences: of the training text.
            symbols: of the trees.
            size: of the vocabulary in all.

        Raises:
            UserError: ``size`` cannot be reached.
        """
        try:
            words = ByteBpe.train(sentences, size - len(symbols))
        except UserError as error:
            raise UserError(
                f"vocabulary size {size} includes {len(symbols)} symbols of trees; for the words, {error}"
            ) from None
        return cls(written(cls.kind, symbols=list(symbols), words=json.loads(words.content)))

    @property
    def size(self) -> int:
        """Vocabulary size, the four specials included."""
        return self._words.size + len(self.symbols)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        runs = [self._runs(text) for text in texts]
        spelled = iter(self._words.encode_batch([run for row in runs for run in row if isinstance(run, str)]))
        moved = len(self.symbols)
        return [
            [i for run in row for i in ([n + moved for n in next(spelled)] if isinstance(run, str) else run)]
            for row in runs
        ]

    def _runs(self, text: str) -> list[str | list[int]]:
        """A text cut where symbols begin and end: their ids, and what is between them."""
        tokens = text.split(" ")
        return [
            [self._ids[token] for token in run] if is_symbol else " ".join(run)
            for is_symbol, run in groupby(tokens, key=self._ids.__contains__)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; specials are dropped."""
        first_word = SPECIALS + len(self.symbols)
        texts = []
        for is_word, run in groupby((int(i) for i in ids if i >= SPECIALS), key=lambda i: i >= first_word):
            if is_word:
                texts.append(self._words.decode(i - len(self.symbols) for i in run))
            else:
                texts += [self.symbols[i - SPECIALS] for i in run]
        return " ".join(texts)
