"""Trees of operators over digits whose value is one digit: their tokens, and reading and evaluating them.

A tree is written with an opening operator, its arguments and a closing bracket: ``[MAX 3 [MIN 7 4 ] ]``. The round
brackets of the published files are redundant and are dropped. Ids: 0 padding, 1 to 10 the digits 0 to 9, 11 to 14
the operators, 15 the closing bracket: without brackets, ids are 0 to 14.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

PAD = 0
ZERO = 1  # the digit 0; the other digits follow
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
FIRST_OPERATOR = ZERO + 10
MIN, MAX, MED, SUM_MOD = range(FIRST_OPERATOR, FIRST_OPERATOR + len(OPERATORS))
CLOSE = SUM_MOD + 1
SYMBOLS = ("<pad>", *map(str, range(10)), *OPERATORS, "]")
IDS = {symbol: i for i, symbol in enumerate(SYMBOLS) if i != PAD}

Ints = np.ndarray[Any, np.dtype[Any]]


class Trees(NamedTuple):
    """Some trees.

    Attributes:
        tokens: of all trees, one behind another.
        offsets: where each tree begins, ``(N + 1,)``.
        values: of each tree, 0 to 9, ``(N,)``.
    """

    tokens: Ints
    offsets: Ints
    values: Ints

    def part(self, begin: int, end: int) -> "Trees":
        """The trees from ``begin`` to before ``end``."""
        offsets = self.offsets[begin : end + 1]
        return Trees(self.tokens[offsets[0] : offsets[-1]], offsets - offsets[0], self.values[begin:end])


def offsets_of(lengths: Ints | Sequence[int]) -> Ints:
    """Offsets of rows of some lengths, and the end of the last."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def read_tree(text: str) -> list[int]:
    """Ids of a tree as the published files write it; its round brackets are dropped.

    Raises:
        ValueError: what is wrong with it.
    """
    if text.count("(") != text.count(")"):
        raise ValueError(f"{text.count('(')} opening and {text.count(')')} closing round brackets")
    try:
        return [IDS[symbol] for symbol in text.replace("(", " ").replace(")", " ").split()]
    except KeyError as error:
        raise ValueError(f"unknown token {error.args[0]!r}; there are {' '.join(IDS)}") from None


def value_of(ids: Sequence[int]) -> int:
    """The value of a tree, closing brackets included.

    The median of an even number of arguments is the mean of the middle two, cut to an integer.

    Raises:
        ValueError: what is wrong with it.
    """
    operators: list[int] = []
    open_args: list[list[int]] = [[]]
    for place, token in enumerate(ids, 1):
        if ZERO <= token < FIRST_OPERATOR:
            open_args[-1].append(token - ZERO)
        elif token != CLOSE:
            operators.append(token)
            open_args.append([])
        elif not operators:
            raise ValueError(f"the closing bracket at token {place} closes nothing")
        else:
            args = open_args.pop()
            if not args:
                raise ValueError(f"the operator closed at token {place} has no arguments")
            open_args[-1].append(_applied(operators.pop(), args))
    if operators:
        raise ValueError(f"{len(operators)} unclosed bracket{'s' if len(operators) > 1 else ''}")
    if len(open_args[0]) != 1:
        raise ValueError(f"{len(open_args[0])} trees, not one")
    return open_args[0][0]


def _applied(operator: int, args: list[int]) -> int:
    if operator == SUM_MOD:
        return sum(args) % 10
    args.sort()
    if operator == MED:
        return (args[(len(args) - 1) // 2] + args[len(args) // 2]) // 2
    return args[0] if operator == MIN else args[-1]


def written(ids: Sequence[int]) -> str:
    """A tree as text, without round brackets."""
    return " ".join(SYMBOLS[i] for i in ids)
