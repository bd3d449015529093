"""Every word that a verdict uses is explained, and no reduced scale "holds"."""

import json
import re

import pytest

from repro.evidence.declared.outcomes import ORDERS
from repro.paths import PROJECT
from repro.report.views.words import WORDS, at_scale, percent


def test_every_word_of_a_verdict_is_explained():
    assert set(ORDERS) <= WORDS.keys()
    rows = json.loads((PROJECT / "results" / "evidence.json").read_text(encoding="utf-8"))
    assert {row["verdict"] for kind in ("numbers", "tests") for row in rows[kind]} <= WORDS.keys()


@pytest.mark.parametrize("word", ["same order", "other order", "no clear order", "planned"])
def test_a_test_is_explained_as_one(word):
    assert "hold" not in WORDS[word]


def test_no_generated_file_says_that_a_claim_holds():
    folder = PROJECT / "results" / "tables"
    for path in [*folder.iterdir(), PROJECT / "README.md"]:
        assert not re.search(r"\b(holds|does not hold)\b", path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("value", "message"),
    [(0.0, "+0"), (8.5409, "+8.54"), (257.0, "+257"), (-0.0841, "−0.084"), (131.9, "+132")],  # noqa: RUF001
)
def test_per_cent_has_three_digits_and_a_sign(value, message):
    assert percent(value) == message


def test_a_scale_is_the_papers_or_a_reduced_one():
    assert (at_scale("paper"), at_scale("cpu")) == ("paper's scale", "reduced scale: cpu")
