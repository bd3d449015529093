"""Subwords of words, as ``subword-nmt`` writes them: ``pul@@ ley``. Needs no torch.

The vocabulary is fairseq's: every subword of the training text, the most frequent first, and as many further rows as
make the size a multiple of 8.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from repro.data.tokenizers.tokenizer import SPECIALS, UNK_ID, Special
from repro.data.tokenizers.vocabulary import body_of, written
from repro.errors import UserError

JOINER = "@@"  # ends every subword but the last of a word
_END = "</w>"  # in a file of merges, ends the last symbol of a word
_UNKNOWN = "<unk>"
_MULTIPLE = 8


class MergedWords(Special):
    """Words between blanks, cut by learned merges; a subword that the training text lacks is unknown.

    Args:
        content: JSON: ``kind``, ``subwords`` in the order of their ids, ``merges`` as pairs.

    Raises:
        UserError: the content is no such file.

    Source: Sennrich et al. 2016, section 3.2; fairseq's ``Dictionary`` and ``--remove-bpe``.
    """

    kind = "merged-words"

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        from tokenizers import Tokenizer, models, pre_tokenizers

        self.subwords, pairs = body_of(content, self.kind, "subwords", "merges")
        try:
            merges = [(str(first), str(second)) for first, second in pairs]
        except (ValueError, TypeError):
            raise UserError(f"not a vocabulary of {self.kind}: its merges are pairs of symbols") from None
        self._ids = {subword: SPECIALS + n for n, subword in enumerate(self.subwords)}
        characters = sorted({c for subword in self.subwords for c in subword.removesuffix(JOINER)})
        parts = [*characters, *(f"{c}{_END}" for c in characters)]
        for first, second in merges:
            parts += [first, second, first + second]
        numbers = {part: n for n, part in enumerate(dict.fromkeys([_UNKNOWN, *parts]))}
        model = models.BPE(vocab=numbers, merges=merges, end_of_word_suffix=_END, unk_token=_UNKNOWN)
        self._library = Tokenizer(model)
        self._library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()

    @classmethod
    def from_text(cls, lines: Iterable[str], merges: Sequence[tuple[str, str]]) -> "MergedWords":
        """The vocabulary of training text that has been cut; equally frequent subwords go by their code points."""
        counts = Counter(subword for line in lines for subword in line.split())
        subwords = sorted(counts, key=lambda subword: (-counts[subword], subword))
        return cls(written(cls.kind, subwords=subwords, merges=list(merges)))

    @property
    def size(self) -> int:
        """Vocabulary size, the four specials and the rows that no text uses included."""
        return -(-(SPECIALS + len(self.subwords)) // _MULTIPLE) * _MULTIPLE

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        rows = self._library.encode_batch(texts, add_special_tokens=False)
        return [[self._ids.get(_plain(token), UNK_ID) for token in row.tokens] for row in rows]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids; specials are dropped."""
        known = (int(i) - SPECIALS for i in ids if i >= SPECIALS)
        return joined(" ".join(self.subwords[i] for i in known if i < len(self.subwords)))


def joined(line: str) -> str:
    """A line of subwords as words; a joiner at the end of the line is dropped, as by fairseq."""
    return f"{line} ".replace(f"{JOINER} ", "").rstrip()


def read_merges(text: str) -> list[tuple[str, str]]:
    """The pairs of a file of ``subword-nmt``, the first merge first.

    Raises:
        UserError: a line is no pair.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#version")]
    try:
        return [(first, second) for first, second in map(str.split, lines)]
    except ValueError:
        raise UserError("not a file of merges: each line is a pair of symbols") from None


def _plain(token: str) -> str:
    """A token of the library as in the text."""
    return token.removesuffix(_END) if token.endswith(_END) else f"{token}{JOINER}"
