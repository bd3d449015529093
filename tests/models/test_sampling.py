"""Greedy decoding against plain forward passes; sampling against the distribution it draws from."""

import pytest
import torch
from torch import Tensor

from repro.models.decodable import Decoded
from repro.models.sampling import draw, greedy, restrict, sample
from tests.models.tiny import greedy_by_hand, language_model, log_probs_of, translator

BOS, EOS, SIZE, LONGEST = 1, 2, 12, 10


def start(rows: int = 6, seed: int = 9) -> tuple[torch.nn.Module, Tensor, Tensor, object]:
    model = translator(SIZE, seed).eval()
    source = torch.randint(SIZE, (rows, 7), generator=torch.Generator().manual_seed(103))
    lengths = torch.tensor([7, 3, 5, 1, 6, 4] * rows)[:rows]
    with torch.inference_mode():
        return model, source, lengths, model.start(source, lengths, capacity=LONGEST)


def tokens(found: Decoded) -> list[list[int]]:
    return [row[:n] for row, n in zip(found.ids.tolist(), found.lengths.tolist(), strict=True)]


def test_greedy_equals_plain_forward_passes() -> None:
    model, source, lengths, state = start()
    limits = torch.tensor([10, 4, 10, 10, 1, 10])
    result = greedy(model, state, torch.full_like(lengths, BOS), limits, EOS)
    for row, (n, limit) in enumerate(zip(lengths.tolist(), limits.tolist(), strict=True)):
        total, new = greedy_by_hand(model, source[row, :n].tolist(), [BOS], limit, EOS)
        assert tokens(result)[row] == new
        assert result.log_probs[row].item() == pytest.approx(total, abs=1e-10)
        assert not result.ids[row, len(new) :].any()
    assert torch.equal(result.scores, result.log_probs)
    ended = [new[-1] == EOS for new in tokens(result)]
    assert 0 < sum(ended) < len(ended)


def test_greedy_takes_the_lowest_of_equal_tokens_and_turns_dropout_off() -> None:
    model = language_model(6)
    model.vocabulary.head.proj.weight.data.zero_()
    model.vocabulary.head.proj.weight.data[[3, 5], 0] = 1.0  # the other four are equal too
    result = [greedy(model, model.init_state(1, 8), torch.tensor([3]), 8, None) for _ in range(2)]
    assert model.training
    assert torch.equal(result[0].ids, result[1].ids)
    assert set(result[0].ids[0].tolist()) <= {0, 3}


def test_top_k_of_one_is_greedy() -> None:
    model, _, lengths, state = start()
    first = torch.full_like(lengths, BOS)
    best = greedy(model, state, first, LONGEST, EOS)
    model, _, _, state = start()
    drawn = sample(model, state, first, LONGEST, EOS, temperature=5.0, top_k=1)
    assert tokens(drawn) == tokens(best)
    torch.testing.assert_close(drawn.log_probs, best.log_probs, rtol=0, atol=1e-12)


def test_a_generator_makes_it_repeatable_and_log_probs_are_the_models() -> None:
    result = []
    for seed in (1, 1, 2):
        model, source, lengths, state = start()
        generator = torch.Generator().manual_seed(seed)
        first = torch.full_like(lengths, BOS)
        result.append(
            sample(model, state, first, LONGEST, EOS, temperature=2.0, top_k=5, generator=generator)
        )
    assert torch.equal(result[0].ids, result[1].ids)
    assert not torch.equal(result[0].ids, result[2].ids)
    for row, new in enumerate(tokens(result[0])):
        scores = log_probs_of(model, source[row, : lengths[row]].tolist(), [[BOS, *new[:-1]]])[0]
        total = scores.gather(1, torch.tensor(new)[:, None]).sum().item()
        assert result[0].log_probs[row].item() == pytest.approx(total, abs=1e-10)


def test_a_sample_does_not_depend_on_what_its_batch_mates_are() -> None:
    drawn = []
    for other in (3, 7):
        model = translator(SIZE, 9).eval()
        source = torch.full((6, 5), other)
        source[2] = torch.tensor([4, 9, 1, 0, 6])
        state = model.start(source, None, capacity=LONGEST)
        generator = torch.Generator().manual_seed(0)
        drawn.append(sample(model, state, torch.full((6,), BOS), LONGEST, EOS, generator=generator))
    assert tokens(drawn[0])[2] == tokens(drawn[1])[2]
    assert tokens(drawn[0]) != tokens(drawn[1])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_samples_follow_the_softmax(temperature: float) -> None:
    """Chi-square over 6 tokens: 5 degrees of freedom, 99.99 % of correct samplers stay below 25.7."""
    model, count = language_model(6), 20_000
    first = torch.full((count,), 3)
    generator = torch.Generator().manual_seed(0)
    drawn = sample(model, model.init_state(count, 1), first, 1, None, temperature, generator=generator)
    expected = (log_probs_of(model, None, [[3]])[0, -1] / temperature).softmax(-1) * count
    seen = drawn.ids[:, 0].bincount(minlength=6)
    assert expected.min() > 5
    assert ((seen - expected) ** 2 / expected).sum() < 25.7
    for wrong in (0.5 * temperature, 2 * temperature):
        other = (log_probs_of(model, None, [[3]])[0, -1] / wrong).softmax(-1) * count
        assert ((seen - other) ** 2 / other).sum() > 100


@pytest.mark.parametrize(
    ("top_k", "top_p", "kept"),
    [
        (None, None, [0, 1, 2, 3, 4]),
        (None, 1.0, [0, 1, 2, 3, 4]),
        (9, None, [0, 1, 2, 3, 4]),
        (2, None, [1, 3]),
        (None, 0.39, [1]),
        (None, 0.41, [1, 3]),
        (None, 0.75, [0, 1, 3]),  # 0.4 + 0.3 falls short; of two equal tokens the lower is taken
        (None, 0.85, [0, 1, 2, 3]),
        (None, 1e-9, [1]),
        (3, 0.8, [1, 3]),  # of what is left of three: 0.5, 0.375, 0.125
        (3, 0.9, [0, 1, 3]),
    ],
)
def test_restrict_keeps_the_smallest_set(top_k: int | None, top_p: float | None, kept: list[int]) -> None:
    p = torch.tensor([0.1, 0.4, 0.1, 0.3, 0.1], dtype=torch.float64)
    left, ids = restrict(p.log()[None], top_k, top_p)
    ids = torch.arange(5)[None] if ids is None else ids
    assert sorted(ids[left > 0].tolist()) == kept
    shares = dict(zip(ids[0].tolist(), (left / left.sum())[0].tolist(), strict=True))
    for token in kept:
        assert shares[token] == pytest.approx((p[token] / p[kept].sum()).item())


def test_a_set_that_has_exactly_the_mass_is_enough() -> None:
    left, ids = restrict(torch.tensor([[0.25, 0.5, 0.25]], dtype=torch.float64).log(), None, 0.5)
    assert ids is not None
    assert ids[left > 0].tolist() == [1]


def test_draw_inverts_the_cumulative_distribution() -> None:
    p = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]])
    edges = torch.tensor([0.0, 0.2499, 0.25, 0.9, 1 - 2**-24])
    assert draw(p.expand(5, -1).contiguous(), edges).tolist() == [1, 1, 3, 3, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be above 0 and finite, not 0.0"),
        ({"temperature": -1.0}, "temperature must be above 0 and finite, not -1.0"),
        ({"temperature": float("inf")}, "temperature must be above 0 and finite, not inf"),
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"top_p": 0.0}, "top_p must be above 0 and at most 1, not 0.0"),
        ({"top_p": 1.01}, "top_p must be above 0 and at most 1, not 1.01"),
    ],
)
def test_bad_arguments(options: dict[str, float], message: str) -> None:
    model = language_model(5)
    with pytest.raises(ValueError, match=message):
        sample(model, model.init_state(1, 3), torch.tensor([1]), 3, None, **options)


def test_outputs_that_are_not_numbers_are_an_error() -> None:
    model = language_model(5)
    model.vocabulary.head.proj.weight.data[0, 0] = torch.nan
    with pytest.raises(FloatingPointError, match=r"log-probabilities.*0"):
        greedy(model, model.init_state(2, 3), torch.tensor([1, 2]), 3, None)
    for options in ({}, {"top_k": 2}, {"top_p": 0.5}):
        with pytest.raises(FloatingPointError, match=r"log-probabilities.*0"):
            sample(model, model.init_state(2, 3), torch.tensor([1, 2]), 3, None, **options)
