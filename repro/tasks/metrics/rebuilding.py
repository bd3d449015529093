"""Rebuilds brackets over a sentence from any row of symbols."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from repro.trees import LEAF, Bracket

_BRACKET = re.compile(r"([()])([^\s()]+)")


class Rebuilt(NamedTuple):
    """Brackets over a sentence.

    Attributes:
        brackets: every phrase, outer ones before those inside them; each holds a word.
        repairs: number of repairs that the row needed.
    """

    brackets: tuple[Bracket, ...]
    repairs: int


def rebuild(symbols: Iterable[str], n_words: int) -> Rebuilt:
    """Brackets that a row of symbols sets over the words of a sentence.

    ``(NP`` opens a phrase, ``)NP`` closes it, ``XX`` is the next word. Anything else is repaired by fixed rules, each
    use of which is one repair:

    - A closing symbol whose phrase is open, but not the innermost one, closes those inside it too, a repair each.
    - A closing symbol whose phrase is not open, a word beyond the last one, and anything that is no symbol are dropped.
    - Words left over at the end are, together, put into the innermost phrase that is still open; where none is, into
      the last of the outermost phrases, if it reaches to the last word so far; else they stay outside of all.
    - A phrase still open at the end is closed there.
    - A phrase without words is dropped.

    A row without any phrase leaves the sentence without any, which is no repair if it has as many words.

    Args:
        symbols: as predicted.
        n_words: words of the sentence, at least 1.
    """
    brackets: list[Bracket] = []
    stack: list[int] = []  # indices in `brackets` of the phrases that are open
    place = repairs = 0
    for symbol in symbols:
        side, label = _side_and_label(symbol)
        if symbol == LEAF and place < n_words:
            place += 1
        elif side == "(":
            stack.append(len(brackets))
            brackets.append(Bracket(label, place, -1))
        elif side == ")" and any(brackets[i].label == label for i in stack):
            closed = ""
            while closed != label:
                repairs += bool(closed)
                begin = stack.pop()
                closed, brackets[begin] = brackets[begin].label, brackets[begin]._replace(end=place)
        else:
            repairs += 1
    if place < n_words:
        repairs += 1
        if not stack:
            _stretch(brackets, place, n_words)
        place = n_words
    for i in stack:
        brackets[i] = brackets[i]._replace(end=place)
    phrases = tuple(bracket for bracket in brackets if bracket.start < bracket.end)
    return Rebuilt(phrases, repairs + len(stack) + len(brackets) - len(phrases))


def _side_and_label(symbol: str) -> tuple[str, str]:
    """``(`` or ``)`` and its label; empty where a symbol is not a bracket."""
    bracket = _BRACKET.fullmatch(symbol)
    return (bracket[1], bracket[2]) if bracket else ("", "")


def _stretch(brackets: list[Bracket], place: int, n_words: int) -> None:
    """Lets the last outermost phrase reach to the end of the sentence, if it reaches to the last word so far."""
    outer, edge = None, 0
    for i, bracket in enumerate(brackets):
        if bracket.start >= edge and bracket.end > edge:
            outer, edge = i, bracket.end
    if outer is not None and edge == place:
        brackets[outer] = brackets[outer]._replace(end=n_words)
