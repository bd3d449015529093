"""Rules for the training pairs to keep.

Source: ``clean-corpus-n.perl`` of Moses, as ``prepare-iwslt14.sh`` and ``prepare-wmt14en2fr.sh`` of fairseq call it.
Deviation: lengths are words and punctuation marks of the raw text; those scripts count tokens of Moses' tokeniser, or
subwords.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_WORD = re.compile(r"\w+|[^\w\s]")
Pairs = Iterator[tuple[str, ...]]


@dataclass(frozen=True)
class Cleaning:
    """Rules for the training pairs to keep. Every run of blanks inside a line becomes one space, also Unicode's.

    Attributes:
        max_words: longer pairs (words and punctuation marks, on either side) are dropped; 0: none are.
        ratio: pairs with more words on one side, by this factor, are dropped; 0: none are.
        lower: all text is lower-cased, that of validation and test as well.
    """

    max_words: int = 0
    ratio: float = 0.0
    lower: bool = False

    def objection(self, pair: tuple[str, ...]) -> str:
        """The first rule against a pair: ``empty`` (a side has nothing but blanks), ``long``, ``ratio``; or empty."""
        if not all(pair):
            return "empty"
        counts = [len(_WORD.findall(side)) for side in pair]
        if self.max_words and max(counts) > self.max_words:
            return "long"
        return "ratio" if self.ratio and max(counts) > self.ratio * min(counts) else ""


class Cleaner:
    """Drops pairs by rules and counts them by reason.

    Args:
        rules: of the corpus.

    Attributes:
        read: pairs looked at.
        squeezed: kept pairs whose blanks were changed.
        dropped: pairs by the first rule against them.
    """

    def __init__(self, rules: Cleaning) -> None:
        self.rules = rules
        self.read = 0
        self.squeezed = 0
        self.dropped = {"empty": 0, "long": 0, "ratio": 0}

    @property
    def kept(self) -> int:
        """Pairs that were kept."""
        return self.read - sum(self.dropped.values())

    def clean(self, pairs: Iterable[tuple[str, ...]]) -> Pairs:
        """The kept pairs, with single spaces, in lower case if the rules require it."""
        for pair in pairs:
            self.read += 1
            squeezed = tuple([" ".join(side.split()) for side in pair])
            if reason := self.rules.objection(squeezed):
                self.dropped[reason] += 1
                continue
            self.squeezed += squeezed != pair
            yield tuple([side.lower() for side in squeezed]) if self.rules.lower else squeezed

    def counts(self) -> dict[str, Any]:
        """Numbers of pairs read, kept and dropped, and the rules, for the manifest."""
        rules = self.rules
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "squeezed": self.squeezed,
            "rules": {"max_words": rules.max_words, "ratio": rules.ratio, "lower_case": rules.lower},
        }


def summary(counts: dict[str, Any]) -> str:
    """The counts of :meth:`Cleaner.counts` in one line."""
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in counts["dropped"].items())
    return f"kept {counts['kept']:,} of {counts['read']:,} training pairs (dropped: {dropped})"
