"""Scores of texts against values computed by hand; ranks add up."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from repro.errors import UserError
from repro.tasks.metrics.texts import Meteor, Rouge, TextScore, UnigramF1, require_wordnet, words_of

F1 = [
    ("The cat, sat.", "a CAT sat down", 80.0),  # 2 of 2 and 2 of 3 words
    ("kite kite", "kite", 200 / 3),  # a word counts as often as it stands in both
    ("An. the!", "cat", 0.0),
    ("", "", 0.0),
]
ROUGE1 = [("cats running fast", "cat runs", 80.0), ("running cats", "cat runs", 100.0), ("", "cat", 0.0)]
ROUGE_L = [("running cats", "cat runs", 50.0), ("the cat ran off", "the off cat", 400 / 7)]
METEOR = [
    ("the cats sat", "The cat sat", 100 * (1 - 0.5 / 27)),  # all words in one chunk
    ("sat the", "the cat sat", 100 * (2 / 3) / (0.9 + 0.1 * 2 / 3) * 0.5),  # two of three, two chunks
    ("dog", "the cat", 0.0),
    ("", "cat", 0.0),
]
CASES = [
    (score, *case)
    for score, cases in (
        (UnigramF1(), F1), (Rouge("rouge1"), ROUGE1), (Rouge("rougeL"), ROUGE_L), (Meteor(synonyms=False), METEOR),
    )
    for case in cases
]  # fmt: skip


@pytest.mark.parametrize(("score", "result", "expected", "value"), CASES)
def test_scores_by_hand(score: TextScore, result: str, expected: str, value: float) -> None:
    score.reset()
    score.update(result, expected)
    assert float(score.compute()) == pytest.approx(value, rel=1e-6)


def test_words() -> None:
    assert words_of("The cat's theory: an apple-pie, A.") == ["cats", "theory", "applepie"]


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_ranks_add_up() -> None:
    whole, *ranks = (UnigramF1() for _ in range(4))
    for number, (result, expected, _) in enumerate(F1[:3]):
        for metric in (whole, ranks[number % 2]):
            metric.update(result, expected)
    merged = ranks[0]
    for rank in ranks[1:]:  # the last one has no pair
        merged.merge_state(rank)
    assert float(merged.compute()) == pytest.approx(float(whole.compute()), rel=1e-12)
    assert float(whole.compute()) == pytest.approx((80 + 200 / 3) / 3, rel=1e-12)
    assert set(whole._reductions) == {"total", "count"}
    assert float(UnigramF1().compute()) == 0.0


def test_wordnet_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    require_wordnet(synonyms=False)
    with pytest.raises(UserError, match="NLTK_DATA") as caught:
        require_wordnet(synonyms=True)
    assert "\n" not in str(caught.value)
    index = tmp_path / "corpora" / "wordnet" / "index.noun"
    index.parent.mkdir(parents=True)
    index.touch()
    require_wordnet(synonyms=True)


def test_nltk_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "nltk":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"repro\[dialogue\]"):
        require_wordnet(synonyms=False)
