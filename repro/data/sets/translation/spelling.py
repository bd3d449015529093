"""English and German number words, ordinals, years, counted nouns and date phrases. Standard library only."""

from dataclasses import dataclass


def _words(text: str) -> list[str]:
    return text.split()


_EN_SMALL = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_EN_TENS = _words("twenty thirty forty fifty sixty seventy eighty ninety")
_DE_SMALL = _words(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn "
    "siebzehn achtzehn neunzehn"
)
_DE_TENS = _words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig")

_EN_ORDINALS = {
    "one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
    "twelve": "twelfth", "twenty": "twentieth", "thirty": "thirtieth",
}  # fmt: skip
_DE_ORDINALS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}

MONTHS = tuple(
    zip(
        _words("January February March April May June July August September October November December"),
        _words("Januar Februar März April Mai Juni Juli August September Oktober November Dezember"),
        strict=True,
    )
)
WEEKDAYS = tuple(
    zip(
        _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday"),
        _words("Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"),
        strict=True,
    )
)
# Frames of a date. The ordinal ends in -e in the nominative (plain, weekday), in -en in the other cases.
FRAMES = {
    "plain": ("the {date}", "der {date}"),
    "weekday": ("{weekday}, the {date}", "{weekday}, der {date}"),
    "on": ("on the {date}", "am {date}"),
    "on weekday": ("on {weekday}, the {date}", "am {weekday}, dem {date}"),
    "since": ("since the {date}", "seit dem {date}"),
    "until": ("until the {date}", "bis zum {date}"),
    "before": ("before the {date}", "vor dem {date}"),
    "after": ("after the {date}", "nach dem {date}"),
    "for": ("for the {date}", "für den {date}"),
}


@dataclass(frozen=True)
class Noun:
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


NOUNS = {
    "house": Noun("houses", "n", "Haus", "Häuser", "Häusern"),
    "child": Noun("children", "n", "Kind", "Kinder", "Kindern"),
    "book": Noun("books", "n", "Buch", "Bücher", "Büchern"),
    "year": Noun("years", "n", "Jahr", "Jahre", "Jahren"),
    "window": Noun("windows", "n", "Fenster", "Fenster", "Fenstern"),
    "tree": Noun("trees", "m", "Baum", "Bäume", "Bäumen"),
    "man": Noun("men", "m", "Mann", "Männer", "Männern"),
    "bird": Noun("birds", "m", "Vogel", "Vögel", "Vögeln"),
    "letter": Noun("letters", "m", "Brief", "Briefe", "Briefen"),
    "apple": Noun("apples", "m", "Apfel", "Äpfel", "Äpfeln"),
    "woman": Noun("women", "f", "Frau", "Frauen", "Frauen"),
    "city": Noun("cities", "f", "Stadt", "Städte", "Städten"),
    "cat": Noun("cats", "f", "Katze", "Katzen", "Katzen"),
    "flower": Noun("flowers", "f", "Blume", "Blumen", "Blumen"),
    "night": Noun("nights", "f", "Nacht", "Nächte", "Nächten"),
}
# English preposition: German preposition and the case that it takes; the first is no preposition.
PREPOSITIONS = {
    "": ("", "nominative"),
    "with": ("mit", "dative"),
    "from": ("von", "dative"),
    "for": ("für", "accusative"),
    "without": ("ohne", "accusative"),
}
_ARTICLES = {
    "nominative": {"m": "ein", "f": "eine", "n": "ein"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}


def english_cardinal(n: int) -> str:
    """0..999,999 in British English: ``three hundred and forty-two thousand and seven``."""
    if n < 20:
        return _EN_SMALL[n]
    if n < 100:
        return _EN_TENS[n // 10 - 2] + (f"-{_EN_SMALL[n % 10]}" if n % 10 else "")
    base, word = (1000, "thousand") if n >= 1000 else (100, "hundred")
    head, rest = f"{english_cardinal(n // base)} {word}", n % base
    if not rest:
        return head
    return f"{head} {'and ' if rest < 100 else ''}{english_cardinal(rest)}"


def german_cardinal(n: int) -> str:
    """0..999,999 in one German word, ``eins`` at the end: ``dreihundertzweiundvierzigtausendsieben``."""
    if n < 20:
        return _DE_SMALL[n]
    if n < 100:
        return (f"{_one(n % 10)}und" if n % 10 else "") + _DE_TENS[n // 10 - 2]
    base, word = (1000, "tausend") if n >= 1000 else (100, "hundert")
    return _one(n // base) + word + (german_cardinal(n % base) if n % base else "")


def _one(n: int) -> str:
    """A number inside a compound: ``eins`` loses its s."""
    return german_cardinal(n).removesuffix("s") if n % 100 == 1 else german_cardinal(n)


def english_ordinal(n: int) -> str:
    """1..31: ``twenty-first``."""
    head, dash, last = english_cardinal(n).rpartition("-")
    return head + dash + _EN_ORDINALS.get(last, f"{last}th")


def german_ordinal(n: int) -> str:
    """1..31 without its ending: ``einundzwanzigst``."""
    return _DE_ORDINALS.get(n) or german_cardinal(n) + ("t" if n < 20 else "st")


def _in_hundreds(year: int) -> bool:
    return 1100 <= year < 2000


def english_year(year: int) -> str:
    """1100..2099: ``nineteen hundred and eighty-four``, ``two thousand and four``."""
    if not _in_hundreds(year):
        return english_cardinal(year)
    head = f"{english_cardinal(year // 100)} hundred"
    return f"{head} and {english_cardinal(year % 100)}" if year % 100 else head


def german_year(year: int) -> str:
    """1100..2099: ``neunzehnhundertvierundachtzig``, ``zweitausendvier``."""
    if not _in_hundreds(year):
        return german_cardinal(year)
    return german_cardinal(year // 100) + "hundert" + (german_cardinal(year % 100) if year % 100 else "")


def german_counted(n: int, noun: Noun, case: str) -> str:
    """A number with its noun: ``einen Baum``, ``mit`` + ``einundzwanzig Häusern``.

    Args:
        n: 1 or more, but not 101, 201, ... whose German form is unsettled.
        noun: what is counted.
        case: ``nominative``, ``accusative`` or ``dative``.
    """
    if n == 1:
        return f"{_ARTICLES[case][noun.gender]} {noun.singular}"
    return f"{german_cardinal(n)} {noun.dative_plural if case == 'dative' else noun.plural}"
