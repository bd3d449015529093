"""Bracket scores against cases by hand, a naive second implementation, and the numbers of evalb itself."""

import json
import random
from pathlib import Path

import pytest

from repro.tasks.metrics import brackets
from repro.tasks.metrics.brackets import Agreement, compare, score
from repro.trees import Bracket, Parse, read_parses, write_parse
from tests.test_trees import random_parse

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "evalb.json"
STATUS = ("valid", "error", "skipped")
RIGHT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (ADVP (RB home))) (. .)))"


def read_parse(line: str) -> Parse:
    """The tree of a line; an empty line is a sentence that was not parsed."""
    return next(read_parses([line], "line"), Parse((), (), ()))


def agreement(test: str, gold: str = RIGHT) -> tuple[object, ...]:
    return tuple(compare(read_parse(gold), read_parse(test)))


@pytest.mark.parametrize(
    ("test", "matched", "result"),
    [
        (RIGHT, 4, 4),
        # one label is wrong
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (NP (RB home))) (. .)))", 3, 4),
        # a particle is an adverb
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (PRT (RB home))) (. .)))", 4, 4),
        # functions do not count
        ("(TOP (S (NP-SBJ (DT the) (NN dog)) (VP=2 (VBD ran) (ADVP-DIR (RB home))) (. .)))", 4, 4),
        # where punctuation hangs does not count, nor a phrase of nothing else
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (ADVP (RB home)) (X (. .)))))", 4, 4),
        # a bracket too much, one too few
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (ADVP (ADVP (RB home)))) (. .)))", 4, 5),
        ("(TOP (S (NP (DT the) (NN dog)) (VBD ran) (ADVP (RB home)) (. .)))", 3, 3),
        # a span is wrong
        ("(TOP (S (NP (DT the)) (NN dog) (VP (VBD ran) (ADVP (RB home))) (. .)))", 3, 4),
        # nothing was found in the sentence
        ("(TOP (DT the) (NN dog) (VBD ran) (RB home) (. .))", 0, 0),
    ],
)
def test_brackets_by_hand(test: str, matched: int, result: int) -> None:
    assert agreement(test) == ("valid", matched, 4, result)


def test_a_bracket_that_is_there_twice_must_be_found_twice() -> None:
    twice = "(TOP (NP (NP (NN dog))))"
    assert agreement("(TOP (NP (NN dog)))", twice) == ("valid", 1, 2, 1)
    assert agreement(twice, twice) == ("valid", 2, 2, 2)
    assert agreement(twice, "(TOP (NP (NN dog)))") == ("valid", 1, 1, 2)
    assert agreement("(TOP (ADVP (PRT (RB up))))", "(TOP (PRT (PRT (RB up))))") == ("valid", 2, 2, 2)


@pytest.mark.parametrize("tag", [",", ":", "``", "''", ".", "-NONE-"])
def test_these_marks_are_left_out(tag: str) -> None:
    marked = f"(TOP (NP (NN dog) ({tag} x)) (VP (VBD ran)))"
    assert agreement(f"(TOP (NP (NN dog)) ({tag} x) (VP (VBD ran)))", marked) == ("valid", 2, 2, 2)


@pytest.mark.parametrize("tag", ["$", "#", "-LRB-", "?", "POS"])
def test_these_are_words(tag: str) -> None:
    marked = f"(TOP (NP (NN dog) ({tag} x)) (VP (VBD ran)))"
    assert agreement(f"(TOP (NP (NN dog)) ({tag} x) (VP (VBD ran)))", marked) == ("valid", 1, 2, 2)


@pytest.mark.parametrize(
    ("test", "status"),
    [
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran))))", "error"),
        ("(TOP (S (NP (DT the) (NN cat)) (VP (VBD ran) (ADVP (RB home))) (. .)))", "error"),
        # its own tags decide what is punctuation
        ("(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (ADVP (RB home))) (NN .)))", "error"),
        ("", "skipped"),
        ("(TOP (. .))", "skipped"),
    ],
)
def test_sentences_that_cannot_be_compared_are_left_out_and_counted(test: str, status: str) -> None:
    assert agreement(test) == (status, 0, 0, 0)
    both = [compare(read_parse(RIGHT), read_parse(line)) for line in (RIGHT, test)]
    result = score(both)
    assert (result.f1, result.valid, result.errors, result.skipped) == (
        100.0,
        1,
        status == "error",
        status == "skipped",
    )


def test_scores_are_of_the_corpus_and_not_means_of_sentences() -> None:
    result = score([Agreement("valid", 1, 1, 1), Agreement("valid", 1, 7, 3), Agreement("error")])
    assert result.recall == 25.0
    assert result.precision == 50.0
    assert result.f1 == pytest.approx(100 / 3)
    assert result.complete_match == 50.0


def test_where_nothing_matches_f1_is_nothing() -> None:
    assert score([Agreement("valid", 0, 3, 2)])[:4] == (0.0, 0.0, 0.0, 0.0)
    assert score([]).f1 == 0.0
    # no bracket is wanted and none is found: complete, but nothing to be counted
    assert score([Agreement("valid", 0, 0, 0)])[:4] == (0.0, 0.0, 0.0, 100.0)


def test_a_line_is_read_and_written() -> None:
    parse = read_parse(RIGHT)
    assert parse.words == ("the", "dog", "ran", "home", ".")
    assert parse.tags == ("DT", "NN", "VBD", "RB", ".")
    named = [(b.label, b.start, b.end) for b in parse.brackets]
    assert named == [("TOP", 0, 5), ("S", 0, 5), ("NP", 0, 2), ("VP", 2, 4), ("ADVP", 3, 4)]
    assert write_parse(parse) == RIGHT
    assert read_parse("( (NP (NN dog ) ) )").brackets == (Bracket("", 0, 1), Bracket("NP", 0, 1))


# --- a second implementation --------------------------------------------------------------------------------------


def naive(gold: Parse, test: Parse) -> tuple[object, ...]:
    """Counts by the definition: every bracket of the one is sought among those of the other and crossed out."""
    sides = []
    for parse in (gold, test):
        number, kept, result = {}, [], []
        for place, (word, tag) in enumerate(zip(parse.words, parse.tags, strict=True)):
            if tag not in ("TOP", "-NONE-", ",", ":", "``", "''", "."):
                number[place] = len(kept)
                kept.append(word)
        for label, start, end in parse.brackets:
            inside = tuple(number[place] for place in range(start, end) if place in number)
            short = label.split("-")[0].split("=")[0]
            if inside and short not in ("TOP", ",", ":", "``", "''", "."):
                result.append(("ADVP" if short == "PRT" else short, inside))
        sides.append((kept, result))
    (words, expected), (others, result) = sides
    if not others:
        return ("skipped", 0, 0, 0)
    if words != others:
        return ("error", 0, 0, 0)
    left, matched = list(result), 0
    for bracket in expected:
        if bracket in left:
            left.remove(bracket)
            matched += 1
    return ("valid", matched, len(expected), len(result))


def test_it_is_what_a_naive_count_gives() -> None:
    chance, seen = random.Random(3), set()
    for _ in range(400):
        tags = [chance.choice(["NN", "VB", ".", ",", "RP"]) for _ in range(chance.randint(1, 9))]
        gold, test = random_parse(chance, tags), random_parse(chance, tags)
        result = tuple(compare(gold, test))
        assert result == naive(gold, test)
        assert compare(gold, read_parse(write_parse(test))) == result
        seen.add(result)
    assert len(seen) > 20, "many different outcomes"


# --- evalb itself -------------------------------------------------------------------------------------------------


def golden() -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], dict[str, float]]:
    """Returns our counts and those of evalb, sentence by sentence, and its totals."""
    messages = json.loads(GOLDEN.read_text())
    lines = zip(messages["gold"], messages["test"], strict=True)
    result = [tuple(compare(read_parse(gold), read_parse(test))) for gold, test in lines]
    expected = [(STATUS[status], *((0, 0, 0) if status else rest)) for status, *rest in messages["rows"]]
    return result, expected, messages["totals"]


def test_it_is_what_evalb_prints() -> None:
    result, expected, totals = golden()
    assert result == expected
    assert {row[0] for row in expected} == set(STATUS)
    total = score(Agreement(*row) for row in result)  # type: ignore[arg-type]
    for name in ("recall", "precision", "f1", "complete_match", "valid", "errors", "skipped"):
        assert round(getattr(total, name), 2) == totals[name], name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SAME_AS", {}),
        ("LEFT_OUT", brackets.LEFT_OUT - {"."}),
        ("LEFT_OUT", brackets.LEFT_OUT - {"TOP"}),
        ("LEFT_OUT", brackets.LEFT_OUT | {"$"}),
        ("_TAIL", brackets.re.compile("-.*")),
    ],
)
def test_a_mistake_in_the_parameters_would_show(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(brackets, name, value)
    result, expected, _ = golden()
    assert result != expected
