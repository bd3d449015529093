"""Verdicts as badges, each with a sentence that explains it."""

from repro.report.site.html import Html, join, tag

NUMBERS = {
    "reproduced": "At the paper's scale, from at least three seeds (one where the number does not depend on the seed) "
    "of committed code, the 95 % interval of our mean overlaps the published number ± its tolerance, or lies on its "
    "better side.",
    "near": "At the paper's scale, our mean lies within three times the tolerance, but the interval does not reach "
    "the published number, or seeds are missing, or the code was not committed.",
    "gap": "At the paper's scale, our mean is further away than three times the tolerance.",
    "unpublished": "We measured at the paper's scale what the paper shows without printing a number.",
    "reduced scale": "Only smaller runs exist: smaller in model, data or updates. They are not comparable with the "
    "published number and count for ordering claims only.",
    "not run": "A recipe is there, but no usable run of it.",
    "no config": "No recipe is there; the reason stands beside it.",
}
CLAIMS = {
    "holds": "Each row beats the next by more than chance: the 95 % interval of every difference lies on the paper's "
    "side.",
    "does not": "Some pair of rows stands clearly the other way round.",
    "undecided": "Neither: an interval includes both orders, or rows or seeds are missing.",
}
MARKS = {
    "unconfirmed": "Nobody could check this published number against the paper itself.",
    "see notes": "Something weakens these runs: seeds missing, commits that differ or were not committed, protocols "
    "that differ, a curve that is not finite, records left out. It is named there.",
}
_ORDER = (*NUMBERS, *CLAIMS)


def key(verdict: str) -> str:
    """A verdict as one word, for addresses and filters."""
    return verdict.replace(" ", "-")


def keys(verdicts: "set[str] | list[str]") -> str:
    """Several verdicts, for a filter."""
    return " ".join(sorted(set(map(key, verdicts))))


def badge(verdict: str) -> Html:
    """A verdict with its sign: shape and word say it, colour only repeats it."""
    return tag("b", verdict, cls=f"v v-{key(verdict)}")


def mark(words: str) -> Html:
    """A remark that weakens a number."""
    return tag("b", words, cls="m")


def legend() -> Html:
    """Each verdict with its sentence."""
    lists = []
    for title, sentences in (("Verdicts of numbers", NUMBERS), ("Verdicts of ordering claims", CLAIMS)):
        items = [tag("div", tag("dt", badge(word)), tag("dd", said)) for word, said in sentences.items()]
        if sentences is NUMBERS:
            items += [tag("div", tag("dt", mark(word)), tag("dd", said)) for word, said in MARKS.items()]
        lists.append(join([tag("h4", title), tag("dl", *items, cls="legend")]))
    return join(lists)


def rank(verdict: str) -> int:
    """Where a verdict stands in the legend."""
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)
