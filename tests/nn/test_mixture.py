"""Mixtures of logistics against a naive loop: likelihoods, gradients, extremes, and that they are distributions."""

import math

import pytest
import torch
from torch import Tensor, nn

from repro.nn.vocabularies.mixture import LEAST_LOG_SCALE, PixelVocabulary

Component = tuple[float, float, float]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def naive_mass(component: Component, level: int, size: int = 256, least: float = 1e-5) -> float:
    """Computes the mass of a level under one component ``(mean, log scale)``, spelled out."""
    _, mean, log_scale = component
    scale = math.exp(max(log_scale, -7.0))
    at = 2 * level / (size - 1) - 1
    up, down = (at + 1 / (size - 1) - mean) / scale, (at - 1 / (size - 1) - mean) / scale
    if level == 0:
        return sigmoid(up)
    if level == size - 1:
        return sigmoid(-down)
    share = sigmoid(up) - sigmoid(down)
    if share > least:
        return share
    middle = (at - mean) / scale
    return sigmoid(middle) * sigmoid(-middle) / scale * 2 / (size - 1)


def naive_nll(components: list[Component], level: int, size: int = 256, least: float = 1e-5) -> float:
    weights = [math.exp(logit) for logit, _, _ in components]
    masses = [naive_mass(one, level, size, least) for one in components]
    return -math.log(sum(w * m for w, m in zip(weights, masses, strict=True)) / sum(weights))


def exposed(k: int, size: int = 256, dtype: torch.dtype = torch.float64) -> PixelVocabulary:
    """A vocabulary whose hidden states are the numbers of its mixture: logits, then means, then log scales."""
    vocabulary = PixelVocabulary(4, 3 * k, k, size).to(dtype)
    with torch.no_grad():
        vocabulary.proj.weight.copy_(torch.eye(3 * k))
        vocabulary.proj.bias.zero_()
    return vocabulary


def hidden_of(components: list[Component], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(components, dtype=dtype).T.flatten()


def varied(n: int, k: int) -> list[list[Component]]:
    """Mixtures of all kinds: in and outside the range, narrow, wide, and narrower than allowed.

    One component alone is not so narrow that the naive loop's probabilities underflow.
    """
    draw = torch.Generator().manual_seed(4)
    logits, means, scales = (torch.randn(n, k, generator=draw, dtype=torch.float64) for _ in range(3))
    scales = scales.clamp(min=-0.5) if k == 1 else scales
    return [
        list(zip(a, b, c, strict=True))
        for a, b, c in zip(logits.tolist(), (0.8 * means).tolist(), (2 * scales - 4).tolist(), strict=True)
    ]


@pytest.mark.parametrize(("size", "k"), [(256, 10), (256, 1), (16, 3), (2, 2)])
def test_likelihoods_equal_a_naive_loop(size: int, k: int) -> None:
    mixtures = varied(40, k)
    levels = [0, size - 1, *torch.randint(size, (38,), generator=torch.Generator().manual_seed(1)).tolist()]
    hidden = torch.stack([hidden_of(one) for one in mixtures])
    result = exposed(k, size).nll(hidden, torch.tensor(levels))
    expected = [naive_nll(one, level, size) for one, level in zip(mixtures, levels, strict=True)]
    assert result.tolist() == pytest.approx(expected, abs=1e-9, rel=1e-9)
    other = [naive_nll(one, (level + 1) % size, size) for one, level in zip(mixtures, levels, strict=True)]
    assert max(abs(a - b) for a, b in zip(result.tolist(), other, strict=True)) > 0.1


def test_every_level_of_one_mixture() -> None:
    """Also the threshold: without it, narrow components give other numbers."""
    components = [(0.3, -0.2, -6.0), (-1.0, 0.9, -3.5), (0.1, 0.4, -9.0)]
    result = exposed(3).log_probs(hidden_of(components)[None])[0]
    expected = [-naive_nll(components, level) for level in range(256)]
    assert result.tolist() == pytest.approx(expected, abs=1e-9, rel=1e-9)
    exact = [-naive_nll(components, level, least=0.0) for level in range(256)]
    assert max(abs(a - b) for a, b in zip(expected, exact, strict=True)) > 1e-3


def test_nll_and_log_probs_are_one_distribution_of_any_shape() -> None:
    torch.manual_seed(0)
    vocabulary, hidden = PixelVocabulary(4, 6), torch.randn(2, 5, 6)
    targets = torch.randint(256, (2, 5))
    every = vocabulary.log_probs(hidden)
    assert every.shape == (2, 5, 256)
    torch.testing.assert_close(
        vocabulary.nll(hidden, targets), -every.gather(-1, targets[..., None])[..., 0], rtol=0, atol=1e-6
    )


def test_levels_add_up_to_one() -> None:
    totals = exposed(10).log_probs(torch.stack([hidden_of(one) for one in varied(60, 10)])).exp().sum(-1)
    assert totals.max() <= 1 + 1e-9
    assert totals.min() > 1 - 1e-3
    assert totals.min() < 1 - 1e-8, "the threshold would not show"
    wide = exposed(1).log_probs(hidden_of([(0.0, 0.1, -2.0)])[None]).exp().sum()
    assert wide.item() == pytest.approx(1.0, abs=1e-12)


def test_gradients_equal_differences_of_the_naive_loop() -> None:
    components, step = [(0.3, -0.2, -3.0), (-1.0, 0.9, -1.5), (0.5, -1.1, -2.5)], 1e-6
    for level in (0, 97, 180, 255):
        hidden = hidden_of(components).requires_grad_()
        exposed(3).nll(hidden, torch.tensor(level)).backward()
        expected = []
        for place in range(9):
            sides = []
            for sign in (1, -1):
                moved = hidden.detach().clone()
                moved[place] += sign * step
                sides.append(naive_nll([(a, b, c) for a, b, c in moved.view(3, 3).T.tolist()], level))
            expected.append((sides[0] - sides[1]) / (2 * step))
        assert hidden.grad is not None
        assert hidden.grad.tolist() == pytest.approx(expected, abs=1e-7)
        assert max(map(abs, expected)) > 1e-2


def test_autograd_agrees_with_itself_twice() -> None:
    vocabulary = PixelVocabulary(4, 5, 3).double()
    hidden = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    targets = torch.tensor([0, 130, 255])
    assert torch.autograd.gradcheck(lambda h: vocabulary.nll(h, targets), hidden.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extremes_stay_finite(dtype: torch.dtype) -> None:
    """Far away, needle-sharp, endless: the likelihood is a number and so is its gradient."""
    places, scales = (-1e4, -1.0, 0.0, 0.5, 1.0, 1e4), (-1e3, -7.0, 0.0, 6.0, 80.0, 200.0)
    vocabulary = exposed(1, dtype=dtype)
    for place in places:
        for scale in scales:
            hidden = hidden_of([(0.0, place, scale)], dtype).requires_grad_()
            every = vocabulary.log_probs(hidden[None])
            every.sum().backward()
            assert every.isfinite().all(), (place, scale)
            assert hidden.grad is not None
            assert hidden.grad.isfinite().all(), (place, scale)
    far = vocabulary.nll(hidden_of([(0.0, -1e4, -7.0)], dtype), torch.tensor(255))
    assert far.item() == pytest.approx((1e4 + 1 - 1 / 255) * math.exp(7), rel=1e-5)


def test_single_precision_is_close_to_double() -> None:
    mixtures = torch.stack([hidden_of(one) for one in varied(60, 10)])
    targets = torch.randint(256, (60,), generator=torch.Generator().manual_seed(3))
    exact = exposed(10).nll(mixtures, targets)
    result = exposed(10, dtype=torch.float32).nll(mixtures.float(), targets)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), exact, rtol=1e-5, atol=2e-4)


def test_scales_have_a_floor_without_gradient_below() -> None:
    at, below = (hidden_of([(0.0, 0.1, s)]).requires_grad_() for s in (LEAST_LOG_SCALE, -9.0))
    target = torch.tensor(140)
    result = [exposed(1).nll(hidden, target) for hidden in (at, below)]
    assert result[0].item() == result[1].item()
    result[1].backward()
    assert below.grad is not None
    assert below.grad[2] == 0
    assert below.grad[1] != 0


def test_mixed_precision_keeps_the_head_exact() -> None:
    torch.manual_seed(0)
    vocabulary, hidden, targets = PixelVocabulary(4, 16), torch.randn(7, 16), torch.randint(256, (7,))
    plain = vocabulary.nll(hidden, targets)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = vocabulary.nll(hidden, targets)
    assert mixed.dtype == torch.float32
    assert torch.equal(mixed, plain)
    half = vocabulary.bfloat16().nll(hidden.bfloat16(), targets)
    assert half.dtype == torch.float32


def test_the_table_and_the_parameters() -> None:
    vocabulary = PixelVocabulary(5, 8, n_mixtures=10)
    assert sum(p.numel() for p in vocabulary.parameters()) == 256 * 5 + 8 * 30 + 30
    ids = torch.tensor([[0, 255], [7, 7]])
    assert torch.equal(vocabulary.embed(ids), vocabulary.embedding.table.weight[ids])
    assert vocabulary.size == 256
    assert isinstance(vocabulary.proj, nn.Linear)


def test_a_target_that_does_not_count_is_a_number() -> None:
    vocabulary = PixelVocabulary(4, 8)
    assert vocabulary.nll(torch.randn(3, 8), torch.full((3,), -1)).isfinite().all()


@pytest.mark.parametrize(("n", "size"), [(0, 256), (10, 1)])
def test_settings_that_cannot_be(n: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"not {n} and {size}"):
        PixelVocabulary(4, 8, n, size)
