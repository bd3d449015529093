"""Generated English-like sentences with their trees, whose ambiguities the words decide.

A prepositional phrase behind a verb's object belongs to the verb where it tells the verb's tool or target (``saw the
man with the telescope``, ``put the ball on the table``), else to the nearest noun (``saw the man with the spoon``). The
last verb before it decides, so clauses inside clauses matter; and a sentence has one tree only.

A sentence is a pure function of (seed, split, index) by a counter-based hash, identical on any machine and Python.
Which split it may appear in is decided by a hash of its words: train never meets val or test.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from repro.data.core.draws import HashedDraws, first_of, split_of_text
from repro.data.sets.treebank.parse_trees import TOP, Phrase, Word, words_of

GENERATOR_VERSION = 1
SIZES = {"train": 20_000, "val": 100, "test": 200}
LONGEST = 12  # words
_DEPTH = 2  # clauses inside clauses

PEOPLE = ("man", "woman", "boy", "girl", "doctor", "teacher")
PLACES = ("park", "garden", "kitchen", "house")
SURFACES = ("table", "chair", "floor")
THINGS = ("ball", "book", "box", "picture")
# Verbs with an object: their forms, and the preposition and the nouns that belong to them.
KINDS: dict[str, tuple[tuple[str, ...], str, tuple[str, ...]]] = {
    "see": (("saw", "watched"), "with", ("telescope", "camera")),
    "eat": (("ate", "tasted"), "with", ("spoon", "fork")),
    "open": (("opened", "broke"), "with", ("key", "hammer")),
    "put": (("put", "left"), "on", SURFACES),
    "like": (("liked", "knew"), "", ()),
}
TOOLS = tuple(noun for _, preposition, nouns in KINDS.values() if preposition == "with" for noun in nouns)
ADJECTIVES = ("big", "small", "happy", "red")
ADVERBS = ("slowly", "often", "quietly")
MOVES = (("went", "away", "RB", "ADVP"), ("gave", "up", "RP", "PRT"), ("came", "back", "RB", "ADVP"))
SPEECH = ("said", "thought")
PRONOUNS = ("he", "she", "they")


def _base(draw: HashedDraws, noun: str) -> Phrase:
    """An article, perhaps an adjective, and a noun."""
    middle = (Word("JJ", draw.one_of(ADJECTIVES)),) if draw.chance(25) else ()
    return Phrase("NP", (Word("DT", draw.one_of(("the", "a"))), *middle, Word("NN", noun)))


def _noun_phrase(draw: HashedDraws, kind: str, depth: int) -> Phrase:
    """A noun and what belongs to it.

    Args:
        draw: of the sentence.
        kind: of the last verb before it, or empty: nothing that would belong to that verb may belong to the noun.
        depth: clauses that may still be nested.
    """
    noun = draw.one_of(PEOPLE + THINGS)
    base, chosen = _base(draw, noun), draw.below(100)
    if chosen < 25:
        return Phrase("NP", (base, _of_noun(draw, kind, depth)))
    if chosen < 40 and depth and noun in PEOPLE:
        clause = Phrase("S", (_verb_phrase(draw, depth - 1),))
        return Phrase("NP", (base, Phrase("SBAR", (Phrase("WHNP", (Word("WP", "who"),)), clause))))
    return base


def _of_noun(draw: HashedDraws, kind: str, depth: int) -> Phrase:
    """A prepositional phrase that does not belong to the last verb; a noun in it may have one, too."""
    choices = [("in", PLACES), ("on", SURFACES), ("with", TOOLS), ("with", THINGS)]
    _, own_preposition, own = KINDS.get(kind, ((), "", ()))
    free = [(p, tuple(n for n in nouns if p != own_preposition or n not in own)) for p, nouns in choices]
    preposition, nouns = [choice for choice in free if choice[1]][draw.below(sum(bool(n) for _, n in free))]
    inner = _base(draw, draw.one_of(nouns))
    if draw.chance(20):
        inner = Phrase("NP", (inner, _of_noun(draw, kind, depth)))
    return Phrase("PP", (Word("IN", preposition), inner))


def _verb_phrase(draw: HashedDraws, depth: int) -> Phrase:
    """A verb, its object or clause, and what belongs to it."""
    chosen = draw.below(100)
    if chosen < 60:
        return _with_object(draw, depth)
    if chosen < 75 and depth:
        clause = Phrase("SBAR", (Word("IN", "that"), _clause(draw, depth - 1)))
        return Phrase("VP", (Word("VBD", draw.one_of(SPEECH)), clause))
    if chosen < 87:
        verb, away, tag, label = MOVES[draw.below(len(MOVES))]
        return Phrase("VP", (Word("VBD", verb), Phrase(label, (Word(tag, away),))))
    quality = Phrase("ADJP", (Word("JJ", draw.one_of(ADJECTIVES)),))
    return Phrase("VP", (Word("VBD", "was"), quality))


def _with_object(draw: HashedDraws, depth: int) -> Phrase:
    kind = tuple(KINDS)[draw.below(len(KINDS))]
    verbs, preposition, nouns = KINDS[kind]
    children: list[Phrase | Word] = [Word("VBD", draw.one_of(verbs)), _noun_phrase(draw, kind, depth)]
    # after a clause, the verb would no longer be the last one
    has_clause = any(word.tag == "WP" for word in words_of(Phrase("VP", tuple(children))))
    if preposition and draw.chance(50) and not has_clause:
        children.append(Phrase("PP", (Word("IN", preposition), _base(draw, draw.one_of(nouns)))))
    return Phrase("VP", tuple(children))


def _clause(draw: HashedDraws, depth: int) -> Phrase:
    """A subject and its predicate."""
    chosen = draw.below(100)
    if chosen < 20:
        subject = Phrase("NP", (Word("PRP", draw.one_of(PRONOUNS)),))
    elif chosen < 30:
        pair = [_base(draw, draw.one_of(PEOPLE)) for _ in range(2)]
        subject = Phrase("NP", (pair[0], Word("CC", "and"), pair[1]))
    else:
        subject = _noun_phrase(draw, "", depth)
    return Phrase("S", (subject, _verb_phrase(draw, depth)))


def _sentence(draw: HashedDraws) -> Phrase:
    clause = _clause(draw, _DEPTH)
    first: tuple[Phrase | Word, ...] = ()
    if draw.chance(15):
        first = (Phrase("ADVP", (Word("RB", draw.one_of(ADVERBS)),)), Word(",", ","))
    return Phrase(TOP, (Phrase("S", (*first, *clause.children, Word(".", "."))),))


def text_of(tree: Phrase) -> str:
    """The words of a tree."""
    return " ".join(word.text for word in words_of(tree))


def generate(split: str, size: int, seed: int = 0) -> Iterator[Phrase]:
    """The first ``size`` trees of a split. Train keeps repeats, as any text does; val and test have none."""

    def drawn(index: int, attempt: int) -> Phrase:
        label = f"grammar-trees/{GENERATOR_VERSION}/{seed}/{split}/{index}/{attempt}"
        # a sentence uses a small part of the draws
        return _sentence(HashedDraws(hashlib.shake_256(label.encode()).digest(256)))

    def good(tree: Phrase) -> bool:
        return len(words_of(tree)) <= LONGEST and split_of_text(text_of(tree)) == split

    return islice(first_of(drawn, good, None if split == "train" else text_of), size)


def splits(train_size: int | None) -> dict[str, Callable[[], Iterator[Phrase]]]:
    """The trees of each split; None is the default size of training."""
    sizes = SIZES | {"train": train_size or SIZES["train"]}
    return {split: partial(generate, split, size) for split, size in sizes.items()}
