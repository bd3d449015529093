"""Wiring of stacks: order, states, auxiliary losses, and what a recipe of blocks refuses."""

import pytest
import torch
from torch import Tensor, nn

from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Layout,
    MixerOutput,
    PreNorm,
    ResidualStack,
    Sublayer,
)
from repro.nn.mixer import State

LAYOUT = Layout(True)


class Affine(nn.Module):
    """``a x + b`` with a loss of ``loss`` for each row; its state counts tokens."""

    def __init__(self, a: float, b: float, loss: float | None = None) -> None:
        super().__init__()
        self.a, self.b, self.loss = a, b, loss

    def init_state(self, batch: int, capacity: int | None = None, settings: object = None) -> State:
        return torch.full((batch,), self.b)

    def attend_to(self, memory: Tensor, lengths: Tensor | None) -> State:
        return memory.sum((1, 2)) * self.a

    def forward(self, x: Tensor, state: State, layout: Layout) -> MixerOutput:
        aux = None if self.loss is None else torch.full((x.shape[0],), self.loss)
        return MixerOutput(self.a * x + self.b, None if state is None else state + x.shape[1], aux)


def bare(body: nn.Module) -> Sublayer:
    return Sublayer(body, nn.Identity(), nn.Identity(), nn.Identity(), 0.0)


def stack(losses: tuple[float | None, ...] = (None,) * 4) -> ResidualStack:
    layers = [
        {"mix": bare(Affine(1.0, 1.0, losses[0])), "feed_forward": bare(Affine(2.0, 0.0, losses[1]))},
        {"mix": bare(Affine(0.0, 5.0, losses[2])), "feed_forward": bare(Affine(1.0, 0.0, losses[3]))},
    ]
    return ResidualStack(layers, nn.Identity())


def test_sublayers_run_in_order() -> None:
    y = stack()(torch.ones(2, 3, 1), None, LAYOUT).y
    # 1 → 1+2 = 3 → 3+6 = 9 → 9+5 = 14 → 14+14 = 28
    assert torch.equal(y, torch.full((2, 3, 1), 28.0))


def test_the_final_norm_comes_last() -> None:
    normed = ResidualStack([{"mix": bare(Affine(1.0, 0.0))}], nn.Linear(1, 1, bias=False))
    nn.init.constant_(normed.final_norm.weight, 7.0)  # type: ignore[arg-type]
    assert normed(torch.ones(1, 1, 1), None, LAYOUT).y.item() == 14.0


def test_auxiliary_losses_add_up_over_layers() -> None:
    assert stack()(torch.ones(2, 3, 1), None, LAYOUT).aux is None
    aux = stack((1.0, None, 10.0, 100.0))(torch.ones(2, 3, 1), None, LAYOUT).aux
    assert aux.tolist() == [111.0, 111.0]


def test_every_layer_gets_its_own_state_back() -> None:
    net = stack()
    state = net.init_state(2)
    assert [s.tolist() for s in state["mix"]] == [[1.0, 1.0], [5.0, 5.0]]
    mixed = net(torch.ones(2, 3, 1), state, LAYOUT)
    assert [s.tolist() for s in mixed.state["mix"]] == [[4.0, 4.0], [8.0, 8.0]]
    assert list(mixed.state) == ["mix"]
    assert net(torch.ones(2, 3, 1), None, LAYOUT).state is None


def test_cross_attention_gets_what_it_kept_of_the_memory() -> None:
    layers = [{"mix": bare(Affine(1.0, 0.0)), "cross": bare(Affine(a, 0.0))} for a in (2.0, 3.0)]
    net = ResidualStack(layers, nn.Identity())
    memory = net.attend_to(torch.ones(2, 4, 1), None)
    assert [s.tolist() for s in memory["cross"]] == [[8.0, 8.0], [12.0, 12.0]]
    mixed = net(torch.ones(2, 3, 1), memory, LAYOUT)
    assert list(mixed.state) == ["cross"]
    both = net(torch.ones(2, 3, 1), {**net.init_state(2), **memory}, LAYOUT)
    assert list(both.state) == ["mix", "cross"]


def blocks(**changes: object) -> Blocks:
    made = {"mixers": [lambda d: FullAttention(d, 2)], "feed_forward": lambda d: FeedForward(d, 8)}
    return Blocks(**{**made, **changes})  # type: ignore[arg-type]


def test_mixers_are_tiled_over_depth() -> None:
    net = blocks(mixers=[lambda d: FullAttention(d, 1), lambda d: FullAttention(d, 4)]).build(8, 5)
    assert [layer["mix"].body.n_heads for layer in net.layers] == [1, 4, 1, 4, 1]
    assert len({id(layer["mix"].body) for layer in net.layers}) == 5


def test_layers_have_the_parts_that_were_asked_for() -> None:
    recipe = blocks(cross=lambda d: CrossAttention(d, 2), sublayer=PreNorm, final_norm=nn.LayerNorm)
    encoder, decoder = recipe.build(8, 2), recipe.build(8, 3, cross=True)
    assert [list(layer) for layer in encoder.layers] == [["mix", "feed_forward"]] * 2
    assert [list(layer) for layer in decoder.layers] == [["mix", "cross", "feed_forward"]] * 3
    assert isinstance(decoder.layers[0]["cross"], PreNorm)
    assert isinstance(encoder.final_norm, nn.LayerNorm)
    assert isinstance(blocks().build(8, 1).final_norm, nn.Identity)


@torch.no_grad()
def test_layers_without_a_feed_forward_part() -> None:
    net = blocks(feed_forward=None, sublayer=PreNorm).build(8, 3)
    assert [list(layer) for layer in net.layers] == [["mix"]] * 3
    assert sum(p.numel() for p in net.parameters()) == 3 * (4 * 8 * 8 + 4 * 8 + 2 * 8), "attention and a norm"
    x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0))
    by_hand = x
    for layer in net.eval().layers:
        by_hand = layer["mix"](by_hand, None, LAYOUT).y
    assert torch.equal(net(x, None, LAYOUT).y, by_hand)
    assert not torch.equal(by_hand, x)


def test_a_decoder_without_a_cross_attention_is_refused() -> None:
    with pytest.raises(ValueError, match=r"blocks\.cross"):
        blocks().build(8, 2, cross=True)


def test_a_layer_that_is_no_mixer_is_refused() -> None:
    with pytest.raises(ValueError, match="Linear is no mixer, as it has no init_state"):
        blocks(mixers=[lambda d: nn.Linear(d, d)]).build(8, 2)


def test_an_empty_list_of_mixers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"blocks\.mixers"):
        blocks(mixers=[]).build(8, 2)
