"""The feed-forward layer; its values are under the laws."""

import pytest
import torch
from torch import nn

from repro.nn import FeedForward, Layout

LAYOUT = Layout(False)


def test_the_activation_is_a_setting() -> None:
    torch.manual_seed(0)
    layer = FeedForward(4, 6, activation=nn.Tanh)
    x = torch.randn(2, 3, 4)
    assert torch.allclose(layer(x, None, LAYOUT).y, layer.outer(layer.inner(x).tanh()))
    assert FeedForward(4, 6, bias=False).inner.bias is None
    assert FeedForward(4, 6, bias=False).outer.bias is None


def test_dropout_stands_between_activation_and_second_projection() -> None:
    torch.manual_seed(0)
    layer = FeedForward(4, 400, activation=nn.Tanh, dropout=0.5)  # ReLU and dropout commute
    seen = []
    layer.outer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    x = torch.randn(1, 1, 4)
    layer(x, None, LAYOUT)
    plain = layer.inner(x).tanh()
    kept = seen[0] != 0
    assert 0.3 < kept.float().mean() < 0.7
    assert torch.allclose(seen[0][kept], 2 * plain[kept])


def test_outputs_may_be_dropped_too() -> None:
    torch.manual_seed(0)
    layer = FeedForward(400, 6, output_dropout=0.5)
    x = torch.randn(1, 1, 400)
    plain, y = layer.eval()(x, None, LAYOUT).y, layer.train()(x, None, LAYOUT).y
    kept = y != 0
    assert 0.3 < kept.float().mean() < 0.7
    assert torch.allclose(y[kept], 2 * plain[kept])


def test_it_hands_the_state_through() -> None:
    state = {"a": torch.ones(1)}
    assert FeedForward(4, 6)(torch.zeros(1, 1, 4), state, LAYOUT).state is state
    assert FeedForward(4, 6).init_state(3) is None


@pytest.mark.parametrize("chunk", [1, 3, 7, 100])
def test_chunks_change_nothing(chunk: int) -> None:
    torch.manual_seed(0)
    whole, cut = FeedForward(4, 6, nn.GELU).double(), FeedForward(4, 6, nn.GELU, chunk=chunk).double()
    cut.load_state_dict(whole.state_dict())
    x = torch.randn(2, 7, 4, dtype=torch.float64, requires_grad=True)
    result = []
    for layer in (whole, cut):
        y = layer(x, None, LAYOUT).y
        result.append([y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])])
        with torch.no_grad():
            assert torch.equal(layer(x, None, LAYOUT).y, y)
    for a, b in zip(*result, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-12)


def test_chunks_are_applied_one_after_another() -> None:
    layer = FeedForward(4, 6, chunk=3)
    sizes: list[int] = []
    layer.inner.register_forward_hook(lambda _, given, __: sizes.append(given[0].shape[1]))
    with torch.no_grad():
        layer(torch.randn(2, 7, 4), None, LAYOUT)
    assert sizes == [3, 3, 1]
    assert layer(torch.randn(2, 0, 4), None, LAYOUT).y.shape == (2, 0, 4)


def test_dropout_in_chunks_is_the_same_when_computed_again() -> None:
    torch.manual_seed(0)
    layer = FeedForward(4, 50, dropout=0.5, chunk=2).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64, requires_grad=True)
    y = layer(x, None, LAYOUT).y
    # y is linear in the outer weight, so that the gradient of its sum gives the sum back
    grad = torch.autograd.grad(y.sum(), layer.outer.weight)[0]
    assert torch.allclose((grad * layer.outer.weight).sum() + 6 * layer.outer.bias.sum(), y.sum())


def test_a_chunk_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"chunk.*1, not 0"):
        FeedForward(4, 6, chunk=0)
