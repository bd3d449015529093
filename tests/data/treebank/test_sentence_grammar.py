"""The generated treebank: the same everywhere, its splits apart, its trees decided by the words."""

import hashlib

import pytest

from repro.data.core.draws import split_of_text
from repro.data.sets.treebank import sentence_grammar
from repro.data.sets.treebank.sentence_grammar import KINDS, generate, text_of
from repro.trees import Bracket, Parse, symbols_of, write_parse

MANY = 1500


@pytest.fixture(scope="module")
def trees() -> list[Parse]:
    return list(generate("train", MANY))


def test_it_is_the_same_on_any_machine(trees: list[Parse]) -> None:
    """Sentences of records must not change: a new grammar has a new number."""
    digest = hashlib.sha256("\n".join(write_parse(tree) for tree in trees[:200]).encode()).hexdigest()
    assert (sentence_grammar.GENERATOR_VERSION, digest[:16]) == (1, "12c27a06877bc001")
    assert next(generate("train", 1, seed=1)) != trees[0]


def test_train_never_meets_what_is_held_out(trees: list[Parse]) -> None:
    texts = {split: [text_of(tree) for tree in generate(split, 150)] for split in ("val", "test")}
    texts["train"] = [text_of(tree) for tree in trees]
    for split, result in texts.items():
        assert {split_of_text(text) for text in result} == {split}
        assert split == "train" or len(set(result)) == len(result)
    assert len(set(texts["train"])) < MANY, "short sentences repeat"


def test_a_sentence_has_one_tree(trees: list[Parse]) -> None:
    known: dict[str, str] = {}
    for tree in trees:
        assert known.setdefault(text_of(tree), write_parse(tree)) == write_parse(tree)


def around(tree: Parse, phrase: int) -> list[Bracket]:
    """The phrases around a phrase, outermost first."""
    _, start, end = tree.brackets[phrase]
    return [bracket for bracket in tree.brackets[:phrase] if bracket.start <= start and end <= bracket.end]


def test_words_decide_where_prepositional_phrases_belong(trees: list[Parse]) -> None:
    """The rule of the module's docstring, from the words alone."""
    seen = {"NP": 0, "VP": 0}
    for tree in trees:
        for number, phrase in enumerate(tree.brackets):
            if phrase.label != "PP":
                continue
            begin = phrase.start
            preposition = tree.words[begin]
            head = next(i for i in range(begin, phrase.end) if tree.tags[i] == "NN")
            verb = next((tree.words[i] for i in range(begin, -1, -1) if tree.tags[i] == "VBD"), "")
            belongs = any(
                verb in verbs and preposition == p and tree.words[head] in own
                for verbs, p, own in KINDS.values()
            )
            parent = around(tree, number)[-1]
            assert parent.label == ("VP" if belongs else "NP")
            seen[parent.label] += 1
            if not belongs:  # to the nearest noun
                inside = [b for b in tree.brackets if parent.start <= b.start and b.end <= begin]
                assert inside == [Bracket("NP", parent.start, begin)], "a noun with nothing but words"
    assert min(seen.values()) > 100


def test_there_are_clauses_in_clauses_and_every_kind_of_phrase(trees: list[Parse]) -> None:
    labels = {symbol for tree in trees for symbol in symbols_of(tree) if symbol.startswith("(")}
    assert labels == {"(S", "(NP", "(VP", "(PP", "(SBAR", "(WHNP", "(ADVP", "(PRT", "(ADJP"}
    deepest = max(
        sum(outer.label == "S" for outer in around(tree, number))
        for tree in trees
        for number in range(len(tree.brackets))
    )
    assert deepest == 3
    assert max(len(tree.words) for tree in trees) == sentence_grammar.LONGEST
    tags = {tag for tree in trees for tag in tree.tags}
    assert {",", ".", "CC", "PRP"} <= tags
