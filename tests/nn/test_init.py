"""Published initialisations; statistics of large matrices under a fixed seed."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    PreNorm,
    ShawAttention,
    TokenEmbedding,
    WeightedPostNorm,
)
from repro.nn.init import Normal, glorot, glorot_fused, glorot_separate, normal_002, normal_002_by_depth

D = 256


def uniform_within(weight: Tensor, bound: float) -> bool:
    """Whether a large matrix looks uniform on ``[-bound, bound]``: its extremes, mean and spread."""
    weight = weight.detach()
    near = 0.999 * bound < float(weight.abs().max()) <= bound
    return near and abs(float(weight.mean())) < 0.01 * bound and _spread(weight, bound / math.sqrt(3))


def _spread(weight: Tensor, std: float) -> bool:
    return abs(float(weight.detach().std()) / std - 1.0) < 0.01


def test_glorot_of_fused_projections_counts_them_as_one_matrix() -> None:
    torch.manual_seed(0)
    full, cross = FullAttention(D, 4), CrossAttention(D, 4)
    glorot(full)
    glorot(cross)
    assert uniform_within(full.qkv.weight, math.sqrt(6 / (4 * D)))
    assert uniform_within(full.out.weight, math.sqrt(6 / (2 * D)))
    assert uniform_within(cross.q.weight, math.sqrt(6 / (2 * D)))
    assert uniform_within(cross.kv.weight, math.sqrt(6 / (3 * D)))


def test_cross_attention_may_count_as_one_matrix_too() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([CrossAttention(D, 4), FullAttention(D, 4), FeedForward(D, 3 * D)])
    glorot_fused(model)
    cross, full, feed_forward = model
    for part in (cross.q, cross.kv, full.qkv):
        assert uniform_within(part.weight, math.sqrt(6 / (4 * D)))
        assert torch.equal(part.bias, torch.zeros_like(part.bias))
    assert uniform_within(cross.out.weight, math.sqrt(6 / (2 * D)))
    assert uniform_within(feed_forward.inner.weight, math.sqrt(6 / (4 * D)))


def test_biases_of_separate_projections_are_those_of_torch() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([CrossAttention(D, 4), FullAttention(D, 4), FullAttention(D, 4, bias=False)])
    glorot_separate(model)
    cross, full, _ = model
    for part in (cross.q, cross.kv, full.qkv):
        assert uniform_within(part.weight, math.sqrt(6 / (4 * D)))
        assert 0.97 / math.sqrt(D) < float(part.bias.detach().abs().max()) <= 1 / math.sqrt(D)
    assert torch.equal(cross.out.bias, torch.zeros_like(cross.out.bias))


@pytest.mark.parametrize("init", [glorot, glorot_fused, glorot_separate, normal_002, Normal()])
def test_weighted_shortcuts_begin_as_ones_or_with_what_they_are_given(init: Any) -> None:
    for omega in (None, 2.5):
        model = WeightedPostNorm(FeedForward(D, D), D, omega=omega)
        init(model)
        assert torch.equal(model.shortcut.omega, torch.full((D,), omega or 1.0))


def test_glorot_of_the_rest() -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([FeedForward(D, 3 * D), TokenEmbedding(D, 2000), nn.LayerNorm(D)])
    for parameter in model.parameters():
        nn.init.constant_(parameter, 9.0)
    glorot(model)
    assert uniform_within(model[0].inner.weight, math.sqrt(6 / (4 * D)))
    assert _spread(model[1].table.weight, 1 / math.sqrt(D))
    assert model[1].table.weight.abs().max() > 3.5 / math.sqrt(D)  # normal, not uniform
    assert torch.equal(model[2].weight, torch.ones(D))
    for bias in (model[0].inner.bias, model[0].outer.bias, model[2].bias):
        assert torch.equal(bias, torch.zeros_like(bias))


@pytest.mark.parametrize("given", [{}, {"std": 0.1}])
def test_normal_002(given: dict[str, float]) -> None:
    torch.manual_seed(0)
    model = nn.ModuleList([FeedForward(D, 3 * D), TokenEmbedding(D, 2000), nn.LayerNorm(D)])
    for parameter in model.parameters():
        nn.init.constant_(parameter, 9.0)
    normal_002(model, **given)
    for weight in (model[0].inner.weight, model[0].outer.weight, model[1].table.weight):
        assert _spread(weight, given.get("std", 0.02))
        assert weight.abs().max() > 3.5 * given.get("std", 0.02), "normal, not uniform"
    assert torch.equal(model[0].inner.bias, torch.zeros(3 * D))
    assert torch.equal(model[0].outer.bias, torch.zeros(D))
    assert torch.equal(model[2].weight, torch.ones(D))
    assert torch.equal(model[2].bias, torch.zeros(D))


@pytest.mark.parametrize("init", [glorot, normal_002])
def test_layers_without_bias_are_initialised_too(init: object) -> None:
    model = nn.ModuleList([FeedForward(8, 16, bias=False), nn.LayerNorm(8, bias=False)])
    nn.init.constant_(model[1].weight, 9.0)
    init(model)  # type: ignore[operator]
    assert model[0].inner.weight.std() > 0
    assert torch.equal(model[1].weight, torch.ones(8))


def test_the_bias_of_shaws_encoding_starts_at_zero() -> None:
    mixer = ShawAttention(8, 2, 5)
    Normal()(mixer)
    assert not mixer.place_bias.any()
    assert mixer.place.all()
    assert mixer.content_bias.all()


@pytest.mark.parametrize("convolutions", [True, False])
def test_convolutions_may_keep_what_torch_drew(convolutions: bool) -> None:
    model = nn.ModuleList([nn.Conv1d(D, D, 3), FeedForward(D, D)])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Normal(convolutions=convolutions)(model)
    same = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    assert same == (set() if convolutions else {"0.weight", "0.bias"})


def test_outputs_of_branches_are_scaled_by_depth() -> None:
    torch.manual_seed(0)
    blocks = Blocks([partial(FullAttention, n_heads=4)], partial(FeedForward, d_ff=4 * D), PreNorm)
    model = nn.ModuleList([blocks.build(D, 2), nn.Linear(D, D)])
    normal_002_by_depth(model)
    for layer in model[0].each():  # type: ignore[operator]
        attention, feed_forward = layer["mix"].body, layer["feed_forward"].body
        assert _spread(attention.qkv.weight, 0.02)
        assert _spread(feed_forward.inner.weight, 0.02)
        assert _spread(attention.out.weight, 0.01), "four branches"
        assert _spread(feed_forward.outer.weight, 0.01)
        assert not feed_forward.outer.bias.any()
    assert _spread(model[1].weight, 0.02)


def test_a_branch_whose_output_is_not_known_is_named() -> None:
    stack = Blocks([partial(ShawAttention, n_heads=2, max_distance=5)], None).build(8, 1)
    with pytest.raises(ValueError, match="ShawAttention"):
        normal_002_by_depth(stack)
