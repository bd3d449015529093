"""Global batches: what is in them, who gets which rows, and the tensors."""

import tracemalloc

import numpy as np
import pytest
import torch

from repro.data.core.batches import (
    eval_batches,
    fitting,
    pair_batch,
    rank_part,
    rank_rows,
    shuffled_batches,
    source_batch,
    token_batches,
)
from repro.data.core.shares import Share
from repro.errors import UserError

BUDGET = 400


def some_lengths(seed: int, n: int = 1500) -> np.ndarray:
    random = np.random.default_rng(seed)
    source = random.integers(2, 40, n)
    return np.stack([source, np.clip(source + random.integers(-8, 9, n), 1, 60)], axis=1)


def slots(lengths: np.ndarray, batch: np.ndarray) -> int:
    return int(lengths[batch].max()) * len(batch)


@pytest.mark.parametrize("seed", range(5))
def test_every_pair_that_fits_is_used_once_within_the_budget(seed: int) -> None:
    lengths = some_lengths(seed)
    batches = token_batches(lengths, BUDGET, seed, epoch=3, max_length=45)
    used = np.sort(np.concatenate(batches))
    assert np.array_equal(used, np.flatnonzero(lengths.max(axis=1) <= 45))
    assert 0 < len(used) < len(lengths)
    assert max(slots(lengths, batch) for batch in batches) <= BUDGET


def test_sentences_of_similar_length_come_together() -> None:
    lengths = some_lengths(0)
    batches = token_batches(lengths, BUDGET, 0, 0)
    padded = sum(int(lengths[b, side].max()) * len(b) for b in batches for side in (0, 1))
    assert lengths.sum() / padded > 0.85
    at_random = np.array_split(np.random.default_rng(0).permutation(len(lengths)), len(batches))
    assert padded < 0.8 * sum(int(lengths[b, side].max()) * len(b) for b in at_random for side in (0, 1))


def test_plan_is_a_function_of_seed_and_epoch() -> None:
    lengths = some_lengths(1)
    plans = {
        key: [batch.tolist() for batch in token_batches(lengths, BUDGET, *key)]
        for key in [(0, 0), (0, 1), (1, 0), (1, 1)]
    }
    assert plans[0, 0] == [batch.tolist() for batch in token_batches(lengths, BUDGET, 0, 0)]
    assert len({str(plan) for plan in plans.values()}) == 4
    assert (
        len({str(sorted(map(sorted, plan))) for plan in plans.values()}) == 4
    )  # other mates, not only order
    assert len({len(plan) for plan in plans.values()}) == 1  # a Trainer counts batches once


def test_a_plan_is_pinned() -> None:
    lengths = np.stack([np.arange(2, 14), np.arange(13, 1, -1)], axis=1)
    batches = [batch.tolist() for batch in token_batches(lengths, 40, seed=3, epoch=1)]
    assert batches == [[3, 8, 4], [7, 5, 6], [0, 11, 1], [10, 2, 9]]


def test_a_plan_does_not_depend_on_how_lengths_are_kept() -> None:
    lengths = some_lengths(3)
    for plan in (lambda x: token_batches(x, BUDGET, 1, 2, 45), lambda x: eval_batches(x, BUDGET)):
        wide, narrow = plan(lengths.astype(np.int64)), plan(lengths.astype(np.int32))
        assert [batch.tolist() for batch in wide] == [batch.tolist() for batch in narrow]
        assert {batch.dtype for batch in narrow} == {np.dtype(np.int64)}


def test_planning_needs_few_bytes_a_pair() -> None:
    lengths = some_lengths(4, 200_000).astype(np.int32)
    tracemalloc.start()
    batches = token_batches(lengths, 25_000, 0, 0)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(map(len, batches)) == len(lengths)
    assert held < 10 * len(lengths)
    assert peak < 42 * len(lengths)


def test_batches_are_shuffled_by_length() -> None:
    lengths = some_lengths(2)
    widths = [int(lengths[batch].max()) for batch in token_batches(lengths, BUDGET, 0, 0)]
    assert widths != sorted(widths)
    assert widths != sorted(widths, reverse=True)


@pytest.mark.parametrize("n", range(1, 120, 7))
def test_no_batch_is_a_small_rest(n: int) -> None:
    lengths = np.full((n, 2), 10)
    batches = token_batches(lengths, BUDGET, 0, 0)
    assert sum(map(len, batches)) == n
    assert min(map(len, batches)) >= min(n, BUDGET // 10 // 2)


def test_nothing_that_fits_is_an_error() -> None:
    with pytest.raises(UserError, match="max_length 5 or batch_tokens 400"):
        token_batches(np.full((3, 2), 6), BUDGET, 0, 0, max_length=5)
    assert fitting(np.array([[3, 9], [9, 3], [3, 3]]), 8).tolist() == [2]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_ranks_and_micro_batches_share_every_row_evenly(world: int, micro_batches: int) -> None:
    lengths = some_lengths(3)
    for batch in token_batches(lengths, BUDGET, 0, 0):
        shares = [
            rank_rows(batch, Share(r, world, micro_batches), p)
            for r in range(world)
            for p in range(micro_batches)
        ]
        assert sorted(np.concatenate(shares).tolist()) == sorted(batch.tolist())
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        assert min(map(len, shares)) >= 1


def batched(order: list[int], widths: list[int], budget: int) -> list[list[int]]:
    """fairseq's ``batch_by_size_fast`` in multiples of eight, pair by pair."""
    batches: list[list[int]] = []
    batch: list[int] = []
    for i in order:
        if batch and (len(batch) + 1) * max(widths[j] for j in [*batch, i]) > budget:
            full = max(8 * (len(batch) // 8), len(batch) % 8)
            batches.append(batch[:full])
            batch = batch[full:]
        batch.append(i)
    return [*batches, batch]


@pytest.mark.parametrize("n", [1, 7, 63, 400])
def test_batches_made_once_are_those_of_a_loop(n: int) -> None:
    lengths = some_lengths(5, n)
    plans = [shuffled_batches(lengths, BUDGET, 3, epoch) for epoch in (0, 1)]
    made = [sorted(batch.tolist() for batch in plan) for plan in plans]
    assert made[0] == made[1]  # in another order
    assert n < 400 or [b.tolist() for b in plans[0]] != [b.tolist() for b in plans[1]]
    batches = sorted(plans[0], key=lambda batch: tuple(lengths[batch[0]]))
    order = [i for batch in batches for i in batch.tolist()]
    assert sorted(order) == list(range(n))
    assert [tuple(row) for row in lengths[order]] == sorted(map(tuple, lengths.tolist()))
    widths = lengths.max(axis=1).tolist()
    assert sorted(map(sorted, batched(order, widths, BUDGET))) == sorted(sorted(b.tolist()) for b in batches)
    other = [sorted(batch.tolist()) for batch in shuffled_batches(lengths, BUDGET, 4, 0)]
    assert n < 400 or sorted(other) != sorted(map(sorted, made[0]))  # pairs of equal lengths go by the seed


@pytest.mark.parametrize(("world", "micro_batches"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
def test_a_rank_takes_whole_batches_where_these_can_be_shared(world: int, micro_batches: int) -> None:
    batches = [np.arange(0, 5), np.arange(5, 9), np.arange(9, 12), np.arange(12, 20)]
    parts = [
        rank_part(batches, Share(rank, world, micro_batches), part)
        for rank in range(world)
        for part in range(micro_batches)
    ]
    assert sorted(np.concatenate(parts).tolist()) == list(range(20))
    if 4 % len(parts) == 0:
        assert all({*part.tolist()} >= {*batches[i].tolist()} for i, part in enumerate(parts))
    assert rank_part(batches[:1], Share(1, 2)).tolist() == [1, 3]  # the last of an epoch


def test_too_few_rows_for_the_ranks() -> None:
    with pytest.raises(UserError, match=r"5.*3.*2 micro-batches"):
        rank_rows(np.arange(5), Share(0, 3, 2))
    parts = [rank_rows(np.arange(6), Share(rank, 3, 2), part) for rank in range(3) for part in range(2)]
    assert sorted(map(list, parts)) == [[row] for row in range(6)]


def test_evaluation_uses_every_pair_once_and_mates_do_not_depend_on_the_world() -> None:
    lengths = np.concatenate([some_lengths(4), [[900, 3]]])  # longer than the budget: still there, alone
    batches = eval_batches(lengths, BUDGET)
    assert np.array_equal(np.sort(np.concatenate(batches)), np.arange(len(lengths)))
    assert [len(lengths) - 1] in [batch.tolist() for batch in batches]
    assert max(slots(lengths, batch) for batch in batches if len(batch) > 1) <= BUDGET
    for world in (2, 3):
        shared = [batch.tolist() for rank in range(world) for batch in batches[rank::world]]
        assert sorted(shared) == sorted(batch.tolist() for batch in batches)
    assert eval_batches(np.zeros((0, 2), np.int64), BUDGET) == []


def test_pair_batch_by_hand() -> None:
    rows = [np.array([7, 8]), np.array([], np.int64), np.array([9])]
    batch = pair_batch(rows, rows[::-1], np.array([5, 3, 4]), 42)
    assert batch.source.tolist() == [[7, 8, 2], [2, 0, 0], [9, 2, 0]]
    assert batch.source_lengths.tolist() == [3, 1, 2]
    assert batch.target_in.tolist() == [[1, 9, 0], [1, 0, 0], [1, 7, 8]]
    assert batch.target_out.tolist() == [[9, 2, 0], [2, 0, 0], [7, 8, 2]]
    assert batch.target_lengths.tolist() == [2, 1, 3]
    assert batch.indices.tolist() == [5, 3, 4]
    assert batch.step_targets == 42
    assert {tensor.dtype for tensor in batch[:-1]} == {torch.int64}


def test_source_batch_by_hand() -> None:
    batch = source_batch([[5], [6, 7]], pad_id=0, eos_id=2)
    assert batch.source.tolist() == [[5, 2, 0], [6, 7, 2]]
    assert batch.source_lengths.tolist() == [2, 3]
