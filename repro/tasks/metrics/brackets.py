"""Labelled brackets of parse trees, compared as ``evalb`` does with its parameters ``COLLINS.prm``.

Source: evalb (Sekine and Collins 1997), ``evalb.c`` and ``COLLINS.prm``.
Deviation: crossing brackets and the accuracy of parts of speech are not counted; no number of errors stops the scorer;
    where nothing matches, F1 is 0, not undefined.
"""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Literal, NamedTuple

from repro.trees import Bracket, Parse

LEFT_OUT = frozenset(
    {"TOP", "-NONE-", ",", ":", "``", "''", "."}
)  # words by their tag, brackets by their label
SAME_AS = {"PRT": "ADVP"}
_TAIL = re.compile("[-=].*")


class Agreement(NamedTuple):
    """The agreement of a tree with the gold tree.

    Attributes:
        status: ``skipped`` where no word of the tree is left to be scored, ``error`` where its words are others.
        matched: brackets that both have.
        gold: brackets of the gold tree.
        test: brackets of the predicted tree.
    """

    status: Literal["valid", "error", "skipped"]
    matched: int = 0
    gold: int = 0
    test: int = 0

    @property
    def complete(self) -> bool:
        """Whether both have the same brackets."""
        return self.matched == self.gold == self.test


def compare(gold: Parse, test: Parse) -> Agreement:
    """Compares a tree with the gold tree.

    In each tree, words whose own tag is that of a punctuation mark (or ``-NONE-``) are taken out first, then brackets
    that hold no word, and those around all (``TOP``). Labels count up to their first ``-`` or ``=``; ``ADVP`` and
    ``PRT`` are the same. A bracket that is there twice must be found twice.

    Args:
        gold: the gold tree.
        test: the predicted tree.
    """
    words = [_kept_words(parse) for parse in (gold, test)]
    if not words[1]:
        return Agreement("skipped")
    if words[0] != words[1]:
        return Agreement("error")
    expected, predicted = _counted(gold), _counted(test)
    return Agreement("valid", (expected & predicted).total(), expected.total(), predicted.total())


def _kept_words(parse: Parse) -> list[str]:
    return [word for word, tag in zip(parse.words, parse.tags, strict=True) if tag not in LEFT_OUT]


def _counted(parse: Parse) -> Counter[Bracket]:
    """The count of each bracket, over the words that are kept."""
    places = list(accumulate((tag not in LEFT_OUT for tag in parse.tags), initial=0))
    counts: Counter[Bracket] = Counter()
    for label, start, end in parse.brackets:
        first, last, base = places[start], places[end], _TAIL.sub("", label)
        if first < last and base not in LEFT_OUT:
            counts[Bracket(SAME_AS.get(base, base), first, last)] += 1
    return counts


class BracketScore(NamedTuple):
    """Scores of many sentences, in percent, and the numbers of sentences.

    Attributes:
        recall: brackets found of all that are right.
        precision: brackets that are right of all found.
        f1: harmonic mean of the two.
        complete_match: sentences whose brackets are all right and all there.
        valid: sentences that are scored.
        errors: sentences left out because their words differ.
        skipped: sentences left out because nothing was found.
    """

    recall: float
    precision: float
    f1: float
    complete_match: float
    valid: int
    errors: int
    skipped: int


def score(agreements: Iterable[Agreement]) -> BracketScore:
    """Adds sentences up; brackets are counted over the whole corpus, not averaged over sentences."""
    rows = list(agreements)
    valid = [row for row in rows if row.status == "valid"]
    matched = sum(row.matched for row in valid)
    recall = _percent(matched, sum(row.gold for row in valid))
    precision = _percent(matched, sum(row.test for row in valid))
    f1 = 2 * precision * recall / (precision + recall) if matched else 0.0
    complete = _percent(sum(row.complete for row in valid), len(valid))
    statuses = Counter(row.status for row in rows)
    return BracketScore(recall, precision, f1, complete, len(valid), statuses["error"], statuses["skipped"])


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
