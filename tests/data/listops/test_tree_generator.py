"""Random trees: their values, their law, and that they are the same everywhere."""

import hashlib
from itertools import pairwise

import numpy as np
import pytest

from repro.data.sets.listops.trees import (
    BLOCK,
    CLOSE,
    FIRST_OPERATOR,
    OPERATORS,
    ZERO,
    TreeRules,
    Trees,
    TreeSet,
    generate,
    grow,
)
from repro.errors import UserError
from tests.data.listops.tree_values import value_of

SHORT = TreeRules(max_depth=4, max_args=5, min_length=20, max_length=60)
ANY = TreeRules(max_depth=4, max_args=5, min_length=0, max_length=1000)


def rows(trees: Trees) -> list[list[int]]:
    return [trees.tokens[a:b].tolist() for a, b in pairwise(trees.offsets)]


def nodes(ids: list[int]) -> list[tuple[int, int, int]]:
    """Depth, symbol and number of arguments of every node, by reading token after token."""
    result: list[list[int]] = []
    above: list[int] = []
    for one in ids:
        if one == CLOSE:
            above.pop()
            continue
        if above:
            result[above[-1]][2] += 1
        result.append([len(above) + 1, one, 0])
        if one >= FIRST_OPERATOR:
            above.append(len(result) - 1)
    return [(depth, symbol, args) for depth, symbol, args in result]


def length_law(rules: TreeRules) -> np.ndarray:
    """Probability of each number of tokens below ``max_length``, by adding up."""
    n = rules.max_length
    law = np.zeros(n)
    law[1] = 1
    for _ in range(rules.max_depth - 1):
        all_args, of_args = np.zeros(n), law
        for _ in range(2, rules.max_args + 1):
            of_args = np.convolve(of_args, law)[:n]
            all_args += of_args / (rules.max_args - 1)
        law = np.zeros(n)
        law[1] = 1 - rules.operator_probability
        law[2:] += rules.operator_probability * all_args[:-2]
    return law


@pytest.mark.parametrize(
    "rules", [SHORT, ANY, TreeRules(max_depth=1, min_length=0, max_length=9), TreeRules()]
)
def test_every_value_is_that_of_the_tree(rules: TreeRules) -> None:
    trees = grow(rules, 3)
    assert len(trees.values) > 100
    for ids, value in list(zip(rows(trees), trees.values, strict=True))[:1000]:
        assert value_of(ids) == value  # and every bracket is closed
        assert rules.min_length < len(ids) < rules.max_length


def test_the_shares_of_operators_arguments_and_digits() -> None:
    result = [node for ids in rows(grow(ANY, 0)) for node in nodes(ids)]
    assert max(depth for depth, _, _ in result) == ANY.max_depth
    operators = [(symbol, args) for depth, symbol, args in result if args and depth < ANY.max_depth]
    inner = [symbol for depth, symbol, _ in result if depth < ANY.max_depth]
    assert len(operators) / len(inner) == pytest.approx(0.25, abs=0.015)
    kinds = np.bincount([symbol - FIRST_OPERATOR for symbol, _ in operators])
    np.testing.assert_allclose(kinds / len(operators), 1 / len(OPERATORS), atol=0.03)
    args = np.bincount([args for _, args in operators])
    np.testing.assert_allclose(args / len(operators), [0, 0, 0.25, 0.25, 0.25, 0.25], atol=0.03)
    digits = np.bincount([symbol - ZERO for _, symbol, args in result if not args])
    np.testing.assert_allclose(digits / digits.sum(), 0.1, atol=0.012)


def test_lengths_follow_the_law_that_the_rules_imply() -> None:
    rules = TreeRules()
    law = length_law(rules)
    law[: rules.min_length + 1] = 0
    lengths = np.concatenate([np.diff(grow(rules, block).offsets) for block in range(5)])
    assert len(lengths) / (5 * BLOCK) == pytest.approx(
        law.sum(), abs=0.008
    )  # 0.0828, four standard deviations
    mean = (law * np.arange(len(law))).sum() / law.sum()
    assert mean == pytest.approx(1035, abs=0.1)
    assert lengths.mean() == pytest.approx(mean, abs=4 * 394 / len(lengths) ** 0.5)


def test_the_same_on_any_machine() -> None:
    trees = generate(SHORT, 500)
    content = trees.tokens.tobytes() + trees.offsets.astype("<i8").tobytes() + trees.values.tobytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "2b19609515123fbf"


def test_splits_share_no_tree_and_do_not_depend_on_the_size_of_training() -> None:
    small, large = TreeSet(50, 30, SHORT), TreeSet(400, 30, SHORT)
    assert [len(small.split(name).values) for name in ("train", "val", "test")] == [50, 30, 30]
    for name in ("val", "test"):
        assert rows(small.split(name)) == rows(large.split(name))
    assert rows(small.split("train")) == rows(large.split("train"))[:50]
    every = [tuple(ids) for name in ("train", "val", "test") for ids in rows(large.split(name))]
    assert len(set(every)) == 460
    assert small.settings != large.settings


def test_no_tree_comes_twice_even_where_most_candidates_are_the_same() -> None:
    few = TreeRules(max_depth=2, max_args=2, min_length=0, max_length=9)
    result = rows(generate(few, 410))  # all there are: 10 digits, 4 operators of two digits
    assert len(result) == len({tuple(ids) for ids in result}) == 410


def test_too_few_different_trees_are_said() -> None:
    with pytest.raises(UserError, match=r"found 10.*11"):
        generate(TreeRules(max_depth=1, min_length=0, max_length=9), 11)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_depth": 0}, "max_depth must be at least 1"),
        ({"max_args": 1}, "max_args must be at least 2"),
        ({"operator_probability": 1.0}, "no tree can .* operator_probability=1.0"),
        ({"min_length": 1999}, "no tree can .* min_length=1999"),
    ],
)
def test_rules_that_make_no_tree_are_refused(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TreeRules(**wrong)  # type: ignore[arg-type]


def test_a_split_of_no_trees_is_refused() -> None:
    with pytest.raises(UserError, match="held_out must be at least 1"):
        TreeSet(held_out=0)
