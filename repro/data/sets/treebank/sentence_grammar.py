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
from repro.trees import TOP, Parse, read_parses

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


def _bracket(label: str, *inside: str) -> str:
    """A phrase of brackets, or a word under its part of speech."""
    return f"({label} {' '.join(inside)})"


def _base(draw: HashedDraws, noun: str) -> str:
    """An article, perhaps an adjective, and a noun."""
    middle = [_bracket("JJ", draw.one_of(ADJECTIVES))] if draw.chance(25) else []
    return _bracket("NP", _bracket("DT", draw.one_of(("the", "a"))), *middle, _bracket("NN", noun))


def _noun_phrase(draw: HashedDraws, kind: str, depth: int) -> str:
    """A noun and what belongs to it.

    Args:
        draw: of the sentence.
        kind: of the last verb before it, or empty: nothing that would belong to that verb may belong to the noun.
        depth: clauses that may still be nested.
    """
    noun = draw.one_of(PEOPLE + THINGS)
    base, chosen = _base(draw, noun), draw.below(100)
    if chosen < 25:
        return _bracket("NP", base, _of_noun(draw, kind, depth))
    if chosen < 40 and depth and noun in PEOPLE:
        clause = _bracket("S", _verb_phrase(draw, depth - 1))
        who = _bracket("WHNP", _bracket("WP", "who"))
        return _bracket("NP", base, _bracket("SBAR", who, clause))
    return base


def _of_noun(draw: HashedDraws, kind: str, depth: int) -> str:
    """A prepositional phrase that does not belong to the last verb; a noun in it may have one, too."""
    choices = [("in", PLACES), ("on", SURFACES), ("with", TOOLS), ("with", THINGS)]
    _, own_preposition, own = KINDS.get(kind, ((), "", ()))
    free = [(p, tuple(n for n in nouns if p != own_preposition or n not in own)) for p, nouns in choices]
    preposition, nouns = [choice for choice in free if choice[1]][draw.below(sum(bool(n) for _, n in free))]
    inner = _base(draw, draw.one_of(nouns))
    if draw.chance(20):
        inner = _bracket("NP", inner, _of_noun(draw, kind, depth))
    return _bracket("PP", _bracket("IN", preposition), inner)


def _verb_phrase(draw: HashedDraws, depth: int) -> str:
    """A verb, its object or clause, and what belongs to it."""
    chosen = draw.below(100)
    if chosen < 60:
        return _with_object(draw, depth)
    if chosen < 75 and depth:
        clause = _bracket("SBAR", _bracket("IN", "that"), _bracket("S", *_clause(draw, depth - 1)))
        return _bracket("VP", _bracket("VBD", draw.one_of(SPEECH)), clause)
    if chosen < 87:
        verb, away, tag, label = MOVES[draw.below(len(MOVES))]
        return _bracket("VP", _bracket("VBD", verb), _bracket(label, _bracket(tag, away)))
    quality = _bracket("ADJP", _bracket("JJ", draw.one_of(ADJECTIVES)))
    return _bracket("VP", _bracket("VBD", "was"), quality)


def _with_object(draw: HashedDraws, depth: int) -> str:
    kind = tuple(KINDS)[draw.below(len(KINDS))]
    verbs, preposition, nouns = KINDS[kind]
    verb, thing = _bracket("VBD", draw.one_of(verbs)), _noun_phrase(draw, kind, depth)
    has_clause = "(WP " in thing  # after it, the verb would no longer be the last one
    if preposition and draw.chance(50) and not has_clause:
        own = _bracket("PP", _bracket("IN", preposition), _base(draw, draw.one_of(nouns)))
        return _bracket("VP", verb, thing, own)
    return _bracket("VP", verb, thing)


def _clause(draw: HashedDraws, depth: int) -> tuple[str, str]:
    """A subject and its predicate."""
    chosen = draw.below(100)
    if chosen < 20:
        subject = _bracket("NP", _bracket("PRP", draw.one_of(PRONOUNS)))
    elif chosen < 30:
        first, second = (_base(draw, draw.one_of(PEOPLE)) for _ in range(2))
        subject = _bracket("NP", first, _bracket("CC", "and"), second)
    else:
        subject = _noun_phrase(draw, "", depth)
    return subject, _verb_phrase(draw, depth)


def _sentence(draw: HashedDraws) -> str:
    clause = _clause(draw, _DEPTH)
    first: list[str] = []
    if draw.chance(15):
        first = [_bracket("ADVP", _bracket("RB", draw.one_of(ADVERBS))), _bracket(",", ",")]
    return _bracket(TOP, _bracket("S", *first, *clause, _bracket(".", ".")))


def text_of(tree: Parse) -> str:
    """The words of a tree."""
    return " ".join(tree.words)


def generate(split: str, size: int, seed: int = 0) -> Iterator[Parse]:
    """The first ``size`` trees of a split. Train keeps repeats, as any text does; val and test have none."""

    def drawn(index: int, attempt: int) -> Parse:
        label = f"grammar-trees/{GENERATOR_VERSION}/{seed}/{split}/{index}/{attempt}"
        # a sentence uses a small part of the draws
        text = _sentence(HashedDraws(hashlib.shake_256(label.encode()).digest(256)))
        return next(read_parses([text], label))

    def good(tree: Parse) -> bool:
        return len(tree.words) <= LONGEST and split_of_text(text_of(tree)) == split

    return islice(first_of(drawn, good, None if split == "train" else text_of), size)


def splits(train_size: int | None) -> dict[str, Callable[[], Iterator[Parse]]]:
    """The trees of each split; None is the default size of training."""
    sizes = SIZES | {"train": train_size or SIZES["train"]}
    return {split: partial(generate, split, size) for split, size in sizes.items()}
