"""Failed is who knows little beyond how frequent tokens are."""

import math

import pytest

from repro.tasks.metrics.divergence import diverged, failed, unigram_entropy

SENTENCES = [[4, 5, 5], [4], []]  # with ends: 4 twice, 5 twice, the end three times


def test_the_entropy_counts_the_end_of_each_sentence() -> None:
    expected = -sum(n / 7 * math.log(n / 7) for n in (2, 2, 3))
    assert unigram_entropy(SENTENCES) == pytest.approx(expected)
    assert unigram_entropy([[0, 1, 2]]) == pytest.approx(math.log(4))


@pytest.mark.parametrize(
    ("share", "failed"), [(0.2, 0.0), (0.74, 0.0), (0.76, 1.0), (1.0, 1.0), (float("nan"), 1.0), (float("inf"), 1.0)]
)  # fmt: skip
def test_three_quarters_of_it_are_too_much(share: float, failed: float) -> None:
    level = unigram_entropy(SENTENCES)
    result = diverged(share * level, iter(SENTENCES), "val", 7)
    assert (result.name, result.value, result.unit, result.split, result.count) == (
        "val/diverged",
        failed,
        "0/1",
        "val",
        7,
    )
    assert result.protocol["unigram_entropy"] == pytest.approx(level, rel=1e-5)
    assert "0.75" in result.protocol["rule"]
    assert result.protocol == diverged(1.0, SENTENCES, "val", 7).protocol, "seeds of one recipe share it"


@pytest.mark.parametrize(
    ("bleu", "share", "value"), [(0.0, 0.2, 1.0), (0.99, 0.2, 1.0), (1.0, 0.2, 0.0), (90.0, 1.0, 1.0), (90.0, 0.2, 0.0)]
)  # fmt: skip
def test_a_model_that_translates_nothing_failed_however_likely_the_references_are(
    bleu: float, share: float, value: float
) -> None:
    result = failed(bleu, diverged(share * unigram_entropy(SENTENCES), SENTENCES, "val", 7))
    assert (result.name, result.value, result.validation, result.count) == ("val/failed", value, value, 7)
