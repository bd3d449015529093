"""Constituency trees: read from brackets, stripped to what parsers predict, written in one line. Standard library only.

A treebank writes a tree as nested brackets. Below a root without a label, ``TOP``, ``ROOT`` or ``S1``, a bracket is a
phrase, ``(NP ...)``, or one word under its part of speech, ``(NN dog)``.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Union

from repro.errors import UserError

TOP = "TOP"
ROOTS = ("", TOP, "ROOT", "S1")
NOTHING = "-NONE-"  # part of speech of traces
LEAF = "XX"  # what stands for any word in a row of symbols
_PIECE = re.compile(r"[()]|[^\s()]+")
_TAIL = re.compile(r"[-=|].*")  # of a label: its function, what it is bound to, what else it may be


class Word(NamedTuple):
    """A word of the sentence, as the treebank spells it (``-LRB-`` for a bracket)."""

    tag: str
    text: str


@dataclass(frozen=True)
class Phrase:
    """A constituent: its label, and its phrases and words, at least one."""

    label: str
    children: tuple[Union["Phrase", Word], ...]


def read_trees(lines: Iterable[str], source: str) -> Iterator[Phrase]:
    """The trees of a file.

    Args:
        lines: of the file. A tree may span lines, of which none but its first has a bracket in its first column.
        source: source of the lines, for messages.

    Raises:
        UserError: a bracket that is never closed or never opened, one with nothing in it, or text where none belongs;
            names file and line.
    """
    stack: list[list[Phrase | Word | str]] = []  # the content of each open bracket so far
    begin = 1
    for number, line in enumerate(lines, 1):
        if stack and line.startswith("("):
            break
        for piece in _PIECE.findall(line):
            place = f"{source}, line {number}"
            if piece == "(":
                begin = begin if stack else number
                stack.append([])
            elif not stack:
                raise UserError(
                    f"{place}: {'a ) too many' if piece == ')' else repr(piece)} is outside of any tree"
                )
            elif piece != ")":
                stack[-1].append(piece)
            else:
                node = _node(stack.pop(), place)
                if stack:
                    stack[-1].append(node)
                elif isinstance(node, Word):
                    raise UserError(f"{place}: ({node.tag} {node.text}) is a word, not a tree")
                else:
                    yield node
    if stack:
        raise UserError(f"{source}, line {begin}: the tree that begins here is never closed; a ) is missing")


def _node(content: list[Phrase | Word | str], place: str) -> Phrase | Word:
    """A closed bracket: a word under its part of speech, or a phrase of at least one bracket."""
    label, *inside = content if content and isinstance(content[0], str) else ("", *content)
    assert isinstance(label, str)
    if len(inside) == 1 and isinstance(inside[0], str):
        return Word(label, inside[0])
    if loose := [child for child in inside if isinstance(child, str)]:
        raise UserError(f"{place}: ({label} ...) the text {loose[0]!r} needs a bracket of its own")
    children = tuple([child for child in inside if not isinstance(child, str)])
    if not children or any(isinstance(child, Phrase) and not child.label for child in children):
        raise UserError(f"{place}: ({label} ...) has nothing in it, or a phrase without label")
    return Phrase(label, children)


def below_top(tree: Phrase) -> Phrase:
    """A tree under ``TOP``, in place of its root if it has one."""
    return Phrase(TOP, tree.children if tree.label in ROOTS else (tree,))


def base_label(label: str) -> str:
    """A label reduced to the kind of phrase: ``NP-SBJ-1``, ``NP=2`` and ``NP|NX`` are ``NP``."""
    return label[:1] + _TAIL.sub("", label[1:])


def stripped(tree: Phrase) -> Phrase | None:
    """A tree as parsers predict it: no traces, no phrases that held nothing else, no functions in labels.

    Phrases that are alone below one of the same label stay. Returns None where nothing but traces was there.

    Source: the usual preparation of the Penn Treebank for parsing, as in Collins 1999, section 7.1.
    """
    kept = [
        child if isinstance(child, Word) else stripped(child)
        for child in tree.children
        if not (isinstance(child, Word) and child.tag == NOTHING)
    ]
    children = tuple(child for child in kept if child is not None)
    return Phrase(base_label(tree.label), children) if children else None


def words_of(tree: Phrase) -> list[Word]:
    """The words of a tree, from left to right."""
    return [
        word for child in tree.children for word in ([child] if isinstance(child, Word) else words_of(child))
    ]


def symbols_of(tree: Phrase) -> list[str]:
    """A tree below its root as a row of symbols: ``(NP XX )NP``, an opening and a closing one for each phrase.

    Source: Vinyals et al. 2015 (arXiv:1412.7449), section 2.2; section 3.1 for ``XX`` in place of every part of speech,
        without which the row would not give the positions of words.
    """
    symbols = []
    for child in tree.children:
        if isinstance(child, Word):
            symbols.append(LEAF)
        else:
            symbols += [f"({child.label}", *symbols_of(child), f"){child.label}"]
    return symbols


def written(tree: Phrase | Word) -> str:
    """A tree in one line, as scorers read it."""
    if isinstance(tree, Word):
        return f"({tree.tag} {tree.text})"
    return f"({tree.label} {' '.join(written(child) for child in tree.children)})"
