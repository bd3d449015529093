"""The translation task against hand-made sums."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from repro.batches import Evaluation, PairBatch
from repro.models import EncoderDecoder
from repro.models.generate import translate
from repro.nn import AdaptiveVocabulary, Blocks, CrossAttention, FeedForward, FullAttention, Vocabulary
from repro.tasks import Constant, Translation, translation
from repro.tasks.metrics.sentences import Sentence, TranslationScores, one_line
from repro.tasks.translation import decode_batch
from tests.nn.reference import smoothed_divergence

SIZE = 11


def task(**more: Any) -> Translation:
    torch.manual_seed(0)
    blocks = Blocks(
        mixers=[lambda d: FullAttention(d, 2)],
        feed_forward=lambda d: FeedForward(d, 16),
        cross=lambda d: CrossAttention(d, 2),
    )
    net = EncoderDecoder(8, 1, 1, lambda width, d: Vocabulary(width, d, SIZE), blocks, dropout=0.0)
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return Translation(net, torch.optim.SGD, Constant, **more).double()


def batch() -> PairBatch:
    lengths = torch.tensor([4, 2])
    target = torch.tensor([[5, 6, 7, 2], [8, 2, 0, 0]])
    shifted = torch.tensor([[1, 5, 6, 7], [1, 8, 0, 0]])
    source = torch.tensor([[4, 5, 2], [9, 2, 0]])
    return PairBatch(source, torch.tensor([3, 2]), shifted, target, lengths, torch.tensor([0, 1]), 24)


def test_loss_is_the_smoothed_sum_over_the_tokens_of_the_whole_update() -> None:
    module, pairs = task(label_smoothing=0.1), batch()
    result = module.training_step(pairs, 0)
    hidden = module.net(pairs.source, pairs.source_lengths, pairs.target_in).y
    log_probs = module.net.vocabulary.log_probs(hidden).detach()
    expected, plain = 0.0, 0.0
    for row, length in ((0, 4), (1, 2)):
        for t in range(length):
            gold = int(pairs.target_out[row, t])
            p = log_probs[row, t]
            others = sum(float(p[v]) for v in range(SIZE) if v != gold)
            expected -= 0.9 * float(p[gold]) + 0.1 / (SIZE - 1) * others
            plain -= float(p[gold])
    assert result["loss"].item() == pytest.approx(expected / 24)
    assert float(result["sums"]["loss"]) == pytest.approx(expected)
    assert float(result["sums"]["nll"]) == pytest.approx(plain)
    assert int(result["sums"]["tokens"]) == 6


@pytest.mark.parametrize(("divergence", "needed"), [(False, "score"), (True, "padded_score")])
def test_a_vocabulary_that_cannot_be_smoothed_is_refused(divergence: bool, needed: str) -> None:
    net = torch.nn.Linear(1, 1)
    Translation(net, torch.optim.SGD, Constant, divergence=divergence)  # has none that could be asked
    net.vocabulary = AdaptiveVocabulary(8, 8, SIZE, [5])
    with pytest.raises(
        ValueError, match=rf"with {needed}, which AdaptiveVocabulary.*take repro\.nn\.Vocabulary"
    ):
        Translation(net, torch.optim.SGD, Constant, divergence=divergence)


def test_an_auxiliary_loss_is_part_of_the_loss_by_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    module, pairs = task(), batch()
    plain, forward = module.training_step(pairs, 0), module.net.forward
    aux = torch.tensor([1.0, 3.0])
    monkeypatch.setattr(module.net, "forward", lambda *args: forward(*args)._replace(aux=aux))
    result = module.training_step(pairs, 0)
    assert result["loss"].item() == pytest.approx(plain["loss"].item() + (4 * 1.0 + 2 * 3.0) / 24)
    assert result["sums"]["loss"] == plain["sums"]["loss"]


@pytest.mark.parametrize(
    "wrong", [{"beam": 0}, {"length_penalty": -1.0}, {"min_length": -1}, {"max_ratio": -1.0}]
)
def test_settings_of_the_search_are_refused_before_training(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=f"{next(iter(wrong)).replace('length_penalty', 'alpha')} must be at least"
    ):
        task(**wrong)


def test_without_smoothing_it_is_cross_entropy() -> None:
    module, pairs = task(label_smoothing=0.0), batch()
    logits = module.net.vocabulary.logits(module.net(pairs.source, pairs.source_lengths, pairs.target_in).y)
    expected = cross_entropy(
        logits.flatten(0, 1), pairs.target_out.flatten(), ignore_index=0, reduction="sum"
    )
    assert float(module.training_step(pairs, 0)["sums"]["loss"]) == pytest.approx(expected.item())


def test_the_divergence_is_a_declared_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translation, "data", SimpleNamespace(tokenizer=SimpleNamespace(pad_id=0)))
    module, pairs = task(label_smoothing=0.2, divergence=True), batch()
    result = module.training_step(pairs, 0)
    hidden = module.net(pairs.source, pairs.source_lengths, pairs.target_in).y
    logits, valid = module.net.vocabulary.logits(hidden), pairs.target_out != 0
    expected = smoothed_divergence(logits[valid], pairs.target_out[valid], 0.2, padding=0).sum()
    assert float(result["sums"]["loss"]) == pytest.approx(expected.item())
    assert result["loss"].item() == pytest.approx(expected.item() / 24)
    other = task(label_smoothing=0.2)
    usual = other.training_step(pairs, 0)
    assert float(result["sums"]["nll"]) == pytest.approx(float(usual["sums"]["nll"]))
    assert abs(float(usual["sums"]["loss"]) - expected.item()) > 0.1
    output = {"teacher_forced": True, "end_symbol": "counted", "label_smoothing": 0.2}
    assert other.forced("loss") == output
    assert module.forced("loss") == output | {"divergence": True}
    assert module.forced("nll") == other.forced("nll")


def test_padding_changes_nothing() -> None:
    module, pairs = task(), batch()
    wide = pairs._replace(
        source=torch.nn.functional.pad(pairs.source, (0, 3)),
        target_in=torch.nn.functional.pad(pairs.target_in, (0, 2)),
        target_out=torch.nn.functional.pad(pairs.target_out, (0, 2)),
    )
    narrow, padded = (module.training_step(p, 0)["loss"].item() for p in (pairs, wide))
    assert padded == pytest.approx(narrow, rel=1e-12)


def test_the_target_may_have_its_share_of_the_smoothing() -> None:
    module, other, pairs = (
        task(label_smoothing=0.2, smoothing_over_all=True),
        task(label_smoothing=0.2),
        batch(),
    )
    hidden = module.net(pairs.source, pairs.source_lengths, pairs.target_in).y
    logits, valid = module.net.vocabulary.logits(hidden), pairs.target_out != 0
    expected = cross_entropy(logits[valid], pairs.target_out[valid], label_smoothing=0.2, reduction="sum")
    result, usual = (float(m.training_step(pairs, 0)["sums"]["loss"]) for m in (module, other))
    assert result == pytest.approx(expected.item(), rel=1e-12)
    assert abs(usual - result) > 0.01
    assert module.forced("loss") == other.forced("loss") | {"smoothing_over_all": True}
    assert module.forced("nll") == other.forced("nll")
    with pytest.raises(ValueError, match=r"smoothing_over_all.*divergence"):
        task(divergence=True, smoothing_over_all=True)


@pytest.mark.parametrize("epsilon", [-0.1, 1.0])
def test_smoothing_out_of_range(epsilon: float) -> None:
    with pytest.raises(ValueError, match="label_smoothing"):
        task(label_smoothing=epsilon)


def test_a_record_states_settings_of_the_search_that_are_not_the_usual() -> None:
    search = task(beam=5, length_penalty=1.0, max_extra=7).search
    assert search.protocol == {"beam": 5, "length_penalty": 1.0, "max_extra": 7}
    more = {"length_form": "power", "min_length": 1, "max_ratio": 0.0}
    assert task(beam=5, length_penalty=1.0, max_extra=7, **more).search.protocol == search.protocol | more


def test_hypotheses_are_searched_as_the_task_says() -> None:
    pairs, tokenizer = batch(), SimpleNamespace(bos_id=1, eos_id=2, pad_id=0)
    for more in ({}, {"length_form": "power", "min_length": 3, "max_ratio": 2.0}):
        module = task(beam=3, length_penalty=0.4, max_extra=4, **more).eval()
        result = decode_batch(
            module.net, pairs.source, pairs.source_lengths, tokenizer, module.search._replace(n_best=2)
        )
        expected = translate(
            module.net,
            pairs.source,
            pairs.source_lengths,
            1,
            2,
            0,
            beam=3,
            alpha=0.4,
            max_extra=4,
            n_best=2,
            **more,
        )
        assert result == expected
        assert len(result.ids) == 4


def test_scores_weigh_tokens_and_sentences() -> None:
    rows = [Sentence(2.0, 3.0, 4, "eins", "eins"), Sentence(6.0, 7.0, 1, "zwo", "zwei")]
    result = TranslationScores("de").scored(rows)
    assert result["nll"] == pytest.approx(8.0 / 5)
    assert result["loss"] == pytest.approx(10.0 / 5)
    assert result["ppl"] == pytest.approx(4.953032, rel=1e-6)
    assert result["exact_match"] == 50.0


class FakeData:
    target_language = "de"

    def references(self, split: str) -> list[str]:
        return ["eins", "zwei"]

    sources = references

    def split(self, kind: str) -> str:
        return kind

    def expected(self, evaluation: Evaluation) -> dict[str, int]:
        return {"examples": 2, "tokens": 5}


@pytest.mark.parametrize(
    ("tokens", "message"), [([5], "1 examples were scored, not 2"), ([5, 1], "6 tokens were scored, not 5")]
)
def test_a_lost_sentence_or_token_stops_the_evaluation(tokens: list[int], message: str) -> None:
    module, size = task(), len(tokens)
    module._trainer = SimpleNamespace(datamodule=FakeData())  # type: ignore[assignment]
    module._begin([Evaluation("test")])
    (one,), counts = module._evaluations, torch.tensor(tokens)
    one.metrics["translations"].update(torch.arange(size), ["a"] * size, ["a"] * size, counts, counts, counts)
    one.examples.update(size)
    with pytest.raises(RuntimeError, match=message):
        module._end()


def test_a_hypothesis_is_one_line() -> None:
    assert one_line("a b\nc\r\nd\x85e\u2028f\n") == "a b c d e f"


def test_validation_during_training_is_greedy_without_a_penalty(monkeypatch: pytest.MonkeyPatch) -> None:
    module, searches = task(beam=3, length_penalty=0.4, max_extra=4).eval(), []

    def decoded(net: Any, source: Any, lengths: Any, tokenizer: Any, search: Any) -> Any:
        searches.append((search.beam, search.length_penalty))
        return SimpleNamespace(ids=[])

    monkeypatch.setattr(translation, "decode_batch", decoded)
    data = SimpleNamespace(split=str, references=lambda _: ["eins"] * 9, tokenizer=None)
    monkeypatch.setattr(Translation, "data", data)
    scores = {"translations": SimpleNamespace(update=lambda *_: None)}
    for evaluation in (module.validation(), module.tests()[0]):
        module.score(batch(), evaluation, scores)
    assert searches == [(1, 0.0), (3, 0.4)]
