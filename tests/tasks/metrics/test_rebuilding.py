"""Rows of symbols back to brackets: what is well-formed comes back as it is, all else in one way only."""

import random

import pytest

from repro.tasks.metrics.rebuilding import rebuild
from repro.trees import pieces_of


def spelled(row: str, n_words: int) -> tuple[str, int]:
    brackets, repairs = rebuild(row.split(), n_words)
    return " ".join(f"{b.label}:{b.start}-{b.end}" for b in brackets), repairs


@pytest.mark.parametrize(
    ("row", "n_words", "expected"),
    [
        ("(S (NP XX XX )NP (VP XX )VP XX )S", 4, "S:0-4 NP:0-2 VP:2-3"),
        ("(S (NP (NP XX )NP )NP )S", 1, "S:0-1 NP:0-1 NP:0-1"),
        ("(S XX )S (X XX )X", 2, "S:0-1 X:1-2"),
        ("XX (S XX )S XX", 3, "S:1-2"),
        ("XX XX", 2, ""),
    ],
)
def test_what_is_well_formed_needs_no_repair(row: str, n_words: int, expected: str) -> None:
    assert spelled(row, n_words) == (expected, 0)


@pytest.mark.parametrize(
    ("row", "n_words", "expected", "repairs"),
    [
        # a closing bracket is missing inside: its phrase ends where the one around it does
        ("(S (NP XX (VP XX )VP )S", 2, "S:0-2 NP:0-2 VP:1-2", 1),
        ("(S (NP (QP XX )S XX", 2, "S:0-1 NP:0-1 QP:0-1", 2),
        # at the end
        ("(S (NP XX )NP (VP XX", 2, "S:0-2 NP:0-1 VP:1-2", 2),
        # a closing bracket too much, or of another label
        ("(S XX )S )S", 1, "S:0-1", 1),
        ("(S (NP XX )VP )NP )S", 1, "S:0-1 NP:0-1", 1),
        # a word too much
        ("(S XX XX )S", 1, "S:0-1", 1),
        ("(S XX (NP XX )NP )S", 1, "S:0-1", 2),
        # words left over: in what is open, in the last outermost phrase, or outside
        ("(S (NP XX", 3, "S:0-3 NP:0-3", 3),
        ("(S (NP XX )NP )S", 3, "S:0-3 NP:0-1", 1),
        ("(S XX )S (X (Y XX )Y )X", 4, "S:0-1 X:1-4 Y:1-2", 1),
        ("(S XX )S XX", 4, "S:0-1", 1),
        ("", 2, "", 1),
        # phrases without words
        ("(S (NP )NP XX )S", 1, "S:0-1", 1),
        ("(NP )NP", 1, "", 2),
        # what is no symbol
        ("(S the XX )S ( ) (A(B XX xx", 2, "S:0-1", 5),
    ],
)
def test_what_is_not_is_repaired_in_one_way(row: str, n_words: int, expected: str, repairs: int) -> None:
    assert spelled(row, n_words) == (expected, repairs)


def test_whatever_comes_in_brackets_nest_and_hold_words() -> None:
    chance = random.Random(7)
    symbols = ["(S", ")S", "(NP", ")NP", "(VP", ")VP", "XX", "XX", "dog", "("]
    repaired = 0
    for _ in range(500):
        n = chance.randint(1, 6)
        row = [chance.choice(symbols) for _ in range(chance.randrange(15))]
        brackets, repairs = rebuild(row, n)
        repaired += repairs > 0
        assert all(0 <= b.start < b.end <= n for b in brackets)
        for i, outer in enumerate(brackets):
            for inner in brackets[i + 1 :]:
                nested = outer.start <= inner.start and inner.end <= outer.end
                assert nested or outer.end <= inner.start
        # symbols of the result are well-formed, and say the same
        again = rebuild(pieces_of(brackets, ["XX"] * n), n)
        assert again == (brackets, 0)
    assert repaired > 300
