"""BLEU through sacrebleu."""

import pytest

from repro.tasks.bleu import bleu

REFERENCES = ["Ein Hund rennt über die Wiese.", "Zwei Männer sitzen auf einer Bank im Park."]


def test_a_perfect_translation_scores_100() -> None:
    score, signature = bleu(REFERENCES, REFERENCES)
    assert score == pytest.approx(100.0)
    assert "case:mixed" in signature
    assert "tok:13a" in signature
    assert "version:" in signature


def test_case_and_order_count() -> None:
    lower, _ = bleu([line.lower() for line in REFERENCES], REFERENCES)
    swapped, _ = bleu(REFERENCES[::-1], REFERENCES)
    assert swapped < lower < 100.0


def test_the_ways_differ_in_case_and_in_what_a_token_is() -> None:
    said = [line.lower() for line in REFERENCES]
    cased, signature = bleu(said, REFERENCES, "bleu_intl")
    uncased, uncased_signature = bleu(said, REFERENCES, "bleu_intl_uncased")
    assert cased < uncased == pytest.approx(100.0)
    assert "case:mixed" in signature
    assert "tok:intl" in signature
    assert "case:lc" in uncased_signature
    assert "tok:intl" in uncased_signature
    dash = "\u2013"  # a token of its own for one of them only
    dots = [f"a{dash}b c d e f"], [f"a {dash} b c d e f"]
    assert bleu(*dots, "bleu_intl")[0] == pytest.approx(100.0)
    assert bleu(*dots)[0] < 100.0
