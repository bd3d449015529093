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
