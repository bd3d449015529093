"""Constituency trees: read from brackets, stripped to what parsers predict, written in one line. Standard library only.

A treebank writes a tree as nested brackets. Below a root without a label, ``TOP``, ``ROOT`` or ``S1``, a bracket is a
phrase, ``(NP ...)``, or one word under its part of speech, ``(NN dog)``.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, compress
from typing import NamedTuple

from repro.errors import UserError

TOP = "TOP"
ROOTS = ("", TOP, "ROOT", "S1")
NOTHING = "-NONE-"  # part of speech of traces
LEAF = "XX"  # what stands for any word in a row of symbols
# a word under its tag, an opening bracket, a closing one, anything else
_PIECE = re.compile(r"\(\s*([^\s()]+)\s+([^\s()]+)\s*\)|\(\s*([^\s()]*)|(\))|[^\s()]+")
_TAIL = re.compile(r"[-=|].*")  # of a label: its function, what it is bound to, what else it may be
_CLOSING = re.compile(r" \)[^\s()]*")


class Bracket(NamedTuple):
    """A phrase: its label, its first word, and the word behind its last."""

    label: str
    start: int
    end: int


class Parse(NamedTuple):
    """A tree over a sentence.

    Attributes:
        words: of the sentence, as the treebank spells them (``-LRB-`` for a bracket).
        tags: part of speech of each.
        brackets: every phrase, outer ones before those inside them.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...]
    brackets: tuple[Bracket, ...]


def read_parses(lines: Iterable[str], source: str) -> Iterator[Parse]:
    """The trees of a file.

    Args:
        lines: of the file. A tree may span lines, of which none but its first has a bracket in its first column.
        source: source of the lines, for messages.

    Raises:
        UserError: a bracket that is never closed or never opened, one with nothing in it, or text where none belongs;
            names file and line.
    """
    text, begin = "", 1
    for number, line in enumerate(lines, 1):
        if text and line.startswith("("):
            break
        begin = begin if text else number
        text += f"{line}\n"
        if text.count("(") <= text.count(")"):
            yield from _parses(text, source, begin)
            text = ""
    if text:
        raise UserError(f"{source}, line {begin}: the tree that begins here is never closed; a ) is missing")


def _parses(text: str, source: str, begin: int) -> Iterator[Parse]:
    """The trees of a text that begins at some line of its source and closes as many brackets as it opens, or more."""
    words: list[str] = []
    tags: list[str] = []
    brackets: list[Bracket] = []
    stack: list[int] = []  # indices in `brackets` of the phrases that are open
    for piece in _PIECE.finditer(text):
        tag, word, label, close = piece.groups()
        if word and stack:
            words.append(word)
            tags.append(tag)
        elif label is not None and (label or not stack):
            stack.append(len(brackets))
            brackets.append(Bracket(label, len(words), -1))
        elif close and stack and brackets[stack[-1]].start < len(words):
            opened = stack.pop()
            brackets[opened] = brackets[opened]._replace(end=len(words))
            if not stack:
                yield Parse(tuple(words), tuple(tags), tuple(brackets))
                words, tags, brackets = [], [], []
        else:
            number = begin + text.count("\n", 0, piece.start())
            place = f"{source}, line {number}"
            if not stack:
                raise UserError(f"{place}: {piece[0]!r} is outside of any tree")
            inside = f"{place}: ({brackets[stack[-1]].label} ...)"
            if close:
                raise UserError(f"{inside} has nothing in it")
            if label is not None:
                raise UserError(f"{inside} has a phrase without label in it")
            raise UserError(f"{inside} the text {piece[0]!r} needs a bracket of its own")


def write_parse(parse: Parse) -> str:
    """A tree in one line, as scorers and :func:`read_parses` read it."""
    leaves = [f"({tag} {word})" for word, tag in zip(parse.words, parse.tags, strict=True)]
    return _CLOSING.sub(")", " ".join(pieces_of(parse.brackets, leaves)))


def symbols_of(parse: Parse) -> list[str]:
    """A tree below its root as a row of symbols: ``(NP XX )NP``, an opening and a closing one for each phrase.

    Source: Vinyals et al. 2015 (arXiv:1412.7449), section 2.2; section 3.1 for ``XX`` in place of every part of speech,
        without which the row would not give the positions of words.
    """
    return pieces_of(parse.brackets[1:], [LEAF] * len(parse.words))


def pieces_of(brackets: Sequence[Bracket], leaves: Iterable[str]) -> list[str]:
    """What stands for each word, between the symbols that open and close the phrases.

    Args:
        brackets: in the order of reading, each inside those before it that hold its first word.
        leaves: one for each word.
    """
    waiting, stack, pieces = deque(brackets), list[Bracket](), list[str]()
    for place, leaf in enumerate(leaves):
        while waiting and waiting[0].start == place:
            stack.append(waiting.popleft())
            pieces.append(f"({stack[-1].label}")
        pieces.append(leaf)
        while stack and stack[-1].end == place + 1:
            pieces.append(f"){stack.pop().label}")
    return pieces


def base_label(label: str) -> str:
    """A label reduced to the kind of phrase: ``NP-SBJ-1``, ``NP=2`` and ``NP|NX`` are ``NP``."""
    return label[:1] + _TAIL.sub("", label[1:])


def stripped(parse: Parse) -> Parse | None:
    """A tree as parsers predict it: no traces, no phrases that held nothing else, no functions in labels.

    ``TOP`` takes the place of a root. Phrases that are alone below one of the same label stay. Returns None where
    nothing but traces was there.

    Source: the usual preparation of the Penn Treebank for parsing, as in Collins 1999, section 7.1.
    """
    kept = [tag != NOTHING for tag in parse.tags]
    if not any(kept):
        return None
    places = list(accumulate(kept, initial=0))
    below = parse.brackets[1:] if parse.brackets[0].label in ROOTS else parse.brackets
    moved = (Bracket(base_label(label), places[start], places[end]) for label, start, end in below)
    return Parse(
        tuple(compress(parse.words, kept)),
        tuple(compress(parse.tags, kept)),
        (Bracket(TOP, 0, places[-1]), *(bracket for bracket in moved if bracket.start < bracket.end)),
    )
