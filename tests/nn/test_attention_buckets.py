"""Hashed attention with a state: a token sees the cached keys of its buckets."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from repro.nn import Hashing, Layout, LSHAttention
from repro.nn.mixer import reorder, reset_rows
from tests.nn.hashed import KINDS, TOLERANCE, make, same, tokens
from tests.nn.mixers import difference


def stream(mixer: LSHAttention, x: Tensor, size: int, capacity: int | None) -> tuple[Tensor, Tensor]:
    """Fed ``size`` tokens at a time; outputs and bucket ids."""
    state, outputs, ids = mixer.init_state(len(x), capacity), [], []
    for first in range(0, x.shape[1], size):
        y, state, _, new = mixer(x[:, first : first + size], state, Layout(True))
        outputs.append(y)
        ids.append(new)
    return torch.cat(outputs, 1), torch.cat(ids, -1)


@pytest.mark.parametrize("capacity", [None, 40])
@pytest.mark.parametrize("kind", ["paper", "bucket mask only", "plain keys, self", "average, bucket mask"])
def test_decoding_sees_the_keys_of_its_buckets(kind: str, capacity: int | None) -> None:
    """Law I with the stream's buckets, where one chunk holds the sequence."""
    mixer, x = make(replace(KINDS[kind], chunk=64)), tokens(31).detach()
    with torch.no_grad():
        for size in (1, 7, 31):
            torch.manual_seed(4)
            got, ids = stream(mixer, x, size, capacity)
            expected = mixer(x, None, Layout(True, bucket_replay=ids)).y
            assert difference(got, expected) < TOLERANCE
            # control: not everything is seen
            full = mixer(x, None, Layout(True, bucket_replay=torch.zeros_like(ids))).y
            assert difference(got, full) > 1e-2


def test_gradients_flow_through_a_growing_state() -> None:
    mixer, x = make(Hashing(2, 64, 4)), tokens(20)
    got, ids = stream(mixer, x, 6, None)
    same(mixer, got, mixer(x, None, Layout(True, bucket_replay=ids)).y, x)


@torch.no_grad()
def test_a_stream_keeps_its_rotations_until_it_is_reset() -> None:
    mixer, x = make(Hashing(2, 16, 8)), tokens(2).detach()
    state = mixer.init_state(2, 40)
    assert state["slots"]["buckets"].dtype == torch.int8
    state = mixer(x, state, Layout(True)).state
    first = state["rotations"].clone()
    assert first.abs().min() > 0.0
    state = mixer(x, state, Layout(True)).state
    assert torch.equal(state["rotations"], first)
    swapped = reorder(state, torch.tensor([1, 0, 0]))
    assert torch.equal(swapped["rotations"][2], first[0])
    state = mixer(x, reset_rows(state, torch.tensor([False, True])), Layout(True)).state
    assert torch.equal(state["rotations"][0], first[0])
    assert difference(state["rotations"][1], first[1]) > 1e-1
    assert state["rotations"][1].abs().min() > 0.0
    assert state["length"].tolist() == [6, 2]


@torch.no_grad()
def test_rows_of_a_reordered_state_go_on_alone() -> None:
    mixer, x = make(Hashing(2, 16, 4)), tokens(12, rows=3).detach()
    state = mixer(x[:, :8], mixer.init_state(3, 20), Layout(True, lengths=torch.tensor([8, 3, 6]))).state
    rows = torch.tensor([2, 0])
    beams = reorder(state, rows)
    got = mixer(x[rows, 8:9], beams, Layout(True)).y
    expected = mixer(x[:, 8:9], state, Layout(True)).y
    assert difference(got, expected[rows]) < TOLERANCE


def test_a_growing_state_needs_a_number_of_buckets() -> None:
    with pytest.raises(ValueError, match=r"set hashing.buckets, or give a capacity"):
        make(Hashing(1, 8)).init_state(1)
    assert "rotations" not in make(Hashing.across(1, 8)).init_state(1)
