"""Key-value states: appending, capacity, and which keys a query sees."""

import pytest
import torch
from torch import Tensor

from repro.nn import Layout
from repro.nn.cache import append, empty_cache

WIDTHS = {"k": (2, 3), "v": (2, 5)}


def tokens(batch: int, steps: int, value: float) -> dict[str, Tensor]:
    return {name: torch.full((batch, steps, *width), value) for name, width in WIDTHS.items()}


@pytest.mark.parametrize("capacity", [None, 7])
def test_an_empty_state(capacity: int | None) -> None:
    state = empty_cache(4, WIDTHS, torch.zeros(1, dtype=torch.float64), capacity)
    held = state["past" if capacity is None else "slots"]
    assert held["k"].shape == (4, capacity or 0, 2, 3)
    assert held["v"].shape == (4, capacity or 0, 2, 5)
    assert held["k"].dtype == torch.float64
    assert state["length"].tolist() == [0] * 4


@pytest.mark.parametrize("capacity", [None, 9])
def test_rows_of_different_lengths_stay_aligned_to_the_left(capacity: int | None) -> None:
    state = empty_cache(2, WIDTHS, torch.zeros(1), capacity)
    kind = "past" if capacity is None else "slots"
    _, state, _ = append(state, tokens(2, 3, 1.0), Layout(True, lengths=torch.tensor([3, 1])))
    assert state["length"].tolist() == [3, 1]
    keys, state, attention_mask = append(state, tokens(2, 2, 2.0), Layout(True, lengths=torch.tensor([1, 2])))
    assert state["length"].tolist() == [4, 3]
    assert keys["v"] is state[kind]["v"]
    assert keys["k"][0, :4, 0, 0].tolist() == [1, 1, 1, 2]
    assert keys["k"][1, :3, 1, 2].tolist() == [1, 2, 2]
    assert attention_mask[0, 0].sum(-1).tolist() == [4, 5]
    assert attention_mask[1, 0].sum(-1).tolist() == [2, 3]
    assert attention_mask[1, 0, 1].nonzero().flatten().tolist() == [0, 1, 2]


def test_without_causality_every_query_sees_all_that_is_kept() -> None:
    state = empty_cache(2, WIDTHS, torch.zeros(1), None)
    _, _, attention_mask = append(state, tokens(2, 4, 1.0), Layout(False, lengths=torch.tensor([4, 2])))
    assert attention_mask.shape == (2, 1, 4, 4)
    assert attention_mask[1, 0].tolist() == [[True, True, False, False]] * 4


@pytest.mark.parametrize("steps", [1, 4])
def test_more_tokens_than_the_capacity_raise(steps: int) -> None:
    state = empty_cache(1, WIDTHS, torch.zeros(1), 4)
    _, state, _ = append(state, tokens(1, 4, 1.0), Layout(True))
    with pytest.raises(IndexError):
        append(state, tokens(1, steps, 2.0), Layout(True))


def test_concatenation_leaves_the_old_state_as_it_was() -> None:
    state = empty_cache(1, WIDTHS, torch.zeros(1), None)
    _, state, _ = append(state, tokens(1, 2, 1.0), Layout(True))
    held = state["past"]["k"].clone()
    append(state, tokens(1, 2, 2.0), Layout(True))
    assert torch.equal(state["past"]["k"], held)
