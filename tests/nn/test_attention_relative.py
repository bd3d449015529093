"""Relative attention beyond the laws: sinusoids of distances, shared biases."""

from functools import partial
from typing import Any

import pytest
import torch

from repro.nn import Blocks, FeedForward, Layout, RelativeAttention
from repro.nn.attention.relative.attention import distance_sinusoids
from repro.nn.attention.relative.distance import repeat_first
from tests.models import golden
from tests.nn.mixers import D_MODEL, difference, randomise
from tests.nn.reference_relative import sinusoid

CPU = torch.device("cpu")


def stack(heads: list[int], **options: Any) -> Any:
    mixers = [partial(RelativeAttention, n_heads=h, **options) for h in heads]
    return Blocks(mixers, partial(FeedForward, d_ff=5)).build(D_MODEL, 3)


@pytest.mark.parametrize("length", [1, 2, 9])
def test_sinusoids_entry_by_entry(length: int) -> None:
    table = distance_sinusoids(length, 6, torch.float64, CPU)
    expected = torch.tensor([sinusoid(d, 6) for d in range(length - 1, -1, -1)], dtype=torch.float64)
    assert difference(table, expected) < 1e-14


def test_sinusoids_are_those_of_the_official_code() -> None:
    arrays, meta = golden.read("positions")
    size, width = meta["options"]["n"], meta["options"]["d"]
    table = distance_sinusoids(size, width, torch.float64, CPU)
    assert difference(table, arrays["out/txl_relative"]) < 1e-12
    assert difference(table.flip(0), arrays["out/vaswani_interleaved"]) > 1e-3
    clamp = int(arrays["in/clamp_len"])
    clamped = repeat_first(distance_sinusoids(clamp + 1, width, torch.float64, CPU), size)
    assert difference(clamped, arrays["out/txl_relative_clamped"]) < 1e-12
    assert difference(clamped, table) > 1e-3


def test_far_distances_are_exact_in_half_precision_too() -> None:
    exact = distance_sinusoids(3000, 8, torch.float64, CPU)
    assert difference(distance_sinusoids(3000, 8, torch.bfloat16, CPU).double(), exact) < 0.01
    assert difference(distance_sinusoids(3000, 8, torch.float32, CPU).double(), exact) < 1e-3


def test_sinusoids_are_made_once_and_validation_leaves_them_fit_for_training() -> None:
    distance_sinusoids.cache_clear()
    mixer, x = RelativeAttention(D_MODEL, 2), torch.randn(1, 5, D_MODEL)
    with torch.inference_mode():
        mixer(x, None, Layout(True))
    mixer(x, None, Layout(True)).y.sum().backward()
    assert mixer.place.weight.grad is not None
    assert distance_sinusoids.cache_info().misses == 1
    assert distance_sinusoids.cache_info().hits == 1
    assert distance_sinusoids.cache_info().maxsize is not None


def test_shared_biases_are_one_pair_for_all_layers() -> None:
    names = [name for name, _ in stack([3]).named_parameters() if "bias" in name and "mix.body" in name]
    assert names == ["layers.0.mix.body.content_bias", "layers.0.mix.body.position_bias"]


def test_own_biases_are_a_pair_for_each_layer() -> None:
    names = [name for name, _ in stack([3], shared_biases=False).named_parameters() if "mix.body" in name]
    assert sum("bias" in name for name in names) == 6


def test_biases_of_other_heads_cannot_be_shared() -> None:
    with pytest.raises(ValueError, match=r"\(3, 4\) and \(2, 6\)"):
        stack([3, 2])
    assert stack([3, 2], shared_biases=False) is not None


def test_an_odd_width_has_no_sinusoids() -> None:
    with pytest.raises(ValueError, match="even d_model, not 9"):
        RelativeAttention(9, 3)


def test_position_dropout_is_for_training_and_drops_positions_only() -> None:
    torch.manual_seed(0)
    mixer: Any = randomise(RelativeAttention(D_MODEL, 2, position_dropout=0.5))
    x = torch.randn(1, 6, D_MODEL)
    run = partial(mixer, x, None, Layout(True))
    mixer.eval()
    assert torch.equal(run().y, run().y)
    mixer.train()
    assert not torch.equal(run().y, run().y)
    with torch.no_grad():
        mixer.place.weight.zero_()
    assert torch.equal(run().y, run().y)


@torch.no_grad()
def test_a_single_token_computes_no_more_after_many_than_after_few() -> None:
    mixer: Any = RelativeAttention(D_MODEL, 2, mem_len=4)
    state, sizes = mixer.init_state(1, 10_000), set()
    for _ in range(12):
        _, state, *_ = mixer(torch.randn(1, 1, D_MODEL), state, Layout(True))
        sizes.add(tuple(state["slots"]["k"].shape))
    assert sizes == {(1, 5, 2, 6)}
    assert state["length"].tolist() == [12]


@pytest.mark.parametrize("clamp_len", [1, 3, 100])
@torch.no_grad()
def test_clamped_distances_repeat_the_farthest_key(clamp_len: int) -> None:
    mixer: Any = randomise(RelativeAttention(D_MODEL, 2).double())
    full = mixer.place_keys(9)
    query = torch.randn(2, 3, 6, dtype=torch.float64)
    keys, scores = mixer.place_keys(9, clamp_len), mixer.place_scores(query, 9, clamp_len)
    distances = torch.arange(8, -1, -1).clamp(max=clamp_len)
    assert difference(keys, full[:, 8 - distances]) < 1e-12
    assert difference(scores, query @ keys.transpose(1, 2)) < 1e-12
