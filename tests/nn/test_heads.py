"""Scores of targets: values, gradients, precision, label smoothing."""

import pytest
import torch
from torch import Tensor

from repro.nn import LinearHead, TokenScores, padded_scores, token_scores
from tests.nn import reference

V = 11


def logits_and_targets(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = 3.0 * torch.randn(2, 5, V, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(V, (2, 5), generator=generator)


def plain(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    scores = -logits.log_softmax(-1)
    return scores.gather(-1, targets[..., None]).squeeze(-1), scores.mean(-1)


def test_values_and_gradients_equal_log_softmax() -> None:
    logits, targets = logits_and_targets()
    weights = torch.randn(2, 2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    result = []
    for score in (token_scores, plain):
        given = logits.clone().requires_grad_()
        nll, uniform = score(given, targets)
        (weights[0] * nll + weights[1] * uniform).sum().backward()
        result.append((nll.detach(), uniform.detach(), given.grad))
    for got, expected in zip(*result, strict=True):
        assert torch.allclose(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("used", ["nll", "uniform"])
def test_the_gradient_is_right_where_only_one_score_is_used(used: str) -> None:
    logits, targets = logits_and_targets()
    given, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    getattr(token_scores(given, targets), used).sum().backward()
    plain(other, targets)[["nll", "uniform"].index(used)].sum().backward()
    assert torch.allclose(given.grad, other.grad, rtol=0, atol=1e-12)


def test_the_gradient_passes_a_numerical_check() -> None:
    logits, targets = logits_and_targets()
    given = logits[:1, :2, :5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tuple(token_scores(x, targets[:1, :2] % 5)), given)


def test_a_second_derivative_is_refused() -> None:
    logits, targets = logits_and_targets()
    given = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(token_scores(given, targets).nll.sum(), given, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        gradient.square().sum().backward()


def test_the_logits_are_left_as_they_were() -> None:
    logits, targets = logits_and_targets()
    given = logits.clone().requires_grad_()
    token_scores(given, targets).smoothed(0.1, V).sum().backward()
    assert torch.equal(given, logits)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_logits_are_scored_in_float32(dtype: torch.dtype) -> None:
    logits, targets = logits_and_targets(dtype)
    given = logits.clone().requires_grad_()
    scores = token_scores(given, targets)
    assert scores.nll.dtype == scores.uniform.dtype == torch.float32
    expected = plain(logits.double(), targets)
    assert torch.allclose(scores.nll.double(), expected[0], rtol=0, atol=1e-5)
    assert torch.allclose(scores.uniform.double(), expected[1], rtol=0, atol=1e-5)
    scores.nll.sum().backward()
    assert given.grad.dtype == dtype


def test_large_logits_do_not_overflow() -> None:
    logits = torch.tensor([[1000.0, -1000.0, 0.0]], requires_grad=True)
    scores = token_scores(logits, torch.tensor([1]))
    assert scores.nll.item() == 2000.0
    scores.nll.sum().backward()
    assert torch.allclose(logits.grad, torch.tensor([[1.0, -1.0, 0.0]]))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_smoothing_equals_the_naive_loop(epsilon: float) -> None:
    logits, targets = logits_and_targets()
    given, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    got = token_scores(given, targets).smoothed(epsilon, V)
    expected = reference.smoothed_loss(other.view(-1, V), targets.view(-1), epsilon).view(2, 5)
    assert torch.allclose(got, expected, rtol=0, atol=1e-12)
    got.sum().backward()
    expected.sum().backward()
    assert torch.allclose(given.grad, other.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4])
def test_the_divergence_equals_the_naive_loop(epsilon: float, padding: int) -> None:
    logits, targets = logits_and_targets()
    targets = targets.where(targets != padding, 7)
    given, other = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    got = padded_scores(given, targets, padding).smoothed(epsilon, V)
    expected = reference.smoothed_divergence(other.view(-1, V), targets.view(-1), epsilon, padding).view(2, 5)
    assert torch.allclose(got, expected, rtol=0, atol=1e-12)
    weights = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (weights * got).sum().backward()
    (weights * expected).sum().backward()
    assert torch.allclose(given.grad, other.grad, rtol=0, atol=1e-12)


def test_the_score_of_padding_has_its_gradient() -> None:
    logits, targets = logits_and_targets()
    given = logits[:1, :2, :5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tuple(padded_scores(x, targets[:1, :2] % 5, 3)), given)
    assert torch.equal(padded_scores(logits, targets, 3).padding, -logits.log_softmax(-1)[..., 3])
    pairs = zip(padded_scores(logits, targets, 3), token_scores(logits, targets), strict=False)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_smoothing_by_hand() -> None:
    scores = TokenScores(torch.tensor([2.0]), torch.tensor([3.0]))
    # 0.7 of the target and 0.1 of each of three others, whose nll sum to 4 × 3 - 2.
    assert scores.smoothed(0.3, 4).item() == pytest.approx(0.7 * 2.0 + 0.1 * 10.0)
    assert torch.equal(scores.smoothed(0.0, 4), scores.nll)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_head(bias: bool) -> None:
    torch.manual_seed(0)
    head = LinearHead(4, V, bias=bias)
    hidden, targets = torch.randn(2, 5, 4), logits_and_targets()[1]
    expected = hidden @ head.proj.weight.T + (head.proj.bias if bias else 0.0)
    assert torch.allclose(head.logits(hidden), expected, atol=1e-6)
    assert torch.allclose(head.score(hidden, targets).nll, plain(expected, targets)[0], atol=1e-5)
    assert (head.proj.bias is not None) is bias
