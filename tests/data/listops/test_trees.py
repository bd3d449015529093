"""Trees and their evaluation in tests, against trees that the published generator wrote and evaluated."""

import numpy as np
import pytest

from repro.data.sets.listops.trees import CLOSE, IDS, SYMBOLS, Trees, offsets_of
from tests.data.listops.tree_values import read_tree, value_of, written

# text and value as the functions of `lra_benchmarks/data/listops.py` gave them
PUBLISHED = {
    "( ( ( ( ( [MAX 6 ) 6 ) 8 ) ( ( ( ( [MIN 8 ) ( ( ( [MED 3 ) 7 ) ] ) ) 6 ) ] ) ) ] )": 8,
    "( ( ( ( ( [MED ( ( ( [MED 4 ) ( ( ( [MED 9 ) 2 ) ] ) ) ] ) ) ( ( ( [SM 2 ) 4 ) ] ) ) 7 ) 0 ) ] )": 5,
    "( ( ( ( ( [SM 3 ) 6 ) 0 ) ( ( ( ( [MIN ( ( ( ( ( [MAX 2 ) 7 ) 8 ) 6 ) ] ) ) 8 ) 8 ) ] ) ) ] )": 7,
    "( ( ( ( [MAX ( ( ( [SM 4 ) ( ( ( [MAX 4 ) 4 ) ] ) ) ] ) ) 2 ) ( ( ( [SM 3 ) 9 ) ] ) ) ] )": 8,
    "( ( ( [MED ( ( ( ( ( [MAX 9 ) ( ( ( [SM 6 ) 4 ) ] ) ) ( ( ( ( ( [MAX 6 ) 4 ) 0 ) 2 ) ] ) ) 9 ) ] ) ) 3 ) ] )": 6,
    "3": 3,
}


def value(text: str) -> int:
    return value_of(read_tree(text))


@pytest.mark.parametrize(("text", "expected"), PUBLISHED.items())
def test_published_trees_have_their_published_values(text: str, expected: int) -> None:
    assert value(text) == expected


def test_ids_are_padding_then_digits_then_operators_then_the_closing_bracket() -> None:
    assert [SYMBOLS[i] for i in (0, 1, 10, 11, 12, 13, 14, 15)] == [
        "<pad>",
        *"09",
        "[MIN",
        "[MAX",
        "[MED",
        "[SM",
        "]",
    ]
    assert len(SYMBOLS) == 16
    assert CLOSE == 15
    assert "<pad>" not in IDS


def test_round_brackets_are_dropped_and_text_comes_back() -> None:
    ids = read_tree("( ( ( [SM 9 ) 0 ) ] )")
    assert ids == [14, 10, 1, 15]
    assert written(ids) == "[SM 9 0 ]"
    assert read_tree(written(ids)) == ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[MED 1 2 ]", 1),  # 1.5, cut
        ("[MED 9 1 2 8 ]", 5),
        ("[MED 7 0 3 ]", 3),
        ("[SM 9 9 9 ]", 7),
        ("[MIN 4 2 [MAX 1 0 ] ]", 1),
    ],
)
def test_values_by_hand(text: str, expected: int) -> None:
    assert value(text) == expected


def test_a_part_of_some_trees() -> None:
    rows = [read_tree(text) for text in ("[MAX 3 4 ]", "7", "[SM 9 2 ]", "1")]
    flat = [i for row in rows for i in row]
    part = Trees(*map(np.array, (flat, offsets_of([len(row) for row in rows]), [4, 7, 1, 1]))).part(1, 3)
    assert part.tokens.tolist() == rows[1] + rows[2]
    assert part.offsets.tolist() == [0, 1, 5]
    assert part.values.tolist() == [7, 1]
