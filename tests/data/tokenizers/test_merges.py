"""Subwords as ``subword-nmt`` writes them."""

from itertools import pairwise
from pathlib import Path

import pytest

from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.merges import MergedWords, joined, read_merges
from repro.data.tokenizers.tokenizer import SPECIALS, UNK_ID
from repro.errors import UserError

MERGES = [("l", "o"), ("lo", "w</w>"), ("e", "r</w>"), ("n", "e")]
LINES = ["low low lo@@ er", "ne@@ w low ne@@ w er"]


def vocabulary() -> MergedWords:
    return MergedWords.from_text(LINES, MERGES)


def by_hand(word: str) -> list[str]:
    """The subwords of a word: the earliest merge that fits is made everywhere, and again."""
    parts = [*word[:-1], f"{word[-1]}</w>"]
    while True:
        pairs = [MERGES.index(pair) for pair in pairwise(parts) if pair in MERGES]
        if not pairs:
            return [part.removesuffix("</w>") if part.endswith("</w>") else f"{part}@@" for part in parts]
        first, second = MERGES[min(pairs)]
        at, merged = 0, []
        while at < len(parts):
            fits = parts[at : at + 2] == [first, second]
            merged.append(first + second if fits else parts[at])
            at += 1 + fits
        parts = merged


def given_ids(made: MergedWords, line: str) -> list[int]:
    """Ids of a line that has been cut."""
    ids = {subword: SPECIALS + n for n, subword in enumerate(made.subwords)}
    return [ids.get(subword, UNK_ID) for subword in line.split()]


@pytest.mark.parametrize("word", ["low", "lower", "new", "newer", "ne", "l", "lolow", "w"])
def test_merges_are_made_in_their_order(word: str) -> None:
    subwords = by_hand(word)
    made = vocabulary()
    assert made.encode(word) == given_ids(made, " ".join(subwords))


def test_ids_go_by_frequency_and_then_by_code_points() -> None:
    made = vocabulary()
    assert made.subwords == ["low", "er", "ne@@", "w", "lo@@"]
    assert made.size == 16  # 4 specials and 5 subwords, filled up to a multiple of 8
    assert made.encode("low") == [4]


def test_given_subwords_are_those_of_their_words() -> None:
    made = vocabulary()
    for line in LINES:
        assert made.encode(joined(line)) == given_ids(made, line)
        assert made.decode(given_ids(made, line)) == joined(line)


def test_what_training_lacks_is_unknown() -> None:
    made = vocabulary()
    assert made.encode("l") == made.encode("x") == [UNK_ID]
    assert made.encode("x low") == [UNK_ID, 4]
    assert made.decode([0, 1, 4, 2, 3, 15]) == "low"  # specials and rows that no text uses are dropped


def test_a_joiner_at_the_end_is_dropped() -> None:
    assert joined("lo@@ er ne@@") == "loer ne"


def test_a_file_is_read_again(tmp_path: Path) -> None:
    made = vocabulary()
    made.save(tmp_path / "tokenizer.json")
    again = load_tokenizer(tmp_path / "tokenizer.json")
    assert isinstance(again, MergedWords)
    assert (again.size, again.sha256, again.encode("newer")) == (made.size, made.sha256, made.encode("newer"))


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"kind": "merged-words", "subwords": ["a", "a"], "merges": []}',
        b'{"kind": "merged-words", "subwords": ["a"], "merges": ["abc"]}',
    ],
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"merged.words"):
        MergedWords(content)


def test_a_file_of_merges() -> None:
    assert read_merges("#version: 0.2\na b\n\nab c</w>\n") == [("a", "b"), ("ab", "c</w>")]
    with pytest.raises(UserError, match="not a file of merges"):
        read_merges("#version: 0.2\na b c\n")
