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


def new_counts(rules: Cleaning) -> dict[str, Any]:
    """Numbers of pairs for the manifest, all 0, and the rules; ``squeezed`` ones are kept with other blanks."""
    return {
        "read": 0,
        "kept": 0,
        "dropped": {"empty": 0, "long": 0, "ratio": 0},
        "squeezed": 0,
        "rules": {"max_words": rules.max_words, "ratio": rules.ratio, "lower_case": rules.lower},
    }


def clean(pairs: Iterable[tuple[str, ...]], rules: Cleaning, counts: dict[str, Any]) -> Pairs:
    """The kept pairs, with single spaces, in lower case if the rules require it.

    Args:
        pairs: of the corpus.
        rules: of the corpus.
        counts: of :func:`new_counts`, kept up to date.
    """
    for pair in pairs:
        counts["read"] += 1
        squeezed = tuple([" ".join(side.split()) for side in pair])
        if reason := rules.objection(squeezed):
            counts["dropped"][reason] += 1
            continue
        counts["kept"] += 1
        counts["squeezed"] += squeezed != pair
        yield tuple([side.lower() for side in squeezed]) if rules.lower else squeezed


def summary(counts: dict[str, Any]) -> str:
    """The counts of :func:`clean` in one line."""
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in counts["dropped"].items())
    return f"kept {counts['kept']:,} of {counts['read']:,} training pairs (dropped: {dropped})"
