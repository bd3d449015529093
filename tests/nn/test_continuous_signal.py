"""Settings of a continuous memory, its basis functions and its regression."""

import pytest
import torch
from torch import Tensor

from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.regression import evaluate, fit, functions, regression
from tests.nn import reference_continuous
from tests.nn.mixers import difference

SMALL = ContinuousSignal(basis=8, widths=(0.05, 0.1), samples=6, tau=0.6, ridge=0.3)
CPU = torch.device("cpu")


def matrices(signal: ContinuousSignal, length: int) -> tuple[Tensor, ...]:
    result = fit(signal, length, torch.float64, CPU)
    return result.first, result.new, result.past, result.seen


@pytest.mark.parametrize(
    ("settings", "named"),
    [({"basis": 0}, "0"), ({"basis": 9}, "9"), ({"basis": 2}, "2"), ({"widths": ()}, r"\(\)"),
     ({"widths": (0.1, 0.0)}, "0.0"), ({"widths": (1.5,)}, "1.5"), ({"tau": 0.0}, "0.0"), ({"tau": 1.0}, "1.0"),
     ({"tau": -0.5}, "-0.5"), ({"ridge": 0.0}, "0.0"), ({"samples": 0}, "0"), ({"bins": 0}, "0"),
     ({"least_variance": 0.0}, "0.0"), ({"kl_sigma": -1.0}, "-1.0"), ({"kl_weight": -1e-6}, "-1e-06"),
     ({"forget_after": 0}, "0")],
)  # fmt: skip
def test_a_setting_out_of_its_range(settings: dict[str, object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        ContinuousSignal(**settings)  # type: ignore[arg-type]


def test_the_three_versions() -> None:
    sorting, text, talk = (
        ContinuousSignal.sorting(),
        ContinuousSignal.language_model(),
        ContinuousSignal.dialogue(),
    )
    assert (sorting.widths, sorting.ridge, sorting.tau) == ((0.01, 0.05), 1.0, 0.75)
    assert (
        (text.widths, text.ridge, text.tau)
        == (talk.widths, talk.ridge, talk.tau)
        == ((0.005, 0.01), 0.5, 0.5)
    )
    assert [s.least_variance for s in (sorting, text, talk)] == [1e-6, 1e-4, 1e-4]
    assert [s.kl_mean for s in (sorting, text, talk)] == [None, -1.0, None]
    assert [s.bins for s in (sorting, text, talk)] == [None, 128, 128]
    assert [s.forget_after for s in (sorting, text, talk)] == [None, 2048, None]
    assert [s.normed for s in (sorting, text, talk)] == [False, False, True]
    assert ContinuousSignal.language_model(sticky=False).bins is None


def test_basis_functions_are_densities_of_their_centres_and_widths() -> None:
    t = torch.linspace(-2, 3, 5001, dtype=torch.float64)
    values = evaluate(t, SMALL)
    assert difference(values[2600], reference_continuous.basis(SMALL, float(t[2600]))) < 1e-12
    assert difference(torch.trapezoid(values, t, dim=0), torch.ones(8).double()) < 1e-9
    centres, _ = functions(SMALL, torch.float64, CPU)
    assert difference(torch.trapezoid(values * t[:, None], t, dim=0), centres.repeat_interleave(2)) < 1e-9


@pytest.mark.parametrize("length", [1, 2, 5, 8])
def test_regression_equals_a_direct_solve(length: int) -> None:
    first, new, past, seen = matrices(SMALL, length)
    x, old = torch.randn(length, 3).double(), torch.randn(8, 3).double()
    assert difference(first.T @ x, reference_continuous.alone(SMALL, x)) < 1e-12
    samples = seen @ old
    expected = reference_continuous.behind(SMALL, samples, x)
    assert difference(past.T @ samples + new.T @ x, expected) < 1e-12
    carry = fit(SMALL, length, torch.float64, CPU).carry
    assert carry is not None
    assert difference(carry @ old + new.T @ x, expected) < 1e-12


def test_regression_minimises_the_penalised_error() -> None:
    t, x = torch.rand(9, dtype=torch.float64), torch.randn(9, 2).double()
    best = (regression(t, SMALL).T @ x).requires_grad_()
    error = ((x - evaluate(t, SMALL) @ best) ** 2).sum() + SMALL.ridge * (best**2).sum()
    (slope,) = torch.autograd.grad(error, best)
    assert float(slope.abs().max()) < 1e-10


def test_control_another_tau_ridge_or_padding_shows() -> None:
    x, samples = torch.randn(4, 3).double(), torch.randn(6, 3).double()
    _, new, past, _ = matrices(SMALL, 4)
    result = past.T @ samples + new.T @ x
    for other in ({"tau": 0.5}, {"ridge": 0.4}, {"widths": (0.05, 0.11)}):
        wrong = ContinuousSignal(**{**vars(SMALL), **other})
        assert difference(result, reference_continuous.behind(wrong, samples, x)) > 1e-3
    inside = [(i + 0.5) / 4 for i in range(4)]
    assert difference(matrices(SMALL, 4)[0].T @ x, reference_continuous.ridge(SMALL, inside, x)) > 1e-3


def test_the_error_falls_with_the_number_of_functions() -> None:
    t = (torch.arange(64, dtype=torch.float64) + 0.5) / 64
    x = torch.stack([(9 * t).sin(), (23 * t).cos()], dim=1)
    errors = []
    for count in (8, 16, 64):
        signal = ContinuousSignal(count, (0.02, 0.06), ridge=0.1)
        errors.append(float((evaluate(t, signal) @ (matrices(signal, 64)[0].T @ x) - x).square().mean()))
    assert errors[0] > 4 * errors[1] > 16 * errors[2]
    assert errors[2] < 1e-2


def test_the_signal_is_nearly_zero_outside() -> None:
    signal = ContinuousSignal(64, (0.02, 0.06), ridge=0.1)
    first, _, _, _ = matrices(signal, 64)
    outside = evaluate(torch.tensor([-0.4, -0.25, 1.25, 1.4]).double(), signal) @ (
        first.T @ torch.ones(64, 1).double()
    )
    assert float(outside.abs().max()) < 1e-2


def test_an_old_block_takes_a_share_of_tau_at_each_update() -> None:
    signal = ContinuousSignal(256, (0.01, 0.02), ridge=0.1, tau=0.5, samples=256)
    first, new, past, seen = matrices(signal, 32)
    b = first.T @ torch.ones(32, 1).double()
    for k in range(1, 4):  # blocks of zeros behind it
        b = past.T @ (seen @ b) + new.T @ torch.zeros(32, 1).double()
        t = torch.linspace(0, 1, 1001, dtype=torch.float64)
        assert abs(float(torch.trapezoid(evaluate(t, signal) @ b, t, dim=0)) - 0.5**k) < 0.15 * 0.5**k


def test_matrices_are_computed_once_for_each_length_and_dtype() -> None:
    one = fit(SMALL, 4, torch.float64, CPU)
    assert fit(SMALL, 4, torch.float64, CPU) is one
    single = fit(SMALL, 4, torch.float32, CPU)
    assert single.first.dtype == torch.float32
    assert difference(single.new.double(), one.new) < 1e-6


def test_sticky_memories_are_read_at_left_edges_of_bins() -> None:
    result = fit(ContinuousSignal(**{**vars(SMALL), "bins": 4}), 3, torch.float64, CPU)
    expected = torch.stack([reference_continuous.basis(SMALL, t) for t in (0.0, 0.25, 0.5, 0.75)])
    assert result.carry is None
    assert difference(result.seen, expected) < 1e-12
