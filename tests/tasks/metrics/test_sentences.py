"""Sentences of a split: in its order, each once, whoever scored it."""

import pytest
import torch

from repro.tasks.metrics.sentences import TranslationScores

HYPOTHESES = ["ein Hund läuft\n im Park .", "", "zwei 🐕 schlafen hier im Garten", "drei"]
REFERENCES = ["ein Hund läuft im Park .", "nichts", "zwei 🐕 schlafen hier im Garten", "vier"]


def scores(*indices: int) -> TranslationScores:
    """Scores some of the sentences: sentence i is worth i nats of i + 1 tokens."""
    metric, which = TranslationScores("de"), torch.tensor(indices, dtype=torch.long)
    if indices:
        metric.update(
            which,
            [HYPOTHESES[i] for i in indices],
            [REFERENCES[i] for i in indices],
            which.double(),
            2 * which.double(),
            which + 1,
        )
    return metric


WHOLE = scores(0, 1, 2, 3).compute()


def test_likelihoods_and_matches() -> None:
    assert WHOLE["nll"] == 6.0 / 10
    assert WHOLE["loss"] == 12.0 / 10
    assert WHOLE["exact_match"] == 25.0


SHARES = [[(3, 1), (2, 0)], [(2,), (0, 3, 1), ()], [(), (1, 2), (3, 0)], [(0, 1, 2), (2, 3, 1)]]


@pytest.mark.parametrize("shares", SHARES)
def test_shares_make_the_same_scores(shares: list[tuple[int, ...]]) -> None:
    """In any order, with a rank that has no sentence, and where ranks have some of them twice."""
    first, *others = (scores(*share) for share in shares)
    for other in others:
        first.merge_state(other)
    assert first.compute() == WHOLE
    assert [row.text for row in first.rows] == HYPOTHESES
    assert [row.reference for row in first.rows] == REFERENCES
    assert first.count == 10


def test_a_reset_forgets_all() -> None:
    metric = scores(0, 1)
    metric.reset()
    metric.merge_state(scores(0, 1, 2, 3))
    assert metric.compute() == WHOLE
    assert all(one.dim() == 1 for one in metric.indices)
