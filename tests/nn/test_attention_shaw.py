"""Learned vectors and biases for distances, beyond the laws."""

from functools import partial
from typing import Any

import pytest
import torch

from repro.nn import Blocks, FeedForward, ShawAttention
from tests.nn.mixers import D_MODEL, difference, randomise


def made(max_distance: int = 3) -> Any:
    torch.manual_seed(0)
    return randomise(ShawAttention(D_MODEL, 2, max_distance).double())


@pytest.mark.parametrize(
    ("max_distance", "clamp_len"), [(3, None), (9, None), (0, None), (9, 1), (9, 2), (9, 7), (3, 4), (3, 5)]
)
@torch.no_grad()
def test_distances_beyond_the_farthest_use_its_vector_and_its_bias(
    max_distance: int, clamp_len: int | None
) -> None:
    mixer, size = made(max_distance), 7
    keys = mixer.place_keys(size, clamp_len)
    last = max_distance if clamp_len is None else min(max_distance, clamp_len - 1)
    assert keys.shape == (2, size, 7)
    for column in range(size):
        entry = min(size - 1 - column, last)
        assert torch.equal(keys[:, column, :6], mixer.place[entry])
        assert torch.equal(keys[:, column, 6], mixer.place_bias[entry])


@torch.no_grad()
def test_queries_meet_vector_and_bias() -> None:
    mixer, query = made(), torch.randn(2, 3, 4, 6, dtype=torch.float64)
    content, place = mixer.queries(query)
    assert difference(content, query + mixer.content_bias[:, None, None]) < 1e-14
    assert torch.equal(place[..., :6], query)
    assert torch.equal(place[..., 6], torch.ones(2, 3, 4, dtype=torch.float64))


def test_nothing_is_shared_between_layers() -> None:
    mixer = partial(ShawAttention, n_heads=2, max_distance=4)
    names = [
        name
        for name, _ in Blocks([mixer], partial(FeedForward, d_ff=5)).build(D_MODEL, 3).named_parameters()
        if "place" in name or "content_bias" in name
    ]
    assert len(names) == 9


def test_a_negative_distance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"max_distance.*0, not -1"):
        ShawAttention(D_MODEL, 2, max_distance=-1)
