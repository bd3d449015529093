"""The recurrent mixer beyond the laws: its norm, where a sequence begins, and what dropout reaches."""

import math

import pytest
import torch
from torch import Tensor, nn

from repro.nn import Layout, NormedLSTM
from repro.nn.recurrent import UnbiasedNorm
from tests.nn.mixers import difference, randomise

D = 8
CAUSAL = Layout(True)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def norm_by_hand(norm: UnbiasedNorm, x: Tensor, eps: float) -> Tensor:
    """Entry by entry, in plain numbers."""
    rows = []
    for row in x.flatten(0, -2).tolist():
        mean = sum(row) / len(row)
        variance = sum((value - mean) ** 2 for value in row) / (len(row) - 1)
        scaled = [(value - mean) / math.sqrt(variance + eps) for value in row]
        gains, biases = norm.weight.tolist(), norm.bias.tolist()
        rows.append([v * g + b for v, g, b in zip(scaled, gains, biases, strict=True)])
    return torch.tensor(rows, dtype=torch.float64).view(x.shape)


@pytest.mark.parametrize("neutral", [False, True])
@pytest.mark.parametrize(("eps", "size"), [(1e-6, 1.0), (1e-6, 1e-3), (1e-2, 0.1)])
def test_the_norm_divides_by_one_less_than_the_width(neutral: bool, eps: float, size: float) -> None:
    torch.manual_seed(0)
    norm = UnbiasedNorm(7, eps, neutral).double()
    x = size * numbers(2, 3, 7)
    assert difference(norm(x), norm_by_hand(norm, x, eps)) < 1e-12
    usual = nn.functional.layer_norm(x, (7,), norm.weight, norm.bias, eps)
    assert difference(usual, norm_by_hand(norm, x, eps)) > 1e-3, "else the two variances cannot be told apart"


def test_the_default_epsilon() -> None:
    assert UnbiasedNorm(4).eps == 1e-6


def test_a_neutral_norm_begins_at_one_and_zero_and_another_is_drawn() -> None:
    torch.manual_seed(0)
    norm = UnbiasedNorm(10_000, neutral=True)
    assert torch.equal(norm.weight, torch.ones(10_000))
    assert torch.equal(norm.bias, torch.zeros(10_000))
    drawn = UnbiasedNorm(10_000)
    for parameter in (drawn.weight.detach(), drawn.bias.detach()):
        assert 0.0099 < float(parameter.abs().max()) <= 0.01
        assert float(parameter.std()) == pytest.approx(0.01 / math.sqrt(3), rel=0.02)
        assert abs(float(parameter.mean())) < 2e-4
    assert not torch.equal(drawn.weight, drawn.bias)


@pytest.mark.parametrize("neutral", [False, True])
def test_all_norms_of_a_layer_begin_alike(neutral: bool) -> None:
    torch.manual_seed(0)
    layer = NormedLSTM(D, neutral_norms=neutral)
    norms = [module for module in layer.modules() if isinstance(module, nn.LayerNorm)]
    assert [module.normalized_shape for module in norms] == [(4 * D,), (4 * D,), (D,)]
    for norm in norms:
        assert torch.equal(norm.weight, torch.ones_like(norm.weight)) is neutral
        assert torch.equal(norm.bias, torch.zeros_like(norm.bias)) is neutral


def lstm(dropout: float = 0.0, width: int = D) -> NormedLSTM:
    torch.manual_seed(0)
    return randomise(NormedLSTM(width, dropout).double())  # type: ignore[return-value]


def test_training_draws_where_a_sequence_begins_and_evaluation_does_not() -> None:
    layer, x = lstm(), numbers(2, 3, D)
    assert difference(layer(x, None, CAUSAL).y[:, 0], layer(x, None, CAUSAL).y[:, 0]) > 1e-3
    layer.eval()
    assert torch.equal(layer(x, None, CAUSAL).y, layer(x, None, CAUSAL).y)
    assert torch.equal(layer(x, None, CAUSAL).y, layer(x, layer.init_state(2), CAUSAL).y)


def test_a_given_state_is_taken_in_training_as_well() -> None:
    layer, x = lstm(), numbers(2, 3, D)
    state = {"h": numbers(2, D, seed=1), "c": numbers(2, D, seed=2)}
    first, again = (layer(x, state, CAUSAL) for _ in range(2))
    assert torch.equal(first.y, again.y)
    assert difference(first.y, layer(x, layer.init_state(2), CAUSAL).y) > 1e-3
    assert torch.equal(first.state["h"], first.y[:, -1])
    assert layer(x, None, CAUSAL).state is None


def test_the_drawn_state_has_the_variance_of_the_width() -> None:
    layer, seen = lstm(width=16), []
    for (
        parameter
    ) in layer.parameters():  # both sums become zero: every gate is half open, nothing is proposed
        nn.init.zeros_(parameter)
    layer.from_state.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    layer.cell_norm.register_forward_pre_hook(lambda _, given: seen.append(2.0 * given[0]))
    torch.manual_seed(0)
    layer(torch.zeros(4000, 1, 16, dtype=torch.float64), None, CAUSAL)
    h, c = (drawn.detach().flatten() for drawn in seen)
    for drawn in (h, c):
        assert float(drawn.std()) == pytest.approx(0.25, rel=0.02)
        assert abs(float(drawn.mean())) < 0.005
    assert abs(float((h * c).mean())) < 0.001, "drawn separately"


def test_another_direction_is_refused() -> None:
    with pytest.raises(ValueError, match="must be causal"):
        lstm()(numbers(1, 2, D), None, Layout(False))


def test_dropout_acts_on_what_leaves_and_on_what_the_next_step_gets() -> None:
    layer, given = lstm(dropout=0.5, width=32), []
    layer.from_state.register_forward_pre_hook(lambda _, inputs: given.append(inputs[0]))
    x = numbers(20, 3, 32)
    mixed = layer(x, layer.init_state(20), CAUSAL)
    assert 0.4 < float((mixed.y == 0).double().mean()) < 0.6
    assert torch.equal(given[1], mixed.y[:, 0])
    assert torch.equal(given[2], mixed.y[:, 1])
    assert torch.equal(mixed.state["h"], mixed.y[:, 2])
    assert bool((mixed.state["c"] != 0).all()), "the cell keeps everything"
    still = lstm(width=32)(x, layer.init_state(20), CAUSAL).y[:, 0]
    kept = mixed.y[:, 0] != 0
    assert torch.allclose(mixed.y[:, 0][kept], 2.0 * still[kept], rtol=0, atol=1e-12)
    layer.eval()
    assert bool((layer(x, None, CAUSAL).y != 0).all())


@torch.no_grad()
def test_padding_leaves_the_carried_state_alone() -> None:
    layer = lstm().eval()
    x, lengths = numbers(3, 4, D), torch.tensor([4, 0, 2])
    state = {"h": numbers(3, D, seed=1), "c": numbers(3, D, seed=2)}
    padded = layer(x, state, Layout(True, lengths=lengths)).state
    assert torch.equal(padded["h"][1], state["h"][1])
    assert torch.equal(padded["c"][1], state["c"][1])
    alone = layer(x[2:, :2], {key: value[2:] for key, value in state.items()}, CAUSAL).state
    assert difference(padded["h"][2:], alone["h"]) < 1e-12
    assert difference(padded["c"][2:], alone["c"]) < 1e-12
