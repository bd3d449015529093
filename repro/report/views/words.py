"""The words of verdicts, each with the sentence that explains it, and other words that several documents share."""

from repro import text
from repro.evidence.outcomes import Effect, Tested
from repro.evidence.published import Paper
from repro.report.formats.blocks import VerdictWord

NUMBERS = {
    "reproduced": "At the paper's scale our mean is equal to the published number within the margin.",
    "higher": "At the paper's scale our mean is above the published number by more than the margin.",
    "lower": "At the paper's scale our mean is below the published number by more than the margin.",
    "open": "At the paper's scale, with too few seeds or too much spread to decide.",
    "at chance": "The published number and ours are both those of guessing: neither success nor failure.",
    "short budget": "Ours made fewer updates than the paper's.",
    "agrees": "Computed from definitions, and equal to the published number.",
    "differs": "Computed from definitions, and not equal to the published number.",
    "timed": "A time on our machine, shown without a verdict.",
    "derived": "Computed from other numbers, shown without a verdict.",
    "no value": "The runs that it would be derived from do not give it.",
    "unpublished": "We measured it; the paper shows it without a number.",
    "reduced scale": "Only smaller runs exist; they are never compared with the published number.",
    "no recipe": "Nothing here measures it.",
}
TESTS = {
    "same order": "A fair test: our rows are shown to be in the order that the paper has.",
    "other order": "A fair test: our rows are shown to be in another order than the paper's.",
    "no clear order": "A fair test that shows neither the paper's order nor another.",
    "not a fair test": "A condition of the gate is not met; the outcome counts for nothing.",
    "planned": "Not declared yet.",
    "incomplete": "Rows or seeds of the test have no record yet.",
    "check of the code": "The task alone decides the order; the test is no evidence for the claim.",
    "out of reach": "Data or weights are missing here, or a row costs more than 20 core-hours.",
    "not run": "There is no record.",
}
ARITHMETIC = {
    "equal": "A cheaper arithmetic gives the recipe's numbers, within a tenth of the margin.",
    "apart": "A cheaper arithmetic gives other numbers, by more than a tenth of the margin.",
}
RECORDS = {
    "current": "The record counts for the numbers of its recipe.",
    "superseded": "Its recipe is another now; tests that name its configuration still use it.",
    "withdrawn": "It has a fault that does not depend on its score, and counts for nothing.",
    "overridden": "Settings beside the recipe's changed what was computed.",
    "mixed": "It was resumed with other code, packages or another device.",
    "tuning": "Its seed is not one of the judged ones.",
    "repeated": "An earlier record of the same seed counts.",
}
WORDS = NUMBERS | TESTS | ARITHMETIC | RECORDS


def at_scale(scale: str) -> str:
    """A scale in words, for a verdict or a run."""
    return "paper's scale" if scale == "paper" else f"reduced scale: {scale}"


def venue(paper: Paper) -> str:
    """Returns venue and year of a paper."""
    about = paper.about
    return about.venue if str(about.year) in about.venue else f"{about.venue}, {about.year}"


def outcome(one: Tested, short: bool = False) -> VerdictWord:
    """A test's verdict; ``short`` names only the conditions of the gate that it fails."""
    why = f"not {one.failed}" if short and one.failed else one.why
    verdict = VerdictWord(one.verdict, why)
    return VerdictWord("check of the code", str(verdict)) if one.is_check else verdict


def effect_words(effect: Effect) -> str:
    """``+8.54 % (+4.34 to +12.7), paper +7.14 %``."""
    interval = ""
    if effect.low is not None and effect.high is not None:
        interval = f" ({percent(effect.low)} to {percent(effect.high)})"
    printed = "" if effect.published is None else f", paper {percent(effect.published)} %"
    return f"{percent(effect.ours)} %{interval}{printed}"


def percent(value: float) -> str:
    """Three digits with a sign."""
    return text.signed(value, max(0, text.digits_after(value) - 1) if value else 0)
