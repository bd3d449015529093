"""Training and scores of conversations equal a plain loop over single rows; what is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from repro.data.sets.dialogue.dialogue_data import GeneratedDialogueData
from repro.errors import UserError
from repro.experiment.trained import Sampling, Trained, sample_line
from repro.nn import Hashing, LSHAttention
from repro.tasks import DialogueModel
from repro.tasks.language.replies import Generation
from tests.tasks.language.dialogues import (
    EVAL,
    HOW,
    MEMORIES,
    TALK,
    WINDOW,
    alone,
    batches,
    data,
    network,
    task,
)
from tests.tasks.streams import trainer


@pytest.mark.parametrize("micro_batches", [1, 2, 4])
@pytest.mark.parametrize("memory", MEMORIES)
def test_updates_are_those_of_the_plain_loop(memory: bool, micro_batches: int) -> None:
    made, expected = task(network(memory), None), network(memory)
    trainer(2, micro_batches, limit_val_batches=0).fit(made, datamodule=data())
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.05)
    for step, batch in enumerate(batches()):
        optimizer.zero_grad()
        total, aux = alone(expected, batch.examples, memory, step)
        (total / batch.step_targets + (aux if memory else 0.0)).backward()
        optimizer.step()
    ours, begun = dict(made.net.named_parameters()), dict(network(memory).named_parameters())
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(ours[name], parameter, rtol=0.0, atol=1e-9)
    moved = [name for name in ours if not torch.equal(ours[name], begun[name])]
    assert len(moved) == len(ours), "everything learns, memories included"


@pytest.mark.parametrize("memory", MEMORIES)
def test_nothing_of_a_conversation_is_in_the_next(memory: bool) -> None:
    losses = []
    for order in ((0, 1), (1,)):
        made = task(network(memory), None)
        made._trainer = trainer(1)
        made._trainer.datamodule = data()  # type: ignore[attr-defined]
        result = [float(made.training_step(batches()[which], 0)["loss"].detach()) for which in order]
        losses.append(result[-1])
        assert made.carried == {}
    assert losses[0] == losses[1]


# --- evaluation ----------------------------------------------------------------------------------------------------


def scored(made: DialogueModel, module: GeneratedDialogueData | None = None) -> dict[str, Any]:
    trainer(1).test(made, datamodule=module or data(), verbose=False)
    result = {m.name: m for m in made.measurements()}
    assert len(result) == len(made.measurements())
    return result


@pytest.mark.parametrize("memory", MEMORIES)
def test_scores_are_those_of_the_plain_loop(memory: bool) -> None:
    made = task(network(memory))
    result = scored(made)
    metrics = ("loss", "ppl", "f1", "rouge1", "rougeL", "meteor")
    assert set(result) == {f"{kind}/{metric}" for kind in ("test", "val") for metric in metrics}
    examples = data().examples("test", torch.arange(EVAL).numpy(), None)
    with torch.no_grad():
        total, _ = alone(made.net, examples, memory)
    words = TALK.utterance_tokens * EVAL
    assert result["test/loss"].value == pytest.approx(float(total) / words, rel=1e-9)
    assert (result["test/ppl"].count, result["test/ppl"].unit) == (words, "perplexity per token")
    assert result["test/ppl"].value == pytest.approx(float((total / words).exp()), rel=1e-9)
    assert result["test/f1"].validation == result["val/f1"].value
    assert result["test/f1"].count == EVAL * 5, "of six utterances, one has no history"
    assert 0 < result["test/f1"].value < 100
    assert result["test/meteor"].protocol["synonyms"] is False
    assert "synonyms" not in result["test/f1"].protocol


def test_replies_depend_on_the_seed_and_on_nothing_else() -> None:
    texts = []
    few = Generation(max_new=4, history=4, temperature=9.0, synonyms=False)  # far from certain
    for settings in ({}, {"eval_batch_size": 5}, {"seed": 1}):
        made = task(network(True), few)
        torch.manual_seed(len(texts))
        scored(made, data(**settings))
        texts.append(made.outputs())
    assert texts[0] is not None
    assert texts[0] == texts[1] != texts[2]
    lines = texts[0].splitlines()
    assert len(lines) == EVAL * 2
    assert all(1 <= len(line.split()) <= HOW.max_new for line in lines)
    columns, rows = made.samples(3)
    assert columns == ["said", "reply"]
    assert [reply for _, reply in rows] == texts[2].splitlines()[:3]


def test_replies_of_a_network_that_hashes_depend_on_nothing_else() -> None:
    texts = []
    for seed, rows in ((0, 2), (1, 5)):
        net = network(False)
        for layer in net.stack.layers:
            layer["mix"].body = LSHAttention(8, 2, hashing=Hashing(rounds=1, chunk=2)).double()
        for parameter in net.parameters():
            parameter.data = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)).double()
        made = task(net, Generation(max_new=4, history=4, temperature=9.0, synonyms=False))
        torch.manual_seed(seed)
        scored(made, data(eval_batch_size=rows))
        texts.append(made.outputs())
    assert texts[0] == texts[1]


def test_no_text_of_data_that_are_not_public() -> None:
    class Private(GeneratedDialogueData):
        public = False

    private = Private(4, window=WINDOW, talk=TALK, score_all=True, train_examples=8, eval_examples=EVAL)
    made = task(network(False))
    result = scored(made, private)
    assert (made.outputs(), made.samples()) == (None, ([], []))
    assert result["test/f1"].value > 0


def test_without_generation_and_during_training_no_replies_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(network(True), None)
    assert set(scored(made)) == {f"{kind}/{metric}" for kind in ("test", "val") for metric in ("loss", "ppl")}
    made = task(network(True))
    monkeypatch.setattr("repro.tasks.language.dialogue.replies", lambda *_: pytest.fail("a reply"))
    trainer(2, val_check_interval=1).fit(made, datamodule=data())


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "how", "message"),
    [
        ({"score_all": False}, HOW, "score_all"),
        ({}, Generation(max_new=WINDOW, synonyms=False), "8"),
        ({}, Generation(max_new=4, synonyms=True), "WordNet"),
    ],
)
def test_replies_that_could_not_be_made_or_compared_are_refused_before_training(
    changes: dict[str, Any], how: Generation, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nltk

    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(UserError, match=message):
        trainer(1).fit(task(network(False), how), datamodule=data(**changes))


@pytest.mark.parametrize(
    "wrong", [{"top_p": 0.0}, {"top_p": 1.1}, {"temperature": 0.0}, {"max_new": 0}, {"history": -1}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Generation(**wrong)


def test_a_model_of_conversations_continues_no_plain_text(tmp_path: Path) -> None:
    words = SimpleNamespace(encode=lambda line: [5, 6], eos_id=2, bos_id=1, pad_id=0)
    trained = Trained(tmp_path, task(network(False)), cast(Any, words), 100)
    with pytest.raises(UserError, match="conversations"):
        sample_line(trained, "a line", Sampling(), 1, 0)
