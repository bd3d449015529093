"""Batches of streams: inputs, targets, what is scored; sequences made lazily."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch

from repro.data.core.segments import NOTHING, Lazy, Segment, build_batch

TOKENS = np.array([5, 6, 7, 8, 9, 10], np.uint16)
AT = np.array([[0, 1, 2], [2, 3, 4]])


def test_a_target_is_the_token_after_its_input() -> None:
    batch = build_batch(
        TOKENS, Segment(AT, np.array([4, 9]), reset_memory=True, micro_batch=1, step_targets=77)
    )
    assert batch.ids.tolist() == [[5, 6, 7], [7, 8, 9]]
    assert batch.targets.tolist() == [[6, 7, 8], [8, 9, 10]]
    assert {t.dtype for t in (batch.ids, batch.targets, batch.indices)} == {torch.int64}
    assert batch.indices.tolist() == [4, 9]
    assert (batch.step_targets, batch.reset_memory, batch.micro_batch, batch.scored) == (77, True, 1, None)
    kinds = [type(value) for value in (batch.step_targets, batch.reset_memory, batch.micro_batch)]
    assert kinds == [int, bool, int]


@pytest.mark.parametrize(
    ("skip", "mask", "targets", "places"),
    [
        ([0, 2], None, [[6, 7, 8], [-1, -1, 10]], [0, 1, 2, 5]),
        ([0, 1], [1, 0, 1, 1, 1, 0], [[-1, 7, 8], [-1, 9, -1]], [1, 2, 4]),
        ([3, 3], None, [[-1] * 3] * 2, []),
        ([0, 0], [1] * 6, [[6, 7, 8], [8, 9, 10]], None),
    ],
)
def test_what_is_skipped_or_masked_is_not_scored(skip: Any, mask: Any, targets: Any, places: Any) -> None:
    segment = Segment(AT, np.arange(2), reset_memory=False, skip=np.array(skip))
    batch = build_batch(TOKENS, segment, None if mask is None else np.array(mask, np.bool_))
    assert batch.targets.tolist() == targets
    assert (batch.scored if batch.scored is None else batch.scored.tolist()) == places, "None where all are"
    assert batch.step_targets == (6 if places is None else len(places))
    assert batch.reset_memory is False


def test_a_batch_without_rows() -> None:
    batch = build_batch(TOKENS, NOTHING)
    assert batch.ids.shape == batch.targets.shape == (0, 1)
    assert batch.step_targets == 0
    assert batch.indices.shape == (0,)


def test_a_lazy_sequence_makes_only_what_is_asked_for() -> None:
    made: list[int] = []

    def make(i: int) -> int:
        made.append(i)
        return 10 * i

    items = Lazy(make, range(2, 100, 3))
    assert len(items) == 33
    assert made == []
    rest = items[30:]
    assert made == []
    assert (len(rest), list(rest)) == (3, [920, 950, 980])
    assert items[0] == 20
    assert items[-1] == 980
    assert pickle.loads(pickle.dumps(Lazy(abs, range(3))))[2] == 2


def test_an_item_that_cannot_be_made_ends_no_sequence() -> None:
    with pytest.raises(IndexError):
        list(Lazy([1, 2].__getitem__, range(3)))


def test_padding_behind_the_last_token_counts_nowhere_where_only_some_tokens_count() -> None:
    cut = Segment(np.array([[3, 4, 5]]), np.arange(1), reset_memory=False, lengths=np.array([2]))
    assert cut.counting(np.ones(len(TOKENS), np.bool_)).tolist() == [[True, True, False]]
