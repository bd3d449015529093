import pytest
import torch
from torch import nn

from repro.nn.fused import FusedLinear
from repro.nn.idle import applied
from repro.nn.packed import LEAST_NUMBERS, LEAST_STEPS, packed
from repro.nn.vocabularies.vocabulary import Vocabulary

WIDTH = 128


class Net(nn.Module):
    """A wide and a narrow layer, and a tied vocabulary."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = FusedLinear(WIDTH, [WIDTH] * 4)
        self.square = nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.small = nn.Linear(WIDTH, WIDTH)
        self.vocabulary = Vocabulary(WIDTH, WIDTH, LEAST_NUMBERS // WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.vocabulary.logits(self.small(self.square(self.wide(x))))


@pytest.mark.parametrize("rows", [1, 2, 7, 257, 1000])
@torch.inference_mode()
def test_products_are_those_of_the_modules(rows: int) -> None:
    net, x = Net(), torch.randn(rows, 1, WIDTH)
    expected = net(x)
    with packed(net.modules(), LEAST_STEPS):
        for _ in range(2):  # lays out, then uses what is laid out
            torch.testing.assert_close(net(x), expected, rtol=1e-4, atol=1e-4)
        assert net(x[:0]).shape == (0, 1, net.vocabulary.size)


@torch.inference_mode()
def test_large_weights_alone_are_stood_in_for_and_only_meanwhile() -> None:
    net = Net()

    def replaced() -> list[bool]:
        modules = [net.wide, net.square, net.small]
        return [*("forward" in vars(m) for m in modules), "scores" in vars(net.vocabulary.embedding)]

    with packed(net.modules(), LEAST_STEPS):
        assert replaced() == [True, True, False, True]
        with packed(net.modules(), LEAST_STEPS):  # one inside another leaves the outer one's alone
            assert replaced() == [True, True, False, True]
        assert replaced() == [True, True, False, True]
    assert replaced() == [False] * 4
    with packed(net.modules(), LEAST_STEPS - 1):
        assert replaced() == [False] * 4
    with packed(net.double().modules(), LEAST_STEPS):
        assert replaced() == [False] * 4
    with pytest.raises(RuntimeError), packed(net.float().modules(), LEAST_STEPS):
        raise RuntimeError
    assert replaced() == [False] * 4


@torch.inference_mode()
def test_weights_that_changed_are_laid_out_anew_by_the_next_search() -> None:
    net, x = Net(), torch.randn(3, 1, WIDTH)
    with packed(net.modules(), LEAST_STEPS):
        before = net(x)
    net.wide.weight.add_(1.0)
    with packed(net.modules(), LEAST_STEPS):
        after = net(x)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, net(x), rtol=1e-4, atol=1e-4)


def test_gradients_are_those_of_the_modules() -> None:
    net, x = Net(), torch.randn(3, 1, WIDTH)
    expected = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    with packed(net.modules(), LEAST_STEPS):
        result = torch.autograd.grad(net(x).sum(), list(net.parameters()))
    torch.testing.assert_close(result, expected)


@torch.inference_mode()
def test_autocast_keeps_its_precision() -> None:
    net, x = Net(), torch.randn(3, 1, WIDTH)
    with packed(net.modules(), LEAST_STEPS), torch.autocast("cpu", torch.bfloat16):
        assert net(x).dtype == torch.bfloat16


def test_idle_modules_are_not_called_unless_they_are_watched() -> None:
    x, seen = torch.randn(3), []
    dropout = nn.Dropout(0.5).eval()
    assert applied(dropout, x) is x
    assert applied(nn.Identity(), x) is x
    handle = dropout.register_forward_hook(lambda *_: seen.append(1))
    applied(dropout, x)
    handle.remove()
    applied(dropout, x)
    assert seen == [1]
    assert (applied(nn.Dropout(1.0), x) == 0).all()
    assert (applied(nn.Linear(3, 2), x)).shape == (2,)
