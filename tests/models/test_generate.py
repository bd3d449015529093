"""From sources and prompts to token ids."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models import DecoderLM
from repro.models.decodable import Search
from repro.models.generate import Hypotheses, continue_prompt, translate
from repro.models.sampling import greedy, sample
from repro.models.search import LengthForm, beam_search
from repro.nn import Added, Blocks, FeedForward, FullAttention, LearnedPositions, State, Vocabulary
from repro.nn.settings import AS_BUILT, CallSettings
from tests.models.tiny import PENALTIES, beams_by_hand, greedy_by_hand, language_model, translator

PAD, BOS, EOS, SIZE = 0, 1, 2, 12
LENGTHS = [7, 3, 5, 1, 6, 4]
PROMPTS = [[3, 1, 4, 1, 5], [7], [9, 2], [6, 5, 3, 8, 9, 7, 10], [4, 4, 4]]


def batch() -> tuple[Tensor, Tensor]:
    source = torch.randint(3, SIZE, (len(LENGTHS), 7), generator=torch.Generator().manual_seed(103))
    lengths = torch.tensor(LENGTHS)
    return source.masked_fill(torch.arange(7) >= lengths[:, None], PAD), lengths


@pytest.mark.parametrize(("form", "least", "n"), [("vaswani", 0, 1), ("power", 2, 3)])
def test_translate_is_the_papers_search_without_special_symbols(form: LengthForm, least: int, n: int) -> None:
    model = translator(SIZE, seed=5)
    source, lengths = batch()
    result = translate(
        model, source, lengths, BOS, EOS, PAD, beam=3, alpha=0.6, max_extra=4, length_form=form, min_length=least,
        n_best=n,
    )  # fmt: skip
    assert len(result.ids) == len(result.scores) == n * len(LENGTHS)
    raw = []
    for row, size in enumerate(LENGTHS):
        words = source[row, :size].tolist()
        plain = beams_by_hand(model, words, BOS, size + 4, EOS, 3, PENALTIES[form], 0.6, least, [PAD])
        for at, (score, new) in enumerate(plain[:n], n * row):
            raw.append(new)
            assert result.ids[at] == [token for token in new if token not in {BOS, EOS}]
            assert result.scores[at] == pytest.approx(score, abs=1e-10)
    assert any(new[-1] == EOS for new in raw)
    assert any(new[-1] != EOS for new in raw)
    assert model.training  # dropout was off meanwhile and is on again


def test_a_translation_never_depends_on_its_batch_mates() -> None:
    model = translator(SIZE, seed=5)
    source, lengths = batch()
    together = translate(model, source, lengths, BOS, EOS, PAD)
    for row, n in enumerate(LENGTHS):
        alone = translate(model, source[row : row + 1, :n], None, BOS, EOS, PAD)
        assert alone.ids[0] == together.ids[row]
        assert alone.scores[0] == pytest.approx(together.scores[row], abs=1e-12)
    backwards = translate(model, source.flip(0), lengths.flip(0), BOS, EOS, PAD)
    assert backwards.ids[::-1] == together.ids


def test_an_end_symbol_first_gives_an_empty_translation() -> None:
    model = _favouring(EOS)
    source, lengths = batch()
    result = translate(model, source, lengths, BOS, EOS, PAD, beam=2)
    assert result.ids == [[]] * len(LENGTHS)
    assert max(result.scores) < 0


def test_the_longest_length_is_the_sources_and_max_extra() -> None:
    model = _favouring(5)
    source, lengths = batch()
    for extra in (0, 2):
        result = translate(model, source, lengths, BOS, EOS, PAD, beam=2, max_extra=extra).ids
        assert [len(new) for new in result] == [n + extra for n in LENGTHS]
    result = translate(model, source, lengths, BOS, EOS, PAD, beam=2, max_extra=-5).ids
    assert [len(new) for new in result] == [2, 1, 1, 1, 1, 1]


def test_no_translation_is_longer_than_learned_positions() -> None:
    model = _favouring(5)
    model.table = LearnedPositions(8, 7)
    source, lengths = batch()
    result = translate(model, source, lengths, BOS, EOS, PAD, beam=2, max_extra=2).ids
    assert [len(new) for new in result] == [min(n + 2, 7) for n in LENGTHS]
    with pytest.raises(ValueError, match="a source has 8 tokens, the network learns 7 positions only"):
        translate(model, torch.full((1, 8), 5), None, BOS, EOS, PAD)


def test_the_longest_length_is_a_multiple_of_the_sources_and_max_extra() -> None:
    model = _favouring(5)
    source, lengths = batch()  # of 7, 3, 5, 1, 6, 4 tokens
    for ratio, extra, expected in [
        (1.2, 1, [9, 4, 7, 2, 8, 5]),
        (0.0, 3, [3] * 6),
        (0.5, 0, [3, 1, 2, 1, 3, 2]),
    ]:
        result = translate(
            model, source, lengths, BOS, EOS, PAD, beam=2, max_extra=extra, max_ratio=ratio
        ).ids
        assert [len(new) for new in result] == expected
    with pytest.raises(ValueError, match=r"max_ratio.*-0.5"):
        translate(model, source, lengths, BOS, EOS, PAD, max_ratio=-0.5)


def test_padding_is_never_chosen() -> None:
    model = _favouring(PAD)
    model.vocabulary.head.proj.weight.data[5] = 0.199  # nearly as likely
    source, lengths = batch()
    for beam in (1, 3):
        result = translate(model, source, lengths, BOS, EOS, PAD, beam=beam, max_extra=0)
        assert result.ids == [[5] * n for n in LENGTHS]


def test_nothing_to_translate_and_empty_sources() -> None:
    model = translator(SIZE)
    source, lengths = batch()
    assert translate(model, source[:0], lengths[:0], BOS, EOS, PAD) == Hypotheses([], [])
    lengths[4] = 0
    with pytest.raises(ValueError, match=r"source 4.*0"):
        translate(model, source, lengths, BOS, EOS, PAD)
    with pytest.raises(ValueError, match=r"source 0.*0"):
        translate(model, source[:, :0], None, BOS, EOS, PAD)
    with pytest.raises(ValueError, match=r"beam.*1, not 0"):
        translate(model, source[:2], lengths[:2], BOS, EOS, PAD, beam=0)


def test_prompts_of_any_lengths_continue_as_by_hand() -> None:
    model = language_model(SIZE, seed=6)
    result = continue_prompt(model, PROMPTS, 9, EOS)
    ended = 0
    for row, prompt in enumerate(PROMPTS):
        total, new = greedy_by_hand(model, None, prompt, 9, EOS)
        assert result.ids[row] == [token for token in new if token != EOS]
        assert result.scores[row] == pytest.approx(total, abs=1e-10)
        ended += new[-1] == EOS
    assert 0 < ended < len(PROMPTS)
    without_end = continue_prompt(model, PROMPTS, 9)
    assert [len(new) for new in without_end.ids] == [9] * len(PROMPTS)


@pytest.mark.parametrize("search", [greedy, partial(beam_search, beam=3), partial(sample, top_k=1)])
def test_prompts_in_a_batch_equal_prompts_one_by_one(search: Search) -> None:
    model = language_model(SIZE, seed=6)
    together = continue_prompt(model, PROMPTS, 9, EOS, search)
    for row, prompt in enumerate(PROMPTS):
        alone = continue_prompt(model, [prompt], 9, EOS, search)
        assert alone.ids[0] == together.ids[row]
        assert alone.scores[0] == pytest.approx(together.scores[row], abs=1e-12)


def test_prompts_of_one_token_need_no_first_pass() -> None:
    model = language_model(SIZE, seed=6)
    result = continue_prompt(model, [[7], [3]], 4)
    assert result.ids == [greedy_by_hand(model, None, [token], 4, None)[1] for token in (7, 3)]


def test_capacity_is_as_large_as_needed_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model(SIZE, seed=6)
    largest = []
    init_state = model.init_state

    def smaller(batch: int, capacity: int | None = None, settings: CallSettings = AS_BUILT) -> State:
        assert capacity is not None
        largest.append(capacity)
        return init_state(batch, capacity - 1, settings)

    continue_prompt(model, PROMPTS, 9)
    monkeypatch.setattr(model, "init_state", smaller)
    with pytest.raises(IndexError):
        continue_prompt(model, PROMPTS, 9)
    assert largest == [7 + 9 - 1]


def test_bad_prompts() -> None:
    model = language_model(SIZE)
    assert continue_prompt(model, [], 5) == Hypotheses([], [])
    with pytest.raises(ValueError, match="prompt 1"):
        continue_prompt(model, [[3], []], 5)
    with pytest.raises(ValueError, match=r"max_new.*1, not 0"):
        continue_prompt(model, [[3]], 0)
    model.stack.layers[0]["feed_forward"].body.extra = LearnedPositions(8, 12)
    assert len(continue_prompt(model, [[3, 4, 5]], 10).ids[0]) == 10
    with pytest.raises(
        ValueError, match="13 tokens of prompt and continuation are read, the network learns 12 positions"
    ):
        continue_prompt(model, [[3, 4, 5], [3]], 11)


@pytest.mark.parametrize("search", [greedy, partial(beam_search, beam=3), partial(sample, top_k=1)])
def test_a_continuation_may_use_every_learned_position(search: Search) -> None:
    blocks = Blocks([partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=12))
    positions = partial(Added, table=partial(LearnedPositions, max_length=6))
    model = DecoderLM(8, 1, partial(Vocabulary, size=SIZE), blocks, positions)
    assert len(continue_prompt(model, [[3, 4, 5]], 4, search=search).ids[0]) == 4
    with pytest.raises(ValueError, match="7 tokens"):
        continue_prompt(model, [[3, 4, 5]], 5, search=search)


def _favouring(token: int) -> torch.nn.Module:
    """A translator whose likeliest next token is always this one."""
    model = translator(SIZE)
    norm = model.decoder.layers[-1]["feed_forward"].norm_out
    norm.bias.data.fill_(5.0)  # every hidden state is about (5, ..., 5)
    model.vocabulary.head.proj.weight.data.zero_()
    model.vocabulary.head.proj.weight.data[token] = 0.2
    return model


def test_models_of_other_classes_with_the_same_methods_are_decoded() -> None:
    class Own(nn.Module):
        """Passes on everything but its class."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.inner = model

        def __getattr__(self, name: str) -> Any:
            return super().__getattr__(name) if name == "inner" else getattr(self.inner, name)

    source, lengths = batch()
    model = translator(SIZE)
    assert translate(Own(model), source, lengths, BOS, EOS, PAD) == translate(
        model, source, lengths, BOS, EOS, PAD
    )
    speaker = language_model(SIZE)
    assert continue_prompt(Own(speaker), PROMPTS, 6, EOS) == continue_prompt(speaker, PROMPTS, 6, EOS)
