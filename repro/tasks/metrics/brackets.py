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

LEFT_OUT = frozenset(
    {"TOP", "-NONE-", ",", ":", "``", "''", "."}
)  # words by their tag, brackets by their label
SAME_AS = {"PRT": "ADVP"}
# a word under its tag, an opening bracket, a closing one, anything else
_PIECE = re.compile(r"\(([^\s()]+)\s+([^\s()]+)\s*\)|\(([^\s()]*)|(\))|\S")
_TAIL = re.compile("[-=].*")


class Bracket(NamedTuple):
    """A phrase: its label, its first word, and the word behind its last."""

    label: str
    start: int
    end: int


class Parse(NamedTuple):
    """A tree over a sentence.

    Attributes:
        words: of the sentence.
        tags: part of speech of each.
        brackets: every phrase, outer ones before those inside them.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]


def read_parse(line: str) -> Parse:
    """A tree from one line, ``(TOP (NP (DT the) (NN dog)))``; an empty line is a sentence that was not parsed.

    Raises:
        ValueError: brackets do not match, or text stands where none belongs.
    """
    words: list[tuple[str, str]] = []
    brackets: list[Bracket] = []
    stack: list[int] = []
    for piece in _PIECE.finditer(line):
        tag, word, label, close = piece.groups()
        if word is not None:
            words.append((word, tag))
        elif label is not None:
            stack.append(len(brackets))
            brackets.append(Bracket(label, len(words), -1))
        elif close and stack:
            begin = stack.pop()
            brackets[begin] = brackets[begin]._replace(end=len(words))
        else:
            raise ValueError(f"{piece[0]!r} belongs to no bracket of the tree {line:.80}")
    if stack:
        raise ValueError(f"a bracket is never closed in the tree {line:.80}")
    return Parse(tuple(word for word, _ in words), tuple(tag for _, tag in words), tuple(brackets))


def write_parse(parse: Parse) -> str:
    """The line of a tree, as :func:`read_parse` reads it.

    Args:
        parse: its brackets in the order of reading, each inside those before it that hold its first word.
    """
    opened: dict[int, list[str]] = {}
    closed: Counter[int] = Counter()
    for label, start, end in parse.brackets:
        opened.setdefault(start, []).append(f"({label}")
        closed[end] += 1
    words = []
    for place, (word, tag) in enumerate(zip(parse.words, parse.tags, strict=True)):
        words.append(" ".join([*opened.get(place, []), f"({tag} {word}){')' * closed[place + 1]}"]))
    return " ".join(words)


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
