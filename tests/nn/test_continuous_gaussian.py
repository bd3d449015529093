"""Attention with a Gaussian density: its closed form, its divergence, histograms and draws. In float64."""

import pytest
import torch
from torch import Tensor

from repro.nn.attention.continuous import ContinuousSignal, gaussian
from repro.nn.attention.continuous.gaussian import divergence, draw_bins, expectation, histogram, uniform
from repro.nn.attention.continuous.long_term import LongTermMemory
from repro.nn.attention.continuous.regression import evaluate, fit, functions
from tests.nn import reference_continuous
from tests.nn.mixers import difference, gradients, randomise

SIGNAL = ContinuousSignal(basis=12, widths=(0.01, 0.05, 0.2), samples=6)
CPU = torch.device("cpu")


def given(rows: int = 3, steps: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """Means, variances from narrow to wide, and coefficients."""
    generator = torch.Generator().manual_seed(1)
    mean = torch.rand(rows, steps, generator=generator, dtype=torch.float64)
    variance = 10 ** (5 * torch.rand(rows, steps, generator=generator, dtype=torch.float64) - 5)
    values = torch.randn(rows, SIGNAL.basis, 4, generator=generator, dtype=torch.float64)
    return mean.requires_grad_(), variance.requires_grad_(), values.requires_grad_()


def found(mean: Tensor, variance: Tensor, values: Tensor) -> Tensor:
    return expectation(mean, variance, values, *functions(SIGNAL, torch.float64, CPU))


def spelled_out(mean: Tensor, variance: Tensor, values: Tensor) -> Tensor:
    """The closed form without pieces, differentiated by autograd."""
    c, s = reference_continuous.functions(SIGNAL)
    table = torch.distributions.Normal(c, (variance[..., None] + s**2).sqrt())
    return table.log_prob(mean[..., None]).exp() @ values


def test_closed_form_equals_numerical_integration() -> None:
    mean, variance, values = given()
    t = torch.linspace(-3, 4, 70001, dtype=torch.float64)
    signal = torch.einsum("pn,rne->rpe", evaluate(t, SIGNAL), values)
    density = torch.distributions.Normal(mean[..., None], variance.sqrt()[..., None]).log_prob(t).exp()
    integral = torch.trapezoid(density[..., None] * signal[:, None], t, dim=2)
    assert difference(found(mean, variance, values), integral) < 1e-6
    assert difference(found(mean, 1.1 * variance, values), integral) > 1e-3


@pytest.mark.parametrize("entries", [1, 70, 1 << 20])
def test_values_and_gradients_in_pieces(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "_CPU_ENTRIES", entries)
    inputs = given()
    y, expected = found(*inputs), spelled_out(*inputs)
    assert difference(y, expected) < 1e-12
    weight = torch.randn(y.shape, dtype=y.dtype)
    target = torch.autograd.grad((expected * weight).sum(), inputs)
    for got, grad in zip(torch.autograd.grad((y * weight).sum(), inputs), target, strict=True):
        assert difference(got, grad) < 1e-10


def test_a_cpu_never_computes_with_numbers_too_small_for_it() -> None:
    """It takes several times as long with them. Without the bounds, tables and matrices in float32 would have some."""
    tiny = torch.finfo(torch.float32).tiny
    distances = torch.linspace(0, 1, 200).square()[None, None]
    table = gaussian._densities(distances, torch.full((1, 1, 1), 1e-4))
    assert bool((distances / 2e-4 > 87.4).any())  # whose exponential is below
    assert bool(table.min() >= tiny)
    matrices = fit(ContinuousSignal.language_model(sticky=False), 64, torch.float32, CPU)
    assert all(bool((one[one != 0].abs() >= tiny).all()) for one in matrices)
    assert all(bool((one == 0).any()) for one in matrices)


def test_nobody_may_ask() -> None:
    mean, variance, values = given()
    assert found(mean[:, :0], variance[:, :0], values).shape == (3, 0, 4)


def test_gradients_against_finite_differences() -> None:
    mean, variance, values = given(2, 3)
    assert torch.autograd.gradcheck(found, (mean, (variance.detach() + 0.01).requires_grad_(), values))


def test_a_narrow_density_picks_one_token() -> None:
    signal = ContinuousSignal(basis=20, widths=(0.01,), ridge=1e-3)
    values = torch.eye(20, dtype=torch.float64)[None]
    centres, widths = functions(signal, torch.float64, CPU)
    at = centres[None]
    y = expectation(at, torch.full_like(at, 1e-6), values, centres, widths)
    assert difference(y[0] / y[0].sum(-1, keepdim=True), values[0]) < 1e-4


@pytest.mark.parametrize("steps", [1, 40])
def test_few_and_many_queries_agree(steps: int) -> None:
    """The order of the products differs; the result must not."""
    torch.manual_seed(0)
    memory = randomise(LongTermMemory(6, 2, 4, SIGNAL).double())
    coefficients = torch.randn(2, SIGNAL.basis, 6, dtype=torch.float64).requires_grad_()
    query = torch.randn(2, 40, 2, 4, dtype=torch.float64).requires_grad_()
    whole = memory(coefficients, query).y
    parts = torch.cat([memory(coefficients, part).y for part in query.split(steps, dim=1)], dim=1)
    assert difference(parts, whole) < 1e-12
    loss = [(y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum() for y in (parts, whole)]
    got, expected = (gradients(each, [coefficients, query], memory.key) for each in loss)
    assert all(difference(got[key], expected[key]) < 1e-11 for key in expected)


@torch.no_grad()
def test_variances_are_bounded_below() -> None:
    signal = ContinuousSignal(basis=4, widths=(0.1,), least_variance=0.02)
    memory = LongTermMemory(6, 2, 4, signal).double()
    memory.spread.weight.fill_(-100.0)
    memory.key.weight.fill_(1.0)
    query = torch.stack([torch.ones(1, 2, 4), -torch.ones(1, 2, 4)], dim=1).double()
    variance = memory(torch.ones(1, 4, 6).double(), query).variance
    assert difference(variance[..., 0], torch.full((1, 2), 0.02, dtype=torch.float64)) < 1e-12
    assert bool((variance[..., 1] > 1).all())


@pytest.mark.parametrize("prior", [None, -1.0, 0.3])
def test_divergence_equals_that_of_torch(prior: float | None) -> None:
    mean, variance, _ = (t.detach() for t in given())
    other = torch.distributions.Normal(mean if prior is None else torch.full_like(mean, prior), 0.05)
    expected = torch.distributions.kl_divergence(torch.distributions.Normal(mean, variance.sqrt()), other)
    assert difference(divergence(mean, variance, 0.05, prior), expected) < 1e-12
    assert difference(divergence(mean, variance, 0.06, prior), expected) > 1e-2


def test_histogram_sums_the_masses_of_what_counts() -> None:
    mean, variance, _ = (t.detach() for t in given())
    counts = torch.tensor([[True] * 5, [True, False, True, False, False], [False] * 5])
    mass = histogram(mean, variance, counts, 16)
    t = torch.linspace(0, 1, 16001, dtype=torch.float64)
    density = torch.distributions.Normal(mean[..., None], variance.sqrt()[..., None]).log_prob(t).exp()
    expected = torch.stack(
        [torch.trapezoid(density[..., a : a + 1001], t[a : a + 1001]) for a in range(0, 16000, 1000)]
    )
    expected = (expected * counts).sum(-1).T
    assert difference(mass[1:, 1:-1], expected[1:, 1:-1]) < 1e-6
    assert difference(mass, expected) < 1e-3  # the outer bins are wider by 1e-6
    assert not mass[2].any()


def test_draws_follow_the_masses() -> None:
    mass = torch.tensor([[0.0, 3.0, 0.0, 1.0, 4.0, 0.0]]).expand(4, -1)
    bins = draw_bins(mass, torch.arange(4), 4000, seed=torch.tensor(3))
    assert bins.shape == (4, 4000)
    assert torch.equal(bins, bins.sort(-1).values)
    for row in bins:
        share = torch.bincount(row, minlength=6) / 4000
        assert not share[[0, 2, 5]].any()
        assert difference(share, mass[0] / 8) < 0.03


def test_one_popular_bin_is_drawn_again_and_again() -> None:
    mass = torch.full((1, 128), 1e-9)
    mass[0, 77] = 1.0
    assert torch.equal(draw_bins(mass, torch.zeros(1), 50, torch.tensor(0)), torch.full((1, 50), 77))


def test_draws_are_a_function_of_seed_and_counter() -> None:
    mass = torch.rand(2, 32)
    one = draw_bins(mass, torch.tensor([5, 5]), 20, seed=torch.tensor(1))
    assert torch.equal(one, draw_bins(mass, torch.tensor([5, 5]), 20, seed=torch.tensor(1)))
    assert torch.equal(one[1:], draw_bins(mass[1:], torch.tensor([5]), 20, seed=torch.tensor(1)))
    assert not torch.equal(one, draw_bins(mass, torch.tensor([6, 5]), 20, seed=torch.tensor(1)))
    assert not torch.equal(one, draw_bins(mass, torch.tensor([5, 5]), 20, seed=torch.tensor(2)))
    torch.manual_seed(9)
    assert torch.equal(one, draw_bins(mass, torch.tensor([5, 5]), 20, seed=torch.tensor(1)))


def test_draws_without_any_mass_are_bins() -> None:
    bins = draw_bins(torch.zeros(1, 8), torch.zeros(1), 5, torch.tensor(0))
    assert bool(((bins >= 0) & (bins < 8)).all())


def test_random_numbers_are_uniform_and_independent() -> None:
    u = uniform(torch.arange(100), 1000, seed=torch.tensor(0))
    assert u.dtype == torch.float64
    assert bool(((u >= 0) & (u < 1)).all())
    assert abs(float(u.mean()) - 0.5) < 0.005
    assert abs(float(u.var()) - 1 / 12) < 0.002
    for a, b in (
        (u[:, 1:], u[:, :-1]),
        (u[1:], u[:-1]),
        (u, uniform(torch.arange(100), 1000, seed=torch.tensor(1))),
    ):
        assert abs(float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1])) < 0.015


def test_random_numbers_equal_splitmix64() -> None:
    """The third number of counter 7 and seed 2, by integers of Python."""

    def mixed(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    start = mixed((7 + 2 * golden) % 2**64)
    expected = (mixed((start + 3 * golden) % 2**64) >> 11) / 2**53
    assert float(uniform(torch.tensor([7]), 3, seed=torch.tensor(2))[0, 2]) == expected
