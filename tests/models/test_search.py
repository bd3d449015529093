"""Beam search against exhaustive search, and against a plain one over lists that never stops early."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.models.decodable import Decoded, step
from repro.models.sampling import greedy
from repro.models.search import LengthForm, beam_search, length_penalty
from repro.nn import MixerOutput, State
from tests.models.tiny import (
    PENALTIES,
    beam_by_hand,
    beams_by_hand,
    every_sequence,
    language_model,
    log_probs_of,
    translator,
)

BOS, EOS, SIZE = 1, 2, 12
LENGTHS = [7, 3, 5, 1, 6, 4, 7, 2]


def sources(vocab_size: int = SIZE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(103)
    lengths = torch.tensor(LENGTHS)
    return torch.randint(vocab_size, (len(LENGTHS), 7), generator=generator), lengths


def search(model: nn.Module, rows: slice = slice(None), extra: int = 5, **options: Any) -> Decoded:
    source, lengths = (t[rows] for t in sources())
    source = source[:, : int(lengths.max())]
    with torch.inference_mode():
        state = model.eval().start(source, lengths, capacity=int(lengths.max()) + extra)
    return beam_search(model, state, torch.full_like(lengths, BOS), lengths + extra, EOS, **options)


def tokens(found: Decoded) -> list[list[int]]:
    return [row[:n] for row, n in zip(found.ids.tolist(), found.lengths.tolist(), strict=True)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_a_beam_as_large_as_the_space_is_exhaustive(seed: int, alpha: float) -> None:
    model, longest = translator(4, seed), 4
    source = [3, 0, 1]
    with torch.inference_mode():
        state = model.eval().start(torch.tensor([source]), None, capacity=longest)
    result = beam_search(model, state, torch.tensor([BOS]), longest, EOS, beam=3**longest, alpha=alpha)
    everything = every_sequence(model, source, [BOS], longest, EOS)
    assert len(everything) == 1 + 3 + 9 + 27 + 81
    score, total, new = max((total / ((5 + len(new)) / 6) ** alpha, total, new) for total, new in everything)
    assert tokens(result) == [new]
    assert result.scores.item() == pytest.approx(score, abs=1e-10)
    assert result.log_probs.item() == pytest.approx(total, abs=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize("beam", [1, 2, 4])
def test_equals_a_plain_search_that_never_stops_early(beam: int, alpha: float) -> None:
    model = translator(SIZE, seed=5).eval()
    result = search(model, beam=beam, alpha=alpha)
    source, lengths = sources()
    for row, n in enumerate(lengths.tolist()):
        best, new = beam_by_hand(model, source[row, :n].tolist(), BOS, n + 5, EOS, beam, alpha)
        assert tokens(result)[row] == new
        assert result.scores[row].item() == pytest.approx(best, abs=1e-10)
    # This means little unless sentences end at different times, some by the end symbol, some cut off.
    assert len(set(result.lengths.tolist())) >= 4
    ended = [new[-1] == EOS for new in tokens(result)]
    assert any(ended)
    assert not all(ended)


FORMS = pytest.mark.parametrize("form", ["vaswani", "power"])


@FORMS
def test_penalties(form: LengthForm) -> None:
    lengths = torch.arange(1, 8, dtype=torch.float64)
    for alpha in (0.0, 0.6, 1.0, 2.5):
        expected = [PENALTIES[form](length, alpha) for length in range(1, 8)]
        assert length_penalty(lengths, alpha, form).tolist() == pytest.approx(expected, abs=1e-12)


@FORMS
@pytest.mark.parametrize(("least", "forbidden", "n"), [(0, (), 7), (2, (), 5), (1, (3,), 11), (9, (0,), 16)])
def test_the_n_best_of_a_large_beam_are_the_best_of_everything(
    form: LengthForm, least: int, forbidden: tuple[int, ...], n: int
) -> None:
    model, longest, source, alpha = translator(4, seed=3), 4, [3, 0, 1], 1.3
    with torch.inference_mode():
        state = model.eval().start(torch.tensor([source]), None, capacity=longest)
    result = beam_search(
        model, state, torch.tensor([BOS]), longest, EOS, 3**longest, alpha, form, least, forbidden, n
    )
    allowed = [
        (total / PENALTIES[form](len(new), alpha), new)
        for total, new in every_sequence(model, source, [BOS], longest, EOS)
        if not set(new) & set(forbidden) and (new[-1] != EOS or len(new) > least)
    ]
    allowed = sorted(allowed, reverse=True)[:n]
    assert tokens(result) == [new for _, new in allowed]
    assert result.scores.tolist() == pytest.approx([score for score, _ in allowed], abs=1e-10)


@FORMS
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.5])
@pytest.mark.parametrize(
    ("beam", "n", "least", "forbidden"), [(3, 3, 0, ()), (5, 4, 2, (0,)), (4, 2, 6, (9, 3))]
)
def test_the_n_best_equal_a_plain_search_that_never_stops_early(
    form: LengthForm, alpha: float, beam: int, n: int, least: int, forbidden: tuple[int, ...]
) -> None:
    model = translator(SIZE, seed=5).eval()
    options = {"length_form": form, "min_length": least, "forbidden": forbidden}
    result = search(model, beam=beam, alpha=alpha, n_best=n, **options)
    best = search(model, beam=beam, alpha=alpha, **options)
    news = tokens(result)
    assert tokens(best) == news[::n]
    torch.testing.assert_close(best.scores, result.scores[::n], rtol=0, atol=1e-12)
    source, lengths = sources()
    for row, size in enumerate(lengths.tolist()):
        words = source[row, :size].tolist()
        plain = beams_by_hand(
            model, words, BOS, size + 5, EOS, beam, PENALTIES[form], alpha, least, forbidden
        )[:n]
        here = slice(n * row, n * row + n)
        assert news[here] == [new for _, new in plain]
        assert result.scores[here].tolist() == pytest.approx([score for score, _ in plain], abs=1e-10)
        penalties = [PENALTIES[form](len(new), alpha) for new in news[here]]
        assert (result.log_probs / result.scores)[here].tolist() == pytest.approx(penalties, abs=1e-10)
    # This means little unless hypotheses end at different times, and without the limits other ones are best.
    assert len({len(new) for new in news if new[-1] == EOS}) >= 2
    assert not least or tokens(search(model, beam=beam, alpha=alpha, n_best=n, length_form=form)) != news


def test_ranks_that_nothing_fills_are_empty() -> None:
    table = torch.tensor([[0.2, 0.3, 0.5], [0.45, 0.45, 0.1], [0.3, 0.3, 0.4]])
    model = Table(table)
    options = {"beam": 6, "n_best": 6, "forbidden": [1], "alpha": 0.0}
    result = beam_search(model, model.start(2), torch.tensor([0, 1]), torch.tensor([3, 2]), EOS, **options)
    # After 0: the end, 0 and the end, 0 0 and the end, 0 0 0. After 1: 0 and the end, 0 0, the end.
    assert tokens(result)[:4] == [[2], [0, 2], [0, 0, 2], [0, 0, 0]]
    assert tokens(result)[4:] == [[], [], [0, 2], [2], [0, 0], [], [], []]
    assert result.scores.isneginf().tolist() == [not new for new in tokens(result)]
    expected = torch.tensor([0.5, 0.2 * 0.5, 0.2 * 0.2 * 0.5, 0.2**3]).log()
    torch.testing.assert_close(result.scores[:4], expected)


def test_a_beam_of_one_is_greedy() -> None:
    model = translator(SIZE, seed=5).eval()
    source, lengths = sources()
    first = torch.full_like(lengths, BOS)
    with torch.inference_mode():
        state = model.start(source, lengths, capacity=12)
    best = greedy(model, state, first, lengths + 5, EOS)
    result = search(model, beam=1, alpha=0.0)
    assert tokens(result) == tokens(best)
    torch.testing.assert_close(result.log_probs, best.log_probs, rtol=0, atol=1e-12)
    # With a penalty on short sentences it may go on behind greedy's end, but only to something better.
    penalty = ((5 + best.lengths.double()) / 6) ** 0.6
    assert (search(model, beam=1, alpha=0.6).scores >= best.log_probs / penalty - 1e-12).all()


@pytest.mark.parametrize("alpha", [0.0, 0.6])
def test_a_sentence_never_depends_on_its_batch_mates(alpha: float) -> None:
    model = translator(SIZE, seed=5)
    together = search(model, beam=4, alpha=alpha)
    for row in range(len(LENGTHS)):
        alone = search(model, rows=slice(row, row + 1), beam=4, alpha=alpha)
        assert tokens(alone)[0] == tokens(together)[row]
        assert alone.scores.item() == pytest.approx(together.scores[row].item(), abs=1e-12)


def test_done_sentences_leave_the_batch_and_results_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    model = translator(SIZE, seed=5)
    rows: list[int] = []
    decode = model.decode

    def spy(ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        rows.append(ids.shape[0])
        return decode(ids, state, lengths)

    monkeypatch.setattr(model, "decode", spy)
    shrinking = search(model, beam=4)
    assert rows[0] == 4 * len(LENGTHS)
    assert rows[-1] < 4 * len(LENGTHS) / 2
    monkeypatch.setattr("repro.models.decodable.COMPACT_BELOW", 0.0)
    rows.clear()
    whole = search(model, beam=4)
    assert set(rows) == {4 * len(LENGTHS)}
    assert torch.equal(shrinking.ids, whole.ids)
    torch.testing.assert_close(shrinking.scores, whole.scores, rtol=0, atol=1e-12)


def test_stops_as_soon_as_nothing_better_can_come() -> None:
    model = Table(torch.tensor([[0.2, 0.3, 0.5], [0.45, 0.45, 0.1], [0.3, 0.3, 0.4]]))
    for alpha, calls in [(0.0, 1), (0.6, 5)]:
        # What ends at once has log 0.5 = -0.69. After n steps the best live log P is log 0.3 + (n - 1) log 0.45; over
        # the largest penalty, ((5 + 100) / 6)^0.6 = 5.57, that is -0.65 at n = 4 and -0.79 at n = 5.
        model.calls = 0
        result = beam_search(model, model.start(1), torch.tensor([0]), 100, EOS, beam=2, alpha=alpha)
        assert (tokens(result), model.calls) == ([[EOS]], calls)


def test_the_nth_best_decides_when_to_stop() -> None:
    model = Table(torch.tensor([[0.2, 0.3, 0.5], [0.45, 0.45, 0.1], [0.3, 0.3, 0.4]]))
    for n, calls, ended in [(1, 1, [[EOS]]), (2, 3, [[EOS], [1, 0, EOS]])]:
        # Likeliest are the end at once, 0.5; then 1 0 and 1 1, 0.135 each; 1 0 and the end, 0.0675. All that lives
        # behind these has 0.0608 at most.
        model.calls = 0
        result = beam_search(model, model.start(1), torch.tensor([0]), 100, EOS, beam=2, alpha=0.0, n_best=n)
        assert (tokens(result), model.calls) == (ended, calls)


def test_a_longer_better_hypothesis_is_not_cut_off_by_an_early_end() -> None:
    """After token 1 everything is nearly certain, but the end symbol alone is likelier than token 1."""
    sure = 0.999
    model = Table(torch.tensor([[0.02, 0.43, 0.55], [0.0005, sure, 0.0005], [0.3, 0.3, 0.4]]))
    short = beam_search(model, model.start(1), torch.tensor([0]), 12, EOS, beam=2, alpha=0.0)
    long = beam_search(model, model.start(1), torch.tensor([0]), 12, EOS, beam=2, alpha=1.0)
    assert tokens(short) == [[EOS]]
    assert tokens(long) == [[1] * 12]
    expected = torch.tensor(0.43).log() + 11 * torch.tensor(sure).log()
    assert long.log_probs.item() == pytest.approx(expected.item(), abs=1e-5)
    assert long.scores.item() == pytest.approx(expected.item() / (17 / 6), abs=1e-5)


def test_ties_go_to_the_lower_beam_and_token() -> None:
    model = Table(torch.full((5, 5), 0.2))
    result = beam_search(model, model.start(2), torch.tensor([0, 4]), 3, None, beam=3)
    assert tokens(result) == [[0, 0, 0], [0, 0, 0]]
    result = beam_search(model, model.start(2), torch.tensor([0, 4]), 3, 0, beam=3, alpha=0.0)
    assert tokens(result) == [[0], [0]]


def test_each_row_has_its_own_longest_length() -> None:
    model = Table(torch.tensor([[0.9, 0.1, 0.0], [0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]))
    result = beam_search(model, model.start(3), torch.tensor([0, 0, 0]), torch.tensor([1, 5, 3]), EOS, beam=2)
    assert tokens(result) == [[0], [0] * 5, [0] * 3]
    assert result.ids.shape == (3, 5)
    assert model.calls == 5


def test_language_models_search_too() -> None:
    model = language_model(6, seed=1).eval()
    prompt, longest = [3, 1, 4], 4
    with torch.inference_mode():
        state = model.init_state(1, capacity=6)
        state = model.decode(torch.tensor([prompt[:-1]]), state).state
    result = beam_search(
        model, state, torch.tensor(prompt[-1:]), longest, EOS, beam=300
    )  # five tokens go on: at most 125 live at the last step
    everything = every_sequence(model, None, prompt, longest, EOS)
    score, new = max((total / ((5 + len(new)) / 6) ** 0.6, new) for total, new in everything)
    assert tokens(result) == [new]
    assert result.scores.item() == pytest.approx(score, abs=1e-10)


def test_a_step_equals_the_full_forward_pass() -> None:
    model = translator(SIZE, seed=5).eval()
    source, lengths = sources()
    ids = torch.randint(SIZE, (len(LENGTHS), 9), generator=torch.Generator().manual_seed(5))
    rows = zip(source.tolist(), LENGTHS, ids.tolist(), strict=True)
    whole = [log_probs_of(model, words[:n], [prefix])[0] for words, n, prefix in rows]
    with torch.inference_mode():
        state = model.start(source, lengths, capacity=9)
        for at in range(9):
            scores, state = step(model, ids[:, at], state)
            for row in range(len(LENGTHS)):
                torch.testing.assert_close(scores[row], whole[row][at], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"beam": -2}, "beam must be at least 1, not -2"),
        ({"alpha": -0.1}, "alpha must be at least 0 and finite, not -0.1"),
        ({"alpha": float("nan")}, "alpha must be at least 0 and finite, not nan"),
        ({"min_length": -1}, "min_length must be at least 0, not -1"),
        ({"n_best": 0}, "n_best must be 1 to beam, which is 4, not 0"),
        ({"n_best": 3, "beam": 2}, "n_best must be 1 to beam, which is 2, not 3"),
        ({"length_form": "gnmt"}, "length_form must be one of vaswani, power, not 'gnmt'"),
        ({"extra": -7}, "max_new must be at least 1, not -6"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str) -> None:
    extra = options.pop("extra", 5)
    model = translator(SIZE)
    source, lengths = sources()
    with pytest.raises(ValueError, match=message):
        beam_search(
            model, model.start(source, lengths, capacity=12), lengths, lengths + extra, EOS, **options
        )


def test_outputs_that_are_not_numbers_are_an_error() -> None:
    model = Table(torch.full((3, 3), torch.nan))
    with pytest.raises(FloatingPointError, match=r"log-probabilities.*0"):
        beam_search(model, model.start(1), torch.tensor([0]), 4, EOS)
    model = Table(torch.full((3, 3), 1 / 3))
    with pytest.raises(FloatingPointError, match=r"log-probabilities.*0"):
        beam_search(model, model.start(1), torch.tensor([0]), 4, EOS, forbidden=[0, 1, 2])


class Table(nn.Module):
    """The next token's probabilities depend on the last token alone, by a table ``(V, V)``; no weights."""

    def __init__(self, probabilities: Tensor) -> None:
        super().__init__()
        self.probabilities = probabilities
        self.vocabulary = self
        self.calls = 0

    def start(self, batch: int) -> State:
        return {"stream": {"start": torch.zeros(batch)}, "memory": {}}

    def decode(self, ids: Tensor, state: State, lengths: Tensor | None = None) -> MixerOutput:
        self.calls += 1
        return MixerOutput(self.probabilities[ids], state)

    def modules(self) -> list[nn.Module]:  # type: ignore[override]
        return []

    def log_probs(self, hidden: Tensor) -> Tensor:
        return hidden.log()
