"""Selects the training pairs of a large corpus, and counts each reason. Validation and test are not cleaned.

Inside a line every run of blanks becomes one space: non-breaking and thin spaces, tabs, carriage returns, form feeds,
Unicode's line and paragraph separators. Characters keep their composition (no recipe normalises it).

Source: ``clean-corpus-n.perl`` of Moses, as ``prepare-iwslt14.sh`` and ``prepare-wmt14en2fr.sh`` of fairseq call it.
Deviation: lengths are words and punctuation marks of the raw text; those scripts count tokens of Moses' tokeniser, or
subwords.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

_WORD = re.compile(r"\w+|[^\w\s]")


def count_words(line: str) -> int:
    """Words and punctuation marks of a line."""
    return len(_WORD.findall(line))


@dataclass(frozen=True)
class Cleaning:
    """Rules for the training pairs to keep.

    Attributes:
        max_words: longer pairs (words and punctuation marks, on either side) are dropped; 0: none are.
        ratio: pairs with more words on one side, by this factor, are dropped; 0: none are.
        lower: all text is lower-cased, that of validation and test as well.
    """

    max_words: int = 0
    ratio: float = 0.0
    lower: bool = False


class Cleaner:
    """Drops pairs by rules and counts them by reason.

    Args:
        rules: of the corpus.

    Attributes:
        read: pairs looked at.
        squeezed: kept pairs whose blanks were changed.
        dropped: pairs by the first rule against them: ``empty`` (a side has nothing but blanks), ``long``, ``ratio``.
    """

    def __init__(self, rules: Cleaning) -> None:
        self._rules = rules
        self.read = 0
        self.squeezed = 0
        self.dropped = {"empty": 0, "long": 0, "ratio": 0}

    def clean(self, pairs: Iterable[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        """The kept pairs, with single spaces, in lower case if the rules require it."""
        for pair in pairs:
            self.read += 1
            squeezed = tuple([" ".join(side.split()) for side in pair])
            reason = self.objection(squeezed)
            if reason:
                self.dropped[reason] += 1
                continue
            self.squeezed += squeezed != pair
            yield tuple([side.lower() for side in squeezed]) if self._rules.lower else squeezed

    def objection(self, pair: tuple[str, ...]) -> str:
        """The first rule against a pair; empty where it is kept."""
        if not all(pair):
            return "empty"
        rules = self._rules
        counts = [count_words(side) for side in pair]
        if rules.max_words and max(counts) > rules.max_words:
            return "long"
        if rules.ratio and max(counts) > rules.ratio * min(counts):
            return "ratio"
        return ""

    def counts(self) -> dict[str, Any]:
        """Numbers of pairs read, kept and dropped, and the rules, for the manifest."""
        rules = self._rules
        return {
            "read": self.read,
            "kept": self.read - sum(self.dropped.values()),
            "dropped": dict(self.dropped),
            "squeezed": self.squeezed,
            "rules": {"max_words": rules.max_words, "ratio": rules.ratio, "lower_case": rules.lower},
        }


def summary(counts: dict[str, Any]) -> str:
    """The counts of :meth:`Cleaner.counts` in one line."""
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in counts["dropped"].items())
    return f"kept {counts['kept']:,} of {counts['read']:,} training pairs (dropped: {dropped})"
