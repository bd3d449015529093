"""Reading, stripping and linearising trees, and every refusal."""

import re

import pytest

from repro.data.sets.treebank.parse_trees import (
    Phrase,
    Word,
    base_label,
    below_top,
    read_trees,
    stripped,
    symbols_of,
    words_of,
    written,
)
from repro.errors import UserError
from tests.data.treebank_folder import BRACKETS, ONLY_TRACES, SHORT, STRIPPED, TREE


def read(text: str) -> list[Phrase]:
    return list(read_trees(text.split("\n"), "wsj_0001.mrg"))


def tree_of(text: str) -> Phrase:
    (tree,) = read(text)
    return below_top(tree)


def test_a_tree_over_lines_is_read_as_it_is() -> None:
    tree, _ = read(f"\n{TREE}\n\n{SHORT}")
    assert tree.label == ""
    (sentence,) = tree.children
    assert isinstance(sentence, Phrase)
    assert sentence.label == "S"
    assert sentence.children[0] == Phrase("NP-SBJ-1", (Word("DT", "The"), Word("NN", "{noun}")))
    assert Word("-NONE-", "*-1") in words_of(tree)


def test_traces_and_functions_go() -> None:
    tree = stripped(tree_of(TREE))
    assert tree is not None
    assert written(tree) == STRIPPED
    assert " ".join(symbols_of(tree)) == BRACKETS
    assert " ".join(word.text for word in words_of(tree)) == "The {noun} was seen again in the park ."


def test_a_sentence_of_traces_only_is_none() -> None:
    assert stripped(tree_of(ONLY_TRACES)) is None


def test_brackets_of_the_text_stay_as_the_treebank_spells_them() -> None:
    tree = stripped(tree_of(SHORT))
    assert tree is not None
    assert [word.text for word in words_of(tree)] == ["Dinner", "--", "-LRB-", "{noun}", "-RRB-"]
    assert words_of(tree)[2].tag == "-LRB-"


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
    assert tree_of(written(tree)) == tree


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
        ("( (S (NN dog)) ))", "line 1: a ) too many is outside of any tree"),
        ("( (S (NN dog)) )\n\nthe end", "line 3: 'the' is outside of any tree"),
        ("( (S\n (NN dog) (NP )))", "line 2: (NP ...) has nothing in it"),
        ("()", "line 1: ( ...) has nothing in it"),
        ("( (S (NN dog) cat))", "line 1: (S ...) the text 'cat' needs a bracket"),
        ("( (S (NN dog\n cat)))", "line 2: (NN ...) the text 'dog' needs a bracket"),
        ("( (S (NN dog (NN cat))))", "line 1: (NN ...) the text 'dog' needs a bracket"),
        ("( ((NN dog)) )", "line 1: ( ...) has nothing in it, or a phrase without label"),
        ("(NN dog)", "line 1: (NN dog) is a word, not a tree"),
    ],
)
def test_what_is_no_tree_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"wsj_0001.mrg, {message}")) as caught:
        read(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("root", ["", "TOP", "ROOT", "S1"])
def test_a_root_has_one_of_these_labels(root: str) -> None:
    assert tree_of(f"({root} (S (NN dog)))") == Phrase("TOP", (Phrase("S", (Word("NN", "dog"),)),))


def test_a_tree_without_a_root_gets_one() -> None:
    assert tree_of("(S (NN dog))") == tree_of("( (S (NN dog)))")
