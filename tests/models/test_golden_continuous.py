"""With the same weights, the continuous memory equals the official code of two versions; see tests/golden."""

from typing import Any

import pytest
import torch

from repro.nn.attention.continuous import ContinuousSignal
from repro.nn.attention.continuous.regression import evaluate, fit, functions
from tests.models.golden_continuous import VERSIONS, Run
from tests.nn.mixers import difference, gradients

CASES = list(VERSIONS)
CPU = torch.device("cpu")
CONTROL = 1e-3


def worst(run: Run) -> float:
    """Largest difference of any output."""
    result = [
        difference(read.y, run.batch_first(f"out/seg{s}/context"))
        for s, (_, read, _) in enumerate(run.steps())
    ]
    return max(result)


@pytest.mark.parametrize("name", CASES)
def test_basis_functions_and_regression(name: str) -> None:
    run = Run(name)
    out, signal = run.arrays, run.signal
    centres, widths = functions(signal, torch.float64, CPU)
    assert difference(centres.repeat_interleave(2), out["out/basis_mu"]) < 1e-12
    assert difference(widths.repeat(8), out["out/basis_sigma"]) < 1e-8
    matrices = fit(signal, run.options["length"], torch.float64, CPU)
    assert difference(matrices.first, out["out/G"]) < run.tolerance["out"]
    both = torch.cat([matrices.past, matrices.new])[::32]
    assert difference(both, out["out/G_inf_every_32nd_row"]) < run.tolerance["out"]
    evenly = torch.arange(1, 513, dtype=torch.float64)[::64] / 512
    assert difference(evaluate(evenly, signal), out["out/samples_every_64th_row"]) < run.tolerance["out"]


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_every_segment(name: str) -> None:
    run = Run(name)
    for s, (coefficients, read, kl) in enumerate(run.steps()):
        for got, what in ((coefficients, "B"), (read.mean, "mu"), (read.variance, "sigma_sq"), (kl, "kl")):
            assert difference(got, run.arrays[f"out/seg{s}/{what}"]) < run.tolerance["out"], (s, what)
    assert worst(run) < run.tolerance["out"]


@pytest.mark.parametrize("name", CASES)
def test_loss_and_every_gradient(name: str) -> None:
    run = Run(name)
    loss = run.loss()
    assert difference(loss, run.arrays["out/loss"]) < run.tolerance["out"]
    got = gradients(loss, [], run.memory)
    assert len(got) == 7
    for key, grad in got.items():
        assert difference(grad, run.of("grad", key)) < run.tolerance["grad"], key


@torch.no_grad()
def test_where_sticky_memories_are_drawn_from() -> None:
    run = Run("infty_gpt2_sticky")
    steps = run.steps()
    for s in (1, 2):
        expected = run.arrays[f"out/seg{s}/bin_probabilities"]
        assert difference(run.probabilities(steps[s - 1][1]), expected) < run.tolerance["out"]
        assert difference(run.probabilities(steps[s][1]), expected) > 1e-5


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "changes", [{"tau": 0.6}, {"ridge": 0.9}, {"widths": (0.01, 0.02)}], ids=["tau", "ridge", "widths"]
)
@torch.no_grad()
def test_control_another_constant_shows(name: str, changes: dict[str, Any]) -> None:
    assert worst(Run(name, **changes)) > CONTROL


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_control_a_query_that_is_projected_shows(name: str) -> None:
    run = Run(name)
    weight, given = run.arrays["w/proj_query.weight"], run.query
    run.query = lambda s: (given(s).flatten(2) @ weight.T).unflatten(-1, (2, 6))  # type: ignore[method-assign]
    assert worst(run) > CONTROL


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_control_a_memory_that_forgets_shows(name: str) -> None:
    run = Run(name)
    run.empty = [True, False, True]
    assert worst(run) > CONTROL


@torch.no_grad()
def test_control_evenly_spaced_samples_show() -> None:
    run = Run("infty_gpt2_sticky", bins=None)
    assert worst(run) > CONTROL


def test_control_a_gradient_into_the_past_shows() -> None:
    run = Run("infty_sorting")
    run.cut = False
    assert difference(run.loss(), run.arrays["out/loss"]) < run.tolerance["out"]
    got = gradients(run.loss(), [], run.memory)
    assert difference(got["gate.weight"], run.of("grad", "gate.weight")) > CONTROL


@torch.no_grad()
def test_control_the_mean_of_the_prior_shows() -> None:
    for name, prior in (("infty_sorting", -1.0), ("infty_gpt2_sticky", None)):
        run = Run(name, kl_mean=prior)
        assert difference(run.steps()[0][2], run.arrays["out/seg0/kl"]) > CONTROL


def test_the_constants_are_those_of_the_files() -> None:
    for name, signal in VERSIONS.items():
        options = Run(name).options
        ours = (
            signal.tau,
            signal.ridge,
            signal.samples,
            signal.kl_sigma,
            signal.kl_mean,
            signal.least_variance,
        )
        names = ("tau", "ridge_penalty", "nb_samples", "sigma_0", "mu_0", "sigma_sq_min")
        assert ours == tuple(options[key] for key in names)
        assert signal.widths == tuple(options["basis_sigmas"])
    assert ContinuousSignal.language_model().forget_after == options["mem_threshold"] == 2048
