"""The feed-forward layer; its values are under the laws."""

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


def test_it_hands_the_state_through() -> None:
    state = {"a": torch.ones(1)}
    assert FeedForward(4, 6)(torch.zeros(1, 1, 4), state, LAYOUT).state is state
    assert FeedForward(4, 6).init_state(3) is None
