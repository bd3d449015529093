"""Reading, stripping and linearising trees, and every refusal."""

import random
import re

import pytest

from repro.errors import UserError
from repro.trees import Bracket, Parse, base_label, read_parses, stripped, symbols_of, write_parse
from tests.data.treebank_folder import BRACKETS, ONLY_TRACES, SHORT, STRIPPED, TREE


def read(text: str) -> list[Parse]:
    return list(read_parses(text.split("\n"), "wsj_0001.mrg"))


def tree_of(text: str) -> Parse:
    (tree,) = read(text)
    return tree


def test_a_tree_over_lines_is_read_as_it_is() -> None:
    tree, _ = read(f"\n{TREE}\n\n{SHORT}")
    assert tree.brackets[:3] == (Bracket("", 0, 10), Bracket("S", 0, 10), Bracket("NP-SBJ-1", 0, 2))
    assert tree.words == ("The", "{noun}", "was", "seen", "*-1", "again", "in", "the", "park", ".")
    assert tree.tags[:2] == ("DT", "NN")
    assert tree.tags[4] == "-NONE-"


def test_traces_and_functions_go() -> None:
    tree = stripped(tree_of(TREE))
    assert tree is not None
    assert write_parse(tree) == STRIPPED
    assert " ".join(symbols_of(tree)) == BRACKETS
    assert " ".join(tree.words) == "The {noun} was seen again in the park ."


def test_a_sentence_of_traces_only_is_none() -> None:
    assert stripped(tree_of(ONLY_TRACES)) is None


def test_brackets_of_the_text_stay_as_the_treebank_spells_them() -> None:
    tree = stripped(tree_of(SHORT))
    assert tree is not None
    assert tree.words == ("Dinner", "--", "-LRB-", "{noun}", "-RRB-")
    assert tree.tags[2] == "-LRB-"


@pytest.mark.parametrize(
    ("label", "base"),
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-LGS=3", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("-X-Y", "-X"),
        ("", ""),
    ],
)
def test_a_label_is_cut_to_its_kind(label: str, base: str) -> None:
    assert base_label(label) == base


def test_phrases_of_one_label_above_each_other_stay() -> None:
    tree = stripped(tree_of("( (NP (NP (NN dog)) (SBAR (-NONE- 0))) )"))
    assert tree is not None
    assert symbols_of(tree) == ["(NP", "(NP", "XX", ")NP", ")NP"]


def test_several_phrases_below_a_root() -> None:
    assert symbols_of(tree_of("(TOP (S (NN a)) (. .))")) == ["(S", "XX", ")S", "XX"]


def test_what_is_written_is_read_again() -> None:
    tree = stripped(tree_of(TREE))
    assert tree is not None
    assert tree_of(write_parse(tree)) == tree


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n( (S (NP (NN dog)) )", "line 2: the tree that begins here is never closed"),
        # the file goes on: the tree that lacks a bracket is named, not the last one
        (
            "( (S (NN a)) )\n( (S (NN b))\n( (S (NN c)) )\n",
            "line 2: the tree that begins here is never closed",
        ),
        # and a ) too many further on does not make up for it
        ("( (S (NN a))\n( (S (NN b)) ))\n", "line 1: the tree that begins here is never closed"),
        ("( (S (NN dog)) ))", "line 1: ')' is outside of any tree"),
        ("( (S (NN dog)) )\n\nthe end", "line 3: 'the' is outside of any tree"),
        ("( (S\n (NN dog) (NP )))", "line 2: (NP ...) has nothing in it"),
        ("()", "line 1: ( ...) has nothing in it"),
        ("( (S (NN dog) cat))", "line 1: (S ...) the text 'cat' needs a bracket"),
        ("( (S (NN dog\n cat)))", "line 1: (NN ...) the text 'dog' needs a bracket"),
        ("( (S (NN dog (NN cat))))", "line 1: (NN ...) the text 'dog' needs a bracket"),
        ("( ((NN dog)) )", "line 1: ( ...) has a phrase without label in it"),
        ("(NN dog)", "line 1: '(NN dog)' is outside of any tree"),
    ],
)
def test_what_is_no_tree_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"wsj_0001.mrg, {message}")) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("root", ["", "TOP", "ROOT", "S1"])
def test_a_root_has_one_of_these_labels(root: str) -> None:
    tree = Parse(("dog",), ("NN",), (Bracket("TOP", 0, 1), Bracket("S", 0, 1)))
    assert stripped(tree_of(f"({root} (S (NN dog)))")) == tree


def test_a_tree_without_a_root_gets_one() -> None:
    assert stripped(tree_of("(S (NN dog))")) == stripped(tree_of("( (S (NN dog)))"))


def random_parse(chance: random.Random, tags: list[str]) -> Parse:
    """Brackets that nest, some of them twice, over words with these tags; the first is around all."""
    words = tuple(f"w{i}" for i in range(len(tags)))
    spans: set[tuple[int, int]] = {(0, len(tags))}
    for _ in range(chance.randrange(8)):
        start, end = sorted(chance.sample(range(len(tags) + 1), 2))
        if all(
            end <= a or b <= start or (a <= start and end <= b) or (start <= a and b <= end) for a, b in spans
        ):
            spans.add((start, end))
    ordered = sorted(spans, key=lambda span: (span[0], -span[1]))
    labels = ["S", "NP", "NP-SBJ", "ADVP", "PRT", "TOP", "."]
    result = [
        Bracket(chance.choice(labels), *span) for span in ordered for _ in range(chance.choice((1, 1, 2)))
    ]
    return Parse(words, tuple(tags), tuple(result))


def test_random_trees_are_written_and_read_again() -> None:
    chance = random.Random(5)
    trees = [
        random_parse(chance, [chance.choice(["NN", ".", "-LRB-"]) for _ in range(n % 9 + 1)])
        for n in range(200)
    ]
    assert list(read_parses(map(write_parse, trees), "trees")) == trees
