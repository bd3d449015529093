"""Random trees of operators over digits whose value is one digit, the same on any machine. Needs no torch.

A tree is written with an opening operator, its arguments and a closing bracket: ``[MAX 3 [MIN 7 4 ] ]``. Ids: 0
padding, 1 to 10 the digits 0 to 9, 11 to 14 the operators, 15 the closing bracket: without brackets, ids are 0 to 14.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from repro.data.core.draws import stream
from repro.errors import UserError, at_least

PAD = 0
ZERO = 1  # the digit 0; the other digits follow
OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
FIRST_OPERATOR = ZERO + 10
MIN, MAX, MED, SUM_MOD = range(FIRST_OPERATOR, FIRST_OPERATOR + len(OPERATORS))
CLOSE = SUM_MOD + 1
SYMBOLS = ("<pad>", *map(str, range(10)), *OPERATORS, "]")
_ROUND = re.compile("[()]")
IDS = {symbol: i for i, symbol in enumerate(SYMBOLS) if i != PAD}

Ints = np.ndarray[Any, np.dtype[Any]]


def tree_ids(text: str) -> list[int]:
    """The ids of a tree, round brackets left out; empty where the text is none."""
    ids = [IDS.get(symbol, PAD) for symbol in _ROUND.sub(" ", text).split()]
    # a tree has as many opening operators as closing brackets
    balanced = sum(i >= FIRST_OPERATOR for i in ids) == 2 * ids.count(CLOSE)
    return ids if balanced and PAD not in ids else []


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


def trees_of(rows: Sequence[Ints], values: Sequence[int]) -> Trees:
    """Trees by their tokens and values."""
    return Trees(np.concatenate(rows), offsets_of(list(map(len, rows))), np.array(values, np.uint8))


GENERATOR_VERSION = 1
BLOCK = 4096  # candidates that are grown together
_FRUITLESS = 64  # blocks


@dataclass(frozen=True)
class TreeRules:
    """Rules by which random trees grow and are kept. The defaults are those of the Long Range Arena.

    The root has depth 1. A node is an operator with its probability, and always a digit at the greatest depth. Number
    of arguments, operator and digit are uniform. A digit is one token, an operator two: itself and its bracket.

    Args:
        max_depth: of a node.
        max_args: arguments of an operator; the least is 2.
        min_length: trees must have more tokens.
        max_length: trees must have fewer tokens.
        operator_probability: of a node above the greatest depth, in (0, 1).

    Raises:
        UserError: no tree can follow these rules.

    Source: Tay et al. 2021, section 2.2.1, and the generator of its authors (`lra_benchmarks/data/listops.py`), whose
        ``VALUE_P``, despite its name, is the probability of an operator.
    """

    max_depth: int = 10
    max_args: int = 10
    min_length: int = 500
    max_length: int = 2000
    operator_probability: float = 0.25

    def __post_init__(self) -> None:
        at_least(1, max_depth=self.max_depth)
        at_least(2, max_args=self.max_args)
        if not (0 < self.operator_probability < 1 and 0 <= self.min_length < self.max_length - 1):
            raise UserError(f"no tree can follow these rules: {self}")


@dataclass(frozen=True)
class TreeSet:
    """Generated trees in three splits, which share none.

    Tree ``k`` is the k-th among all candidates that is kept and has not been seen before, whatever the splits and
    their sizes: the first ``held_out`` are for validation, the next ``held_out`` for the test, the others for training.
    So held-out trees are the same at every size of training, and a smaller training split is the beginning of a larger
    one.

    Args:
        train: trees to train on.
        held_out: trees of the validation split, and of the test split.
        rules: how they grow.

    Raises:
        UserError: a number below 1.

    Deviation: the published generator puts its trees into a Python set, whose order decides the splits; same rules and
        numbers, other trees.
    """

    train: int = 96_000
    held_out: int = 2_000
    rules: TreeRules = field(default_factory=TreeRules)

    def __post_init__(self) -> None:
        at_least(1, train=self.train, held_out=self.held_out)

    def split(self, name: str) -> Trees:
        """The trees of ``train``, ``val`` or ``test``.

        Raises:
            UserError: there are too few different trees of such rules.
        """
        held_out = self.held_out
        begin = {"val": 0, "test": held_out, "train": 2 * held_out}[name]
        size = self.train if name == "train" else held_out
        return generate(self.rules, 2 * held_out + self.train).part(begin, begin + size)

    @property
    def settings(self) -> dict[str, Any]:
        """All that the trees depend on."""
        return {"generator": GENERATOR_VERSION, **asdict(self)}


@lru_cache(maxsize=2)
def generate(rules: TreeRules, count: int) -> Trees:
    """The first trees that are kept, none twice.

    Raises:
        UserError: there are too few different trees of such rules.
    """
    found: dict[bytes, tuple[Ints, int]] = {}  # tokens and value, by the hash of the tokens
    block = fruitless = 0
    while len(found) < count:
        if fruitless == _FRUITLESS:
            raise UserError(f"found {len(found)} different trees, not {count}, of {rules}")
        grown, before = grow(rules, block), len(found)
        for i, value in enumerate(grown.values):
            row = grown.tokens[grown.offsets[i] : grown.offsets[i + 1]]
            found.setdefault(hashlib.blake2b(row.tobytes(), digest_size=16).digest(), (row, value))
        block += 1
        fruitless = 0 if len(found) > before else fruitless + 1
    return trees_of(*zip(*islice(found.values(), count), strict=True))


class _Level(NamedTuple):
    """The nodes of one depth, of all candidates; those of one parent are neighbours, in its order."""

    owners: Ints  # which candidate
    symbols: Ints  # ids
    args: Ints  # how many, 0 for a digit


def grow(rules: TreeRules, block: int) -> Trees:
    """Returns the trees of a block of candidates that are kept, in order; some may be equal.

    All candidates of a block grow together, a depth at a time; one is given up as soon as it must become too long.
    The numbers of a block are a function of its index, and the same on any machine.
    """
    source = stream(GENERATOR_VERSION, block)
    lengths = np.zeros(BLOCK, np.int64)
    owners = np.arange(BLOCK)
    levels = []
    for depth in range(1, rules.max_depth + 1):
        level = _draw(source, owners, rules, is_last=depth == rules.max_depth)
        levels.append(level)
        lengths += np.bincount(owners, 1 + (level.args > 0), BLOCK).astype(np.int64)
        coming = np.bincount(owners, level.args, BLOCK).astype(np.int64)
        # given up where it must become too long: a node to come is a token at least
        lengths[lengths + coming >= rules.max_length] = rules.max_length
        growing = np.where(lengths[owners] < rules.max_length, level.args, 0)
        owners = np.repeat(owners, growing)
        if not len(owners):
            break
    kept = (lengths > rules.min_length) & (lengths < rules.max_length)
    return _written([_Level(*(column[kept[level.owners]] for column in level)) for level in levels])


def _draw(source: np.random.PCG64, owners: Ints, rules: TreeRules, is_last: bool) -> _Level:
    def below(limit: int, n: int) -> Ints:
        return (source.random_raw(n) >> np.uint64(11)) % np.uint64(limit)

    n = len(owners)
    threshold = 0 if is_last else round(rules.operator_probability * 2**53)
    is_operator = below(2**53, n) < np.uint64(threshold)
    args = np.zeros(n, np.int64)
    args[is_operator] = 2 + below(rules.max_args - 1, int(is_operator.sum())).astype(np.int64)
    symbols = (ZERO + below(10, n)).astype(np.uint8)
    symbols[is_operator] = FIRST_OPERATOR + below(len(OPERATORS), int(is_operator.sum()))
    return _Level(owners, symbols, args)


def _written(levels: list[_Level]) -> Trees:
    """Writes trees from their nodes."""
    values: list[Ints] = []
    sizes: list[Ints] = []
    below: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    for level in reversed(levels):
        below = _evaluated(level, *below)
        values.insert(0, below[0])
        sizes.insert(0, below[1])
    offsets = offsets_of(sizes[0])
    tokens = np.zeros(int(offsets[-1]), np.uint8)
    node_starts = offsets[:-1]
    for depth, level in enumerate(levels):
        tokens[node_starts] = level.symbols
        is_operator = level.args > 0
        tokens[(node_starts + sizes[depth] - 1)[is_operator]] = CLOSE
        if depth + 1 < len(levels):
            # an argument begins where the one before it ends; the first, after the operator
            ends = np.cumsum(sizes[depth + 1])
            starts = ends - sizes[depth + 1]
            args = level.args[is_operator]
            first = starts[offsets_of(args)[:-1]]
            node_starts = starts + np.repeat(node_starts[is_operator] + 1 - first, args)
    return Trees(tokens, offsets, values[0].astype(np.uint8))


def _evaluated(level: _Level, values: Ints, sizes: Ints) -> tuple[Ints, Ints]:
    """Values of nodes and tokens of their subtrees, given those of the nodes below."""
    is_operator = level.args > 0
    results = np.where(is_operator, 0, level.symbols.astype(np.int64) - ZERO)
    total = np.ones(len(results), np.int64)
    if not is_operator.any():
        return results, total
    args, symbols = level.args[is_operator], level.symbols[is_operator]
    starts = offsets_of(args)[:-1]
    total[is_operator] = 2 + np.add.reduceat(sizes, starts)
    parents = np.repeat(np.arange(len(args)), args)
    ordered = np.sort(parents * 10 + values) % 10  # the arguments of each operator by value
    low, high = ordered[starts + (args - 1) // 2], ordered[starts + args // 2]
    answers = [
        ordered[starts],
        ordered[starts + args - 1],
        (low + high) // 2,
        np.add.reduceat(values, starts) % 10,
    ]
    results[is_operator] = np.choose(symbols - FIRST_OPERATOR, answers)
    return results, total
