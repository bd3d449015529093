"""One line of algebra: ``norm_out(shortcut(x) + dropout(body(norm_in(x))))``."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

from repro.nn import (
    Layout,
    MixerOutput,
    Plain,
    PostNorm,
    PreNorm,
    Residual,
    ReversibleStack,
    Sublayer,
    WeightedPostNorm,
    WeightedShortcut,
)
from repro.nn.mixer import State

LAYOUT = Layout(True)


class Doubles(nn.Module):
    """Doubles its input, counts its calls in the state, reports a loss, and keeps the layout it was given."""

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        self.layout = layout
        return MixerOutput(2.0 * x, None if state is None else state + 1, x.sum((1, 2)))


class Times(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def tokens() -> Tensor:
    return torch.randn(2, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def plain_norm(x: Tensor, eps: float) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()


def test_post_norm() -> None:
    x = tokens()
    sublayer = PostNorm(Doubles(), 4, dropout=0.0).double()
    assert torch.allclose(sublayer(x, None, LAYOUT).y, plain_norm(x + 2 * x, 1e-6), rtol=0, atol=1e-12)


def test_pre_norm() -> None:
    x = tokens()
    sublayer = PreNorm(Doubles(), 4, dropout=0.0).double()
    assert torch.allclose(sublayer(x, None, LAYOUT).y, x + 2 * plain_norm(x, 1e-6), rtol=0, atol=1e-12)


def test_a_weighted_shortcut_weighs_the_input_and_not_the_branch() -> None:
    x = tokens()
    sublayer = WeightedPostNorm(Doubles(), 4, dropout=0.0).double()
    assert torch.allclose(sublayer(x, None, LAYOUT).y, plain_norm(3 * x, 1e-6), rtol=0, atol=1e-12)
    omega = torch.tensor([0.5, 2.0, 3.0, -1.0], dtype=torch.float64)
    with torch.no_grad():
        sublayer.shortcut.omega.copy_(omega)  # type: ignore[union-attr]
    y = sublayer(x, None, LAYOUT).y
    assert torch.allclose(y, plain_norm(x * omega + 2 * x, 1e-6), rtol=0, atol=1e-12)
    y.square().sum().backward()
    assert sublayer.shortcut.omega.grad is not None
    last = sublayer(x, None, Layout(True, last=1)).y
    assert torch.equal(last, y[:, -1:])


def test_a_shortcut_that_is_given_its_omega_has_begun_and_may_be_left_untrained() -> None:
    x = tokens()
    sublayer = WeightedPostNorm(Doubles(), 4, dropout=0.0, omega=2.5, trained=False).double()
    assert torch.allclose(sublayer(x, None, LAYOUT).y, plain_norm(4.5 * x, 1e-6), rtol=0, atol=1e-12)
    shortcut = sublayer.shortcut
    assert isinstance(shortcut, WeightedShortcut)
    assert float(shortcut.begun) == 2.5
    assert not shortcut.omega.requires_grad
    assert WeightedShortcut(4, 2.5).omega.requires_grad
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match=r"omega.*0, not"):
            WeightedShortcut(4, wrong)


def test_a_weighted_shortcut_begins_once_and_its_state_says_so() -> None:
    one, other = WeightedShortcut(4), WeightedShortcut(4)
    assert float(one.begun) == 0.0
    one.begin(1.75)
    assert one.omega.tolist() == [1.75] * 4
    assert one.omega.requires_grad
    assert dict(one.named_parameters()).keys() == {"omega"}
    with torch.no_grad():
        one.omega.add_(1.0)  # training
    other.load_state_dict(one.state_dict())
    assert (float(other.begun), other.omega.tolist()) == (1.75, [2.75] * 4)


def test_a_weighted_shortcut_cannot_be_undone() -> None:
    sublayer = WeightedPostNorm(Doubles(), 4)
    assert not sublayer.additive
    assert not Sublayer(Doubles(), nn.Identity(), nn.Identity(), WeightedShortcut(4), 0.0).additive
    with pytest.raises(ValueError, match="WeightedPostNorm"):
        ReversibleStack([{"mix": sublayer}], nn.Identity())


@pytest.mark.parametrize("kind", [PostNorm, WeightedPostNorm, PreNorm])
def test_epsilon_is_a_setting(kind: type) -> None:
    x = 1e-3 * tokens()
    expected = x + 2 * plain_norm(x, 1e-2) if kind is PreNorm else plain_norm(3 * x, 1e-2)
    assert torch.allclose(kind(Doubles(), 4, 0.0, eps=1e-2).double()(x, None, LAYOUT).y, expected, atol=1e-12)


def test_the_norm_of_prenorm_may_have_no_bias() -> None:
    x, sublayer = tokens(), PreNorm(Doubles(), 4, 0.0, bias=False).double()
    assert dict(sublayer.named_parameters()).keys() == {"norm_in.weight"}
    assert torch.allclose(sublayer(x, None, LAYOUT).y, x + 2 * plain_norm(x, 1e-6), rtol=0, atol=1e-12)


def test_every_part_stands_in_its_place() -> None:
    x = tokens()
    sublayer = Sublayer(Doubles(), Times(3.0), Times(5.0), Times(7.0), 0.0)
    assert torch.allclose(sublayer(x, None, LAYOUT).y, 5.0 * (7.0 * x + 2.0 * (3.0 * x)))
    normed = Sublayer(Doubles(), nn.Identity(), nn.LayerNorm(4), Times(0.5), 0.0).double()
    assert torch.allclose(normed(x, None, LAYOUT).y, layer_norm(0.5 * x + 2.0 * x, (4,)))


def test_without_a_norm() -> None:
    x, state = tokens(), torch.zeros(2)
    residual, plain = (kind(Doubles(), 4)(x, state, LAYOUT) for kind in (Residual, Plain))
    assert torch.equal(residual.y, 3.0 * x)
    assert torch.equal(plain.y, 2.0 * x)
    for mixed in (residual, plain):
        assert mixed.state.tolist() == [1.0, 1.0]
        assert torch.equal(mixed.aux, x.sum((1, 2)))
    assert not [*Residual(Doubles(), 4).parameters(), *Plain(Doubles(), 4).parameters()]


@pytest.mark.parametrize(("kind", "shortcut"), [(Residual, 1.0), (Plain, 0.0)])
def test_dropout_without_a_norm(kind: type, shortcut: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(1, 10, 100)
    sublayer = kind(Doubles(), 100, dropout=0.5)
    y = sublayer(x, None, LAYOUT).y
    assert sorted(set(y.flatten().tolist())) == [shortcut, shortcut + 4.0]
    assert 0.4 < (y == shortcut).float().mean() < 0.6
    assert torch.equal(sublayer.eval()(x, None, LAYOUT).y, shortcut + 2.0 * x)


def test_dropout_touches_the_branch_and_not_the_shortcut() -> None:
    torch.manual_seed(0)
    x = torch.ones(1, 10, 100)
    sublayer = Sublayer(Doubles(), nn.Identity(), nn.Identity(), nn.Identity(), 0.5)
    y = sublayer(x, None, LAYOUT).y
    assert sorted(set(y.flatten().tolist())) == [1.0, 5.0]
    assert 0.4 < (y == 5.0).float().mean() < 0.6
    assert torch.equal(sublayer.eval()(x, None, LAYOUT).y, 3.0 * x)


def test_the_body_gets_the_state_the_layout_and_the_stream_before_the_norm() -> None:
    x, body = tokens(), Doubles()
    layout = Layout(True, lengths=torch.tensor([3, 1]), positions=torch.arange(3))
    mixed = PreNorm(body, 4, dropout=0.0).double()(x, torch.zeros(2), layout)
    assert mixed.state.tolist() == [1.0, 1.0]
    assert body.layout.stream is x
    assert torch.allclose(body.layout.norm(x), plain_norm(x, 1e-6), rtol=0, atol=1e-12)
    assert body.layout.lengths is layout.lengths
    assert body.layout.positions is layout.positions
    assert layout.stream is None
    assert torch.allclose(mixed.aux, plain_norm(x, 1e-6).sum((1, 2)))


def test_a_body_that_returns_a_tuple_is_refused() -> None:
    class Pair(nn.Module):
        def forward(self, x: Tensor, state: State, layout: Layout) -> tuple[Tensor, State]:
            return x, state

    with pytest.raises(TypeError, match="Pair returned a tuple"):
        PostNorm(Pair(), 4)(torch.zeros(1, 3, 4), None, LAYOUT)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_body_that_returns_a_tensor_is_refused(rows: int) -> None:
    class Bare(nn.Module):
        def forward(self, x: Tensor, state: State, layout: Layout) -> Tensor:
            return x

    with pytest.raises(TypeError, match=r"Bare returned a Tensor; return MixerOutput\(y, state\)"):
        PostNorm(Bare(), 4)(torch.zeros(rows, 3, 4), None, LAYOUT)
