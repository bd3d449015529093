"""Maps of one input in one product: what they compute, and that their parts stay known."""

import copy

import torch
from torch import nn

from repro.nn import CrossAttention, FullAttention, FusedLinear, LinearAttention, LSHAttention, parts_of


def test_it_computes_and_draws_what_one_linear_layer_does() -> None:
    torch.manual_seed(0)
    fused = FusedLinear(4, [3, 2, 5])
    torch.manual_seed(0)
    plain = nn.Linear(4, 10)
    x = torch.randn(2, 4)
    assert fused.state_dict().keys() == plain.state_dict().keys()
    assert torch.equal(fused(x), plain(x))


def test_weight_and_bias_have_parts() -> None:
    net = nn.Sequential(FusedLinear(4, [3, 2]), nn.Linear(5, 6), FusedLinear(6, [1, 1], bias=False))
    parts = parts_of(net)
    assert {name: parts[p] for name, p in net.named_parameters() if p in parts} == {
        "0.weight": [3, 2], "0.bias": [3, 2], "2.weight": [1, 1],
    }  # fmt: skip


def test_parts_stay_known() -> None:
    net = FusedLinear(4, [3, 2])
    moved = FusedLinear(4, [3, 2]).to("meta").to_empty(device="cpu").double()
    moved.load_state_dict(net.state_dict())
    for other in (copy.deepcopy(net), moved):
        assert {name: parts_of(other)[p] for name, p in other.named_parameters()} == {
            "weight": [3, 2], "bias": [3, 2],
        }  # fmt: skip
    with torch.no_grad():  # new parameters in place of the old
        net.load_state_dict(moved.state_dict(), assign=True)
    assert parts_of(net).keys() == set(net.parameters())


def test_the_projections_of_attentions() -> None:
    widths = {
        FullAttention: [12, 12, 12], LinearAttention: [12, 12, 12], LSHAttention: [12, 12], CrossAttention: [12, 12],
    }  # fmt: skip
    for kind, expected in widths.items():
        result = list(parts_of(kind(12, 2, bias=True)).values())
        assert result == [expected, expected]
