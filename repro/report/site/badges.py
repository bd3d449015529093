"""Verdicts, each with a sentence that explains it."""

NUMBERS = {
    "reproduced": "At the paper's scale, from at least three seeds of committed code, the 90 % interval of the "
    "difference from the published number lies within the margin (two one-sided tests at 5 %).",
    "better": "The 95 % interval of the difference lies wholly beyond the margin, on the better side.",
    "worse": "The 95 % interval of the difference lies wholly beyond the margin, on the worse side.",
    "undecided": "None of these: the interval is too wide, seeds are missing or code was not committed. The reason "
    "stands beside it.",
    "at chance": "The published number and our whole interval lie at the score of guessing: neither success nor "
    "failure.",
    "short budget": "Ours made fewer updates than the paper's and has not reached the best possible score.",
    "agrees": "Computed from definitions, equal within the margin.",
    "differs": "Computed from definitions, not equal within the margin.",
    "timed": "Seconds, speed or memory on our machine beside theirs; no verdict.",
    "derived": "Computed from other results: a rank, a quotient, a first step; no verdict.",
    "no value": "To be computed from other results, which do not give it: no run reaches a value, say. The reason "
    "stands beside it.",
    "unpublished": "We measured at the paper's scale what the paper shows without printing a number.",
    "reduced scale": "Only smaller runs exist: smaller in model, data or updates. They are not comparable with the "
    "published number and count for ordering claims only.",
    "not run": "A recipe is there, but no usable run of it.",
    "no recipe": "No recipe is there; the reason stands beside it.",
}
CLAIMS = {
    "holds": "Each row is shown to beat the next, or to equal it within the margin where the paper prints a tie.",
    "does not": "Some pair of rows is shown to be otherwise than in the paper.",
    "undecided": "Neither is shown; the reason stands beside it.",
    "incomplete": "Some row has no record.",
    "out of reach": "Some row has no record; why it is not run at this scale stands beside it.",
}
MARKS = {
    "unconfirmed": "Nobody could check this published number against the paper itself.",
    "see notes": "Something weakens these runs: seeds missing, commits that differ or were not committed, protocols "
    "that differ, a curve that is not finite. It is named there.",
}
_ORDER = (*NUMBERS, *CLAIMS)


def key(verdict: str) -> str:
    """A verdict as one word, for addresses and filters."""
    return verdict.replace(" ", "-")


def keys(verdicts: "set[str] | list[str]") -> str:
    """Several verdicts, for a filter."""
    return " ".join(sorted(set(map(key, verdicts))))


def rank(verdict: str) -> int:
    """The position of a verdict in the legend."""
    return _ORDER.index(verdict) if verdict in _ORDER else len(_ORDER)
