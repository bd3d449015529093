"""The texts of the documents, and words that several of them share."""

from pathlib import Path

from repro.evidence import text
from repro.evidence.declared.outcomes import Effect, Tested
from repro.evidence.published import Paper
from repro.report.formats.blocks import VerdictWord
from repro.yamls import read_yaml

_TEXTS = read_yaml(Path(__file__).with_name("texts.yaml"))
WORDS: dict[str, str] = _TEXTS["words"]  # of verdicts and of the states of records, each with a sentence
PARAGRAPHS: dict[str, str] = _TEXTS["paragraphs"]


def at_scale(scale: str) -> str:
    """A scale in words, for a verdict or a run."""
    return "paper's scale" if scale == "paper" else f"reduced scale: {scale}"


def published(value: float | None, unconfirmed: bool) -> str:
    """A number as the paper prints it, and whether it could not be checked."""
    return text.printed(value) + (" (unconfirmed)" if unconfirmed else "")


def venue(paper: Paper) -> str:
    """Returns venue and year of a paper."""
    about = paper.about
    return about.venue if str(about.year) in about.venue else f"{about.venue}, {about.year}"


def outcome(one: Tested) -> VerdictWord:
    """A test's verdict; of a gate it names only the conditions that are not met."""
    verdict = VerdictWord(one.verdict, f"not {one.failed}" if one.failed else one.why)
    return VerdictWord("check of the code", str(verdict)) if one.is_check else verdict


def effect_words(effect: Effect) -> str:
    """``+8.54 % (+4.34 to +12.7), paper +7.14 %``."""
    interval = ""
    if effect.low is not None and effect.high is not None:
        interval = f" ({percent(effect.low)} to {percent(effect.high)})"
    printed = "" if effect.published is None else f", paper {percent(effect.published)} %"
    return f"{percent(effect.ours)} %{interval}{printed}"


def percent(value: float | None) -> str:
    """Three digits with a sign."""
    return text.signed(value, max(0, text.digits_after(value) - 1) if value else 0)
