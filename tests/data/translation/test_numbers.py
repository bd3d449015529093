"""The generated corpus: right German, disjoint splits, the same everywhere."""

import hashlib
import subprocess
import sys
from itertools import islice

import pytest

from repro.data.sets.translation import numbers
from repro.data.sets.translation.numbers import (
    english_cardinal,
    generate,
    german_cardinal,
    split_of,
    translate_key,
)

CARDINALS = {
    0: ("zero", "null"),
    1: ("one", "eins"),
    7: ("seven", "sieben"),
    11: ("eleven", "elf"),
    16: ("sixteen", "sechzehn"),
    17: ("seventeen", "siebzehn"),
    20: ("twenty", "zwanzig"),
    21: ("twenty-one", "einundzwanzig"),
    30: ("thirty", "dreißig"),
    66: ("sixty-six", "sechsundsechzig"),
    77: ("seventy-seven", "siebenundsiebzig"),
    100: ("one hundred", "einhundert"),
    101: ("one hundred and one", "einhunderteins"),
    111: ("one hundred and eleven", "einhundertelf"),
    342: ("three hundred and forty-two", "dreihundertzweiundvierzig"),
    1000: ("one thousand", "eintausend"),
    1001: ("one thousand and one", "eintausendeins"),
    1100: ("one thousand one hundred", "eintausendeinhundert"),
    16_012: ("sixteen thousand and twelve", "sechzehntausendzwölf"),
    21_000: ("twenty-one thousand", "einundzwanzigtausend"),
    101_000: ("one hundred and one thousand", "einhunderteintausend"),
    201_201: ("two hundred and one thousand two hundred and one", "zweihunderteintausendzweihunderteins"),
    342_007: ("three hundred and forty-two thousand and seven", "dreihundertzweiundvierzigtausendsieben"),
    999_999: (
        "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
        "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
    ),
}
# Written by hand, not by the code under test.
OTHERS = [
    ("year/1984", "in the year nineteen hundred and eighty-four", "im Jahr neunzehnhundertvierundachtzig"),
    ("year/1900", "in the year nineteen hundred", "im Jahr neunzehnhundert"),
    ("year/1101", "in the year eleven hundred and one", "im Jahr elfhunderteins"),
    ("year/2004", "in the year two thousand and four", "im Jahr zweitausendvier"),
    ("count/1/house/", "one house", "ein Haus"),
    ("count/1/cat/", "one cat", "eine Katze"),
    ("count/1/tree/for", "for one tree", "für einen Baum"),
    ("count/1/cat/without", "without one cat", "ohne eine Katze"),
    ("count/1/book/for", "for one book", "für ein Buch"),
    ("count/1/cat/with", "with one cat", "mit einer Katze"),
    ("count/1/man/from", "from one man", "von einem Mann"),
    ("count/1/child/with", "with one child", "mit einem Kind"),
    ("count/21/house/", "twenty-one houses", "einundzwanzig Häuser"),
    ("count/3/house/with", "with three houses", "mit drei Häusern"),
    ("count/2/woman/with", "with two women", "mit zwei Frauen"),
    ("count/200/city/for", "for two hundred cities", "für zweihundert Städte"),
    ("count/12/child/from", "from twelve children", "von zwölf Kindern"),
    ("date/plain//3/5/", "the third of May", "der dritte Mai"),
    (
        "date/plain//1/3/1984",
        "the first of March nineteen hundred and eighty-four",
        "der erste März neunzehnhundertvierundachtzig",
    ),
    ("date/on//3/5/", "on the third of May", "am dritten Mai"),
    ("date/weekday/2/7/1/", "Wednesday, the seventh of January", "Mittwoch, der siebte Januar"),
    ("date/on weekday/0/3/5/", "on Monday, the third of May", "am Montag, dem dritten Mai"),
    (
        "date/on weekday/5/8/10/2005",
        "on Saturday, the eighth of October two thousand and five",
        "am Samstag, dem achten Oktober zweitausendfünf",
    ),
    ("date/since//19/12/", "since the nineteenth of December", "seit dem neunzehnten Dezember"),
    ("date/until//20/2/", "until the twentieth of February", "bis zum zwanzigsten Februar"),
    ("date/before//21/6/", "before the twenty-first of June", "vor dem einundzwanzigsten Juni"),
    ("date/after//12/8/", "after the twelfth of August", "nach dem zwölften August"),
    ("date/for//31/7/", "for the thirty-first of July", "für den einunddreißigsten Juli"),
    ("date/on//5/4/", "on the fifth of April", "am fünften April"),
    ("date/on//9/9/", "on the ninth of September", "am neunten September"),
    ("date/on//22/11/", "on the twenty-second of November", "am zweiundzwanzigsten November"),
]


@pytest.mark.parametrize("n", CARDINALS)
def test_cardinals_written_by_hand(n: int) -> None:
    assert (english_cardinal(n), german_cardinal(n)) == CARDINALS[n]


@pytest.mark.parametrize(("key", "english", "german"), OTHERS)
def test_phrases_written_by_hand(key: str, english: str, german: str) -> None:
    assert translate_key(tuple(key.split("/"))) == (english, german)


def test_every_number_is_written_in_its_own_way() -> None:
    for spell in (english_cardinal, german_cardinal):
        assert len({spell(n) for n in range(20_000)}) == 20_000


def test_splits_never_meet_and_english_decides_german() -> None:
    corpus = {split: generate(split, size) for split, size in (("train", 6000), ("val", 500), ("test", 1000))}
    english = {split: {source for source, _ in pairs} for split, pairs in corpus.items()}
    assert not english["train"] & english["val"]
    assert not english["train"] & english["test"]
    assert not english["val"] & english["test"]
    assert len(english["test"]) == 1000  # held-out items are distinct
    pairs = {pair for split in corpus.values() for pair in split}
    assert len({source for source, _ in pairs}) == len(pairs)


def test_words_of_the_held_out_items_are_all_in_train() -> None:
    train = {word for source, _ in generate("train", 6000) for word in source.replace("-", " ").split()}
    test = {word for source, _ in generate("test", 1000) for word in source.replace("-", " ").split()}
    assert test <= train
    assert {"zero", "February", "without"} <= train


def first(seed: int, split: str, n: int = 5) -> list[numbers.Key]:
    return list(islice(numbers.items(split, seed), n))


def test_an_item_depends_on_seed_split_and_index_only() -> None:
    result = {(seed, split): first(seed, split) for seed in (0, 1) for split in ("train", "test")}
    assert result[0, "train"] == first(0, "train")
    assert len(set(map(tuple, result.values()))) == 4
    assert generate("train", 50) == generate("train", 100)[:50]
    for (_, split), keys in result.items():
        assert {split_of(key) for key in keys} == {split}


def test_lengths_of_plain_numbers_are_spread() -> None:
    keys = first(0, "train", 4000)
    digits = [len(key[1]) for key in keys if key[0] == "number"]
    shares = [digits.count(d) / len(digits) for d in range(1, 7)]
    assert all(0.1 < share < 0.25 for share in shares), shares


def test_first_thousand_items_are_the_same_everywhere() -> None:
    # another process with another hash seed: nothing may depend on either
    code = (
        "import hashlib; from repro.data.sets.translation.numbers import generate; "
        "print(hashlib.sha256(repr(generate('train', 1000)).encode()).hexdigest())"
    )
    messages = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert messages == hashlib.sha256(repr(generate("train", 1000)).encode()).hexdigest()
    assert messages == "2f69ebadc0d23f0b1b60c1039abdd932c8b49928470101e66f29f6f3372914b2"
