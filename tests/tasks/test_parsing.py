"""The parsing task: hypotheses become trees, trees become scores, licensed sentences stay where they are."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from repro.batches import Evaluation
from repro.tasks import Constant, Parsing
from repro.tasks.metrics.divergence import unigram_entropy
from repro.tasks.parsing import UNITS

TREES = [
    "(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (PRT (RP off))) (. .)))",
    "(TOP (NP (NN dinner)))",
]
ROWS = ["(S (NP XX XX )NP (VP XX (PRT XX )PRT )VP XX )S", "(NP XX )NP"]
# a wrong label and the last word left over; a phrase that is never closed
FOUND = ["(S (NP XX XX )NP (VP XX (NP XX )NP )VP )S", "(NP XX"]


class FakeData:
    """Both splits are the same two sentences, in other words: ids are lengths of symbols."""

    target_language, public = "brackets", True
    tokenizer = SimpleNamespace(encode=lambda text: [len(symbol) for symbol in text.split()])

    def references(self, split: str) -> list[str]:
        return TREES

    def targets(self, split: str) -> list[str]:
        return ROWS

    def sources(self, split: str) -> list[str]:
        return ["the dog ran off .", "dinner"]

    def split(self, kind: str) -> str:
        return kind

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        return {"examples": 2, "tokens": 17}


def task(found: list[str] = FOUND, **of_data: Any) -> Parsing:
    """A task that has been tested: the first sentence is worth 8 nats, the second 9."""
    module = Parsing(nn.Linear(1, 1), torch.optim.SGD, Constant, beam=3, length_penalty=0.3, max_extra=7)
    data = FakeData()
    for name, value in of_data.items():
        setattr(data, name, value)
    module._trainer = SimpleNamespace(datamodule=data)  # type: ignore[assignment]
    module._begin(list(module.tests()))
    for one in module._evaluations:
        size, sums = len(found), torch.tensor([[8.0, 9.0], [10.0, 10.0], [13.0, 4.0]])
        one.metrics["parses"].update(torch.arange(size), found, TREES[:size], *sums[:, :size])
        one.examples.update(size)
    module.tested = module._end()
    return module


def summary_of(module: Parsing) -> dict[str, float]:
    """The scores of the test."""
    return module.tested[0].values


def test_right_rows_are_right_trees() -> None:
    summary = summary_of(task(ROWS))
    assert [summary[name] for name in ("f1", "precision", "recall", "complete_match", "repaired")] == [
        100.0, 100.0, 100.0, 100.0, 0.0,
    ]  # fmt: skip


def test_brackets_are_counted_over_the_corpus_and_repairs_by_sentence() -> None:
    # the first has 3 of 4 right, the full stop not counted though it was left over; the second 1 of 1
    summary = summary_of(task())
    assert summary["f1"] == summary["precision"] == summary["recall"] == 80.0
    assert summary["complete_match"] == 50.0
    assert summary["repaired"] == 100.0
    assert summary["nll"] == 17.0 / 17
    assert summary["loss"] == pytest.approx(20.0 / 17)
    assert summary["ppl"] == pytest.approx(math.e)


def test_a_predicted_tree_has_the_right_ones_words_and_tags() -> None:
    columns, rows = task().samples()
    assert columns == ["tree", "predicted tree"]
    assert rows[0] == [TREES[0], "(TOP (S (NP (DT the) (NN dog)) (VP (VBD ran) (NP (RP off))) (. .)))"]
    assert rows[1] == [TREES[1], "(TOP (NP (NN dinner)))"]
    assert len(task().samples(1)[1]) == 1


def test_sentences_stand_beside_the_rows_made_of_them() -> None:
    assert task().translated() == [("the dog ran off .", FOUND[0]), ("dinner", FOUND[1])]


def test_punctuation_is_left_out_by_the_right_trees_tags() -> None:
    marked = "(S (NP XX XX )NP (VP XX (PRT XX XX )PRT )VP )S"  # the full stop is put into the particle
    assert summary_of(task([marked, ROWS[1]]))["f1"] == 100.0


def test_an_empty_hypothesis_counts_against_recall_and_is_not_skipped() -> None:
    summary = summary_of(task(["", ROWS[1]]))
    assert (summary["precision"], summary["recall"]) == (100.0, 20.0)
    assert summary["repaired"] == 50.0


def test_sentences_of_a_licensed_treebank_are_not_shown() -> None:
    module = task(public=False)
    assert module.samples() == ([], [])
    assert module.translated() == []
    outputs = module.outputs()
    assert outputs == "".join(f"{row}\n" for row in FOUND)
    assert not any(word in outputs for word in ("dog", "dinner"))


def test_every_score_is_measured_with_its_protocol() -> None:
    result = {m.name: m for m in task().measurements()}
    assert set(result) == {*(f"test/{name}" for name in UNITS), "val/diverged"}
    f1 = result["test/f1"]
    assert (f1.value, f1.validation, f1.count, f1.unit) == (80.0, 80.0, 2, "percent")
    assert f1.protocol["beam"] == 3
    assert f1.protocol["length_penalty"] == 0.3
    assert f1.protocol["max_extra"] == 7
    assert "COLLINS.prm" in f1.protocol["scorer"]
    assert result["test/loss"].protocol["label_smoothing"] == 0.1
    assert result["test/nll"].protocol["label_smoothing"] == 0.0
    assert result["test/nll"].count == 17
    # of the rows of symbols, not of the trees
    level = unigram_entropy([len(symbol) for symbol in row.split()] for row in ROWS)
    assert result["val/diverged"].protocol["unigram_entropy"] == pytest.approx(level)


def test_a_lost_sentence_stops_the_evaluation() -> None:
    with pytest.raises(RuntimeError, match="1 examples were scored, not 2"):
        task(FOUND[:1])
