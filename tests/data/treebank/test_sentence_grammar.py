"""The generated treebank: the same everywhere, its splits apart, its trees decided by the words."""

import hashlib
from collections.abc import Iterator

import pytest

from repro.data.core.draws import split_of_text
from repro.data.sets.treebank import sentence_grammar
from repro.data.sets.treebank.parse_trees import Phrase, Word, symbols_of, words_of, written
from repro.data.sets.treebank.sentence_grammar import KINDS, generate, text_of

MANY = 1500


@pytest.fixture(scope="module")
def trees() -> list[Phrase]:
    return list(generate("train", MANY))


def test_it_is_the_same_on_any_machine(trees: list[Phrase]) -> None:
    """Sentences of records must not change: a new grammar has a new number."""
    digest = hashlib.sha256("\n".join(written(tree) for tree in trees[:200]).encode()).hexdigest()
    assert (sentence_grammar.GENERATOR_VERSION, digest[:16]) == (1, "12c27a06877bc001")
    assert next(generate("train", 1, seed=1)) != trees[0]


def test_train_never_meets_what_is_held_out(trees: list[Phrase]) -> None:
    texts = {split: [text_of(tree) for tree in generate(split, 150)] for split in ("val", "test")}
    texts["train"] = [text_of(tree) for tree in trees]
    for split, result in texts.items():
        assert {split_of_text(text) for text in result} == {split}
        assert split == "train" or len(set(result)) == len(result)
    assert len(set(texts["train"])) < MANY, "short sentences repeat"


def test_a_sentence_has_one_tree(trees: list[Phrase]) -> None:
    known: dict[str, str] = {}
    for tree in trees:
        assert known.setdefault(text_of(tree), written(tree)) == written(tree)


def phrases(
    tree: Phrase, parents: tuple[Phrase, ...] = ()
) -> Iterator[tuple[Phrase, tuple[Phrase, ...], int]]:
    """Every phrase with those around it, outermost first, and its place among the children of the innermost."""
    for place, child in enumerate(tree.children):
        if isinstance(child, Phrase):
            yield child, (*parents, tree), place
            yield from phrases(child, (*parents, tree))


def test_words_decide_where_prepositional_phrases_belong(trees: list[Phrase]) -> None:
    """The rule of the module's docstring, from the words alone."""
    seen = {"NP": 0, "VP": 0}
    for tree in trees:
        words = words_of(tree)
        for phrase, parents, _ in phrases(tree):
            if phrase.label != "PP":
                continue
            noun = phrase.children[1]
            assert isinstance(noun, Phrase)
            preposition, head = (
                words_of(phrase)[0].text,
                next(w for w in words_of(noun) if w.tag == "NN").text,
            )
            # the last verb before this phrase, found by identity: a sentence may repeat its words
            begins = next(i for i, word in enumerate(words) if word is words_of(phrase)[0])
            verb = next((word.text for word in reversed(words[:begins]) if word.tag == "VBD"), "")
            belongs = any(
                verb in verbs and preposition == p and head in own for verbs, p, own in KINDS.values()
            )
            assert parents[-1].label == ("VP" if belongs else "NP")
            seen[parents[-1].label] += 1
            if not belongs:  # to the nearest noun
                before = parents[-1].children[0]
                assert isinstance(before, Phrase)
                assert words[begins - 1] is words_of(before)[-1]
                assert all(isinstance(child, Word) for child in before.children)
    assert min(seen.values()) > 100


def test_there_are_clauses_in_clauses_and_every_kind_of_phrase(trees: list[Phrase]) -> None:
    labels = {symbol for tree in trees for symbol in symbols_of(tree) if symbol.startswith("(")}
    assert labels == {"(S", "(NP", "(VP", "(PP", "(SBAR", "(WHNP", "(ADVP", "(PRT", "(ADJP"}
    deepest = max(sum(p.label == "S" for p in parents) for tree in trees for _, parents, _ in phrases(tree))
    assert deepest == 3
    assert max(len(words_of(tree)) for tree in trees) == sentence_grammar.LONGEST
    tags = {word.tag for tree in trees for word in words_of(tree)}
    assert {",", ".", "CC", "PRP"} <= tags
