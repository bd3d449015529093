"""Transcribers: frames through any body that sees all of them, whatever stands behind their end."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from repro.models import Body, Transcriber
from repro.nn import (
    BidirectionalLSTM,
    Blocks,
    Concatenated,
    FeedForward,
    FullAttention,
    NoPositions,
    Plain,
    VectorEmbedding,
)

D, C, V = 8, 5, 4


def body(kind: str, **settings: Any) -> Body:
    if kind == "recurrent":
        blocks = Blocks([BidirectionalLSTM], feed_forward=None, sublayer=Plain)
        return Body(D, 3, blocks, NoPositions, **({"causal": False, "dropout": 0.0} | settings))
    blocks = Blocks([partial(FullAttention, n_heads=2)], partial(FeedForward, d_ff=16))
    return Body(D, 2, blocks, **({"causal": False, "dropout": 0.0} | settings))


def network(kind: str = "attention", **settings: Any) -> Transcriber:
    torch.manual_seed(0)
    made = Transcriber(partial(VectorEmbedding, size=C, gain=1.0, dropout=0.0), body(kind, **settings), V)
    return made.double().eval()


def frames(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, C, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", ["attention", "recurrent"])
def test_a_recording_is_heard_as_if_alone(kind: str) -> None:
    net, x, lengths = network(kind), frames(3, 7), torch.tensor([7, 2, 5])
    result = net(x, lengths)
    assert result.shape == (3, 7, D)
    for row, n in enumerate(lengths.tolist()):
        alone = net(x[row : row + 1, :n])
        assert float((result[row, :n] - alone[0]).detach().abs().max()) < 1e-12
    assert float((net(x)[1, :2] - result[1, :2]).detach().abs().max()) > 1e-3, "else padding would not matter"


@pytest.mark.parametrize("kind", ["attention", "recurrent"])
def test_the_first_frame_hears_the_last(kind: str) -> None:
    net, x = network(kind), frames(1, 6).requires_grad_()
    (gradient,) = torch.autograd.grad(net(x)[0, 0].square().sum(), x)
    assert bool(gradient[0].abs().sum(-1).gt(0).all())


def test_the_head_scores_and_reads() -> None:
    net, x, lengths = network(), frames(2, 7), torch.tensor([7, 5])
    hidden = net(x, lengths)
    assert net.head.logits(hidden).shape == (2, 7, V)
    assert net.head.nll(hidden, lengths, torch.tensor([[1, 3], [2, -1]])).shape == (2,)
    assert len(net.head.decode(hidden, lengths)) == 2


def test_the_recurrent_body_has_the_published_size() -> None:
    """Three layers of 320 in each direction, behind the projection: 4 gates of inputs, states and two biases."""
    with torch.device("meta"):
        blocks = Blocks([BidirectionalLSTM], feed_forward=None, sublayer=Plain)
        made = Transcriber(
            partial(VectorEmbedding, size=40), Body(640, 3, blocks, NoPositions, causal=False), 40
        )
    layer = 2 * 4 * 320 * (640 + 320 + 2)
    assert sum(p.numel() for p in made.parameters()) == 3 * layer + 41 * 640 + 641 * 40


def test_positions_may_be_set_behind_the_frames() -> None:
    net = network(positions=partial(Concatenated, width=2))
    assert isinstance(net.input.proj, nn.Linear)
    assert net.input.proj.out_features == D - 2
    assert net(frames(1, 3)).shape == (1, 3, D)


def test_a_body_that_sees_only_the_past_is_refused() -> None:
    with pytest.raises(ValueError, match="set causal of its body to false"):
        network(causal=True)
