"""A generated English-German corpus: numbers, years, counted things and dates, spelled out.

It is a real translation problem in small: German puts units before tens and writes numbers in one word, says
``eins`` alone but ``ein, eine, einen, einem, einer`` before a noun, declines ordinals and plurals by case and
capitalises nouns. The same English always has the same German.

An item is a pure function of (seed, split, index) by a counter-based hash, identical on any machine and
Python. Which split an item may appear in is decided by a hash of the item itself: train never meets val or
test.
"""

import calendar
import datetime
import hashlib
from collections.abc import Iterator
from itertools import islice

from repro.data.core.draws import HashedDraws, first_of, split_of_text
from repro.data.sets.translation.spelling import (
    FRAMES,
    MONTHS,
    NOUNS,
    PREPOSITIONS,
    WEEKDAYS,
    english_cardinal,
    english_ordinal,
    english_year,
    german_cardinal,
    german_counted,
    german_ordinal,
    german_year,
)

GENERATOR_VERSION = 1
Pair = tuple[str, str]
Key = tuple[str, ...]


def _number(draw: HashedDraws, digits: int) -> int:
    """Number of digits uniform in 1..digits, then uniform among the numbers of that length."""
    length = 1 + draw.below(digits)
    low = 0 if length == 1 else 10 ** (length - 1)
    return low + draw.below(10**length - low)


def _draw_key(draw: HashedDraws) -> Key:
    """A description of one item; 40 % plain numbers, 5 % years, 20 % counted things, 35 % dates."""
    kind = draw.below(100)
    if kind < 40:
        return ("number", str(_number(draw, 6)))
    if kind < 45:
        return ("year", str(1100 + draw.below(1000)))
    if kind < 65:
        n = 1 if draw.below(6) == 0 else _number(draw, 3)
        noun, preposition = draw.one_of(tuple(NOUNS)), draw.one_of(tuple(PREPOSITIONS))
        # "a hundred and one nights" has no settled German form, and zero is not counted: take a neighbour
        return ("count", str(n + 1 if n % 100 == 1 and n > 1 else max(n, 1)), noun, preposition)
    return _draw_date(draw)


def _draw_date(draw: HashedDraws) -> Key:
    frame = draw.one_of(tuple(FRAMES))
    year = 1100 + draw.below(1000) if draw.below(2) else 0
    month = 1 + draw.below(12)
    day = 1 + draw.below(calendar.monthrange(year or 2000, month)[1])
    # with a year the weekday is the true one, without a year any will do
    weekday = datetime.date(year, month, day).weekday() if year else draw.below(7)
    named = str(weekday) if "{weekday}" in FRAMES[frame][0] else ""
    return ("date", frame, named, str(day), str(month), str(year or ""))


def translate_key(key: Key) -> Pair:
    """The English and the German of an item."""
    kind = key[0]
    if kind == "number":
        return english_cardinal(int(key[1])), german_cardinal(int(key[1]))
    if kind == "year":
        return f"in the year {english_year(int(key[1]))}", f"im Jahr {german_year(int(key[1]))}"
    if kind == "count":
        return _count(int(key[1]), key[2], key[3])
    return _date(key[1], key[2], int(key[3]), int(key[4]), key[5])


def _count(n: int, noun: str, preposition: str) -> Pair:
    german_preposition, case = PREPOSITIONS[preposition]
    english = f"{preposition} {english_cardinal(n)} {noun if n == 1 else NOUNS[noun].english_plural}"
    return english.strip(), f"{german_preposition} {german_counted(n, NOUNS[noun], case)}".strip()


def _date(frame: str, weekday: str, day: int, month: int, year: str) -> Pair:
    english, german = FRAMES[frame]
    names = WEEKDAYS[int(weekday)] if weekday else ("", "")
    ends = (f" {english_year(int(year))}", f" {german_year(int(year))}") if year else ("", "")
    ordinal = german_ordinal(day) + ("e" if frame in ("plain", "weekday") else "en")
    return (
        english.format(weekday=names[0], date=f"{english_ordinal(day)} of {MONTHS[month - 1][0]}{ends[0]}"),
        german.format(weekday=names[1], date=f"{ordinal} {MONTHS[month - 1][1]}{ends[1]}"),
    )


def split_of(key: Key) -> str:
    """The one split an item may appear in: 80 % train, 10 % val, 10 % test.

    Items too small to be put together from others (numbers below 1,000, counts below 21) are always train:
    held-out items ask for known words in new combinations.
    """
    if (key[0] == "number" and int(key[1]) < 1000) or (key[0] == "count" and int(key[1]) < 21):
        return "train"
    return split_of_text("/".join(key))


def items(split: str, seed: int = 0) -> Iterator[Key]:
    """The endless stream of the items of a split.

    Train keeps repeats (short items are frequent, as in any text); val and test hold each item once.
    """

    def drawn(index: int, attempt: int) -> Key:
        label = f"numbers-en-de/{GENERATOR_VERSION}/{seed}/{split}/{index}/{attempt}"
        return _draw_key(HashedDraws(hashlib.blake2b(label.encode(), digest_size=40).digest()))

    return first_of(drawn, lambda key: split_of(key) == split, None if split == "train" else tuple)


def generate(split: str, size: int, seed: int = 0) -> list[Pair]:
    """The first ``size`` pairs of a split."""
    return [translate_key(key) for key in islice(items(split, seed), size)]
