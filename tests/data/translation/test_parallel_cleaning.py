"""The training pairs that are kept, and the counts of the others."""

from typing import Any

import pytest

from repro.data.sets.translation.cleaning import Cleaning, clean, new_counts, summary

RULES = Cleaning(max_words=10, ratio=1.5)
Pair = tuple[str, ...]


def cleaned(pairs: list[Pair], rules: Cleaning) -> tuple[list[Pair], dict[str, Any]]:
    """The kept pairs and the counts."""
    counts = new_counts(rules)
    return list(clean(pairs, rules, counts)), counts


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("a b", "c d"), ""),
        (("", "c"), "empty"),
        (("a", ""), "empty"),
        (("w " * 10, "w " * 10), ""),
        (("w " * 11, "w " * 11), "long"),
        (("w " * 9, "w " * 11), "long"),
        (("w " * 3, "w " * 2), ""),  # exactly the ratio
        (("w " * 4, "w " * 2), "ratio"),
        (("w " * 2, "w " * 4), "ratio"),
    ],
)
def test_each_rule(pair: tuple[str, str], reason: str) -> None:
    kept, counts = cleaned([pair], RULES)
    assert RULES.objection(pair) == reason
    assert len(kept) == (not reason)
    assert counts["dropped"] == {name: int(name == reason) for name in ("empty", "long", "ratio")}


def test_without_rules_only_empty_pairs_go() -> None:
    kept, counts = cleaned([("w " * 999, "w"), ("x", "\u00a0\t")], Cleaning())
    assert kept == [(" ".join(["w"] * 999), "w")]
    assert counts["dropped"] == {"empty": 1, "long": 0, "ratio": 0}


def test_blanks_inside_lines_are_squeezed_and_nothing_else_changes() -> None:
    decomposed = "u\u0308ber"  # no recipe composes characters
    pairs: list[Pair] = [
        ("a\u2028b\u00a0c\r", "\x0bd\x85e\x0c f"),
        ("same", decomposed),
        ("Punkt , Komma", "\u202fx\u2009y  z "),
    ]
    kept, counts = cleaned(pairs, Cleaning())
    assert kept == [
        ("a b c", "d e f"),
        ("same", decomposed),
        ("Punkt , Komma", "x y z"),
    ]
    assert counts["squeezed"] == 2


def test_case_is_lowered_only_where_the_rules_say_so() -> None:
    assert cleaned([("Gr\u00dcN A", "B")], Cleaning(lower=True))[0] == [("gr\u00fcn a", "b")]
    assert cleaned([("Gr\u00dcN A", "B")], Cleaning())[0] == [("Gr\u00dcN A", "B")]


def test_punctuation_marks_count_as_words() -> None:
    pair = "Wait, it's 3.5 \u2013 no!", "w"
    assert [Cleaning(max_words=n).objection(pair) for n in (10, 11)] == ["long", ""]


def test_what_is_told_adds_up() -> None:
    kept, messages = cleaned([("a", "b"), ("", "x"), ("w " * 50, "w"), ("w w w", "w")] * 300, RULES)
    assert messages["kept"] == len(kept) == 300
    assert messages["read"] == messages["kept"] + sum(messages["dropped"].values()) == 1200
    assert messages["rules"] == {"max_words": 10, "ratio": 1.5, "lower_case": False}
    assert summary(messages) == ("kept 300 of 1,200 training pairs (dropped: 300 empty, 300 long, 300 ratio)")
