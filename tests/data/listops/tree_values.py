"""Trees as text, and their values by a naive evaluation."""

from collections.abc import Sequence

from repro.data.sets.listops.trees import CLOSE, FIRST_OPERATOR, IDS, MED, MIN, SUM_MOD, SYMBOLS, ZERO


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
