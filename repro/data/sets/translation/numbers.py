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
from pathlib import Path
from typing import Any, NamedTuple

from repro.data.core.draws import HashedDraws, first_of, split_of_text
from repro.yamls import read_yaml

GENERATOR_VERSION = 1
Pair = tuple[str, str]
Key = tuple[str, ...]


class Noun(NamedTuple):
    """A noun that is counted.

    Attributes:
        english_plural: the English plural.
        gender: of the German noun, ``m``, ``f`` or ``n``.
        singular: German singular (the same in the three cases used).
        plural: German nominative and accusative plural.
        dative_plural: German dative plural.
    """

    english_plural: str
    gender: str
    singular: str
    plural: str
    dative_plural: str


_WORDS: dict[str, Any] = read_yaml(Path(__file__).with_name("number_words.yaml"))
_ENGLISH, _GERMAN = _WORDS["english"], _WORDS["german"]
NOUNS = {noun: Noun(*forms) for noun, forms in _WORDS["nouns"].items()}
PREPOSITIONS, FRAMES = _WORDS["prepositions"], _WORDS["frames"]


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
        english, german = _year(int(key[1]))
        return f"in the year {english}", f"im Jahr {german}"
    if kind == "count":
        return _count(int(key[1]), key[2], key[3])
    return _date(key[1], key[2], int(key[3]), int(key[4]), key[5])


def _count(n: int, noun: str, preposition: str) -> Pair:
    german_preposition, case = PREPOSITIONS[preposition]
    english = f"{preposition} {english_cardinal(n)} {noun if n == 1 else NOUNS[noun].english_plural}"
    return english.strip(), f"{german_preposition} {german_counted(n, NOUNS[noun], case)}".strip()


def _date(frame: str, weekday: str, day: int, month: int, year: str) -> Pair:
    english, german = FRAMES[frame]
    names = _WORDS["weekdays"][int(weekday)] if weekday else ("", "")
    ends = [f" {spelled}" for spelled in _year(int(year))] if year else ["", ""]
    ordinal = german_ordinal(day) + ("e" if frame in ("plain", "weekday") else "en")
    return (
        english.format(
            weekday=names[0], date=f"{english_ordinal(day)} of {_WORDS['months'][month - 1][0]}{ends[0]}"
        ),
        german.format(weekday=names[1], date=f"{ordinal} {_WORDS['months'][month - 1][1]}{ends[1]}"),
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


def english_cardinal(n: int, in_hundreds: bool = False) -> str:
    """0..999,999 in British English: ``three hundred and forty-two thousand and seven``.

    Args:
        n: the number.
        in_hundreds: thousands are counted in hundreds, as in years.
    """
    if n < 20:
        return _ENGLISH["small"][n]
    if n < 100:
        return _ENGLISH["tens"][n // 10 - 2] + (f"-{_ENGLISH['small'][n % 10]}" if n % 10 else "")
    base, word = (1000, "thousand") if n >= 1000 and not in_hundreds else (100, "hundred")
    head, rest = f"{english_cardinal(n // base)} {word}", n % base
    if not rest:
        return head
    return f"{head} {'and ' if rest < 100 else ''}{english_cardinal(rest)}"


def german_cardinal(n: int, in_hundreds: bool = False) -> str:
    """0..999,999 in one German word, ``eins`` at the end: ``dreihundertzweiundvierzigtausendsieben``.

    Args:
        n: the number.
        in_hundreds: thousands are counted in hundreds, as in years.
    """
    if n < 20:
        return _GERMAN["small"][n]
    if n < 100:
        return (f"{_one(n % 10)}und" if n % 10 else "") + _GERMAN["tens"][n // 10 - 2]
    base, word = (1000, "tausend") if n >= 1000 and not in_hundreds else (100, "hundert")
    return _one(n // base) + word + (german_cardinal(n % base) if n % base else "")


def _one(n: int) -> str:
    """A number inside a compound: ``eins`` loses its s."""
    return german_cardinal(n).removesuffix("s") if n % 100 == 1 else german_cardinal(n)


def english_ordinal(n: int) -> str:
    """1..31: ``twenty-first``."""
    head, dash, last = english_cardinal(n).rpartition("-")
    return head + dash + _ENGLISH["ordinals"].get(last, f"{last}th")


def german_ordinal(n: int) -> str:
    """1..31 without its ending: ``einundzwanzigst``."""
    return _GERMAN["ordinals"].get(n) or german_cardinal(n) + ("t" if n < 20 else "st")


def _year(year: int) -> Pair:
    """1100..2099: ``nineteen hundred and eighty-four`` and ``neunzehnhundertvierundachtzig``, ``two thousand and four``
    and ``zweitausendvier``.
    """
    return english_cardinal(year, year < 2000), german_cardinal(year, year < 2000)


def german_counted(n: int, noun: Noun, case: str) -> str:
    """A number with its noun: ``einen Baum``, ``mit`` + ``einundzwanzig Häusern``.

    Args:
        n: 1 or more, but not 101, 201, ... whose German form is unsettled.
        noun: what is counted.
        case: ``nominative``, ``accusative`` or ``dative``.
    """
    if n == 1:
        return f"{_WORDS['articles'][case][noun.gender]} {noun.singular}"
    return f"{german_cardinal(n)} {noun.dative_plural if case == 'dative' else noun.plural}"
