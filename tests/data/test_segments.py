"""Batches of streams: inputs, targets, what is scored; sequences made lazily."""

import pickle

import numpy as np
import torch

from repro.data.segments import NOTHING, Lazy, Segment, build_batch

TOKENS = np.array([5, 6, 7, 8, 9, 10], np.uint16)
AT = np.array([[0, 1, 2], [2, 3, 4]])


def test_a_target_is_the_token_after_its_input() -> None:
    batch = build_batch(TOKENS, Segment(AT, np.array([4, 9]), fresh=True, part=1, step_tokens=77))
    assert batch.ids.tolist() == [[5, 6, 7], [7, 8, 9]]
    assert batch.targets.tolist() == [[6, 7, 8], [8, 9, 10]]
    assert [t.dtype for t in (batch.ids, batch.targets, batch.step_tokens, batch.index, batch.part)] == [
        torch.int64
    ] * 5
    assert (int(batch.step_tokens), batch.fresh.tolist(), int(batch.part)) == (77, True, 1)
    assert batch.index.tolist() == [4, 9]
    assert batch.fresh.dtype == torch.bool
    assert batch.step_tokens.shape == batch.fresh.shape == batch.part.shape == ()


def test_what_is_skipped_or_masked_is_not_scored() -> None:
    batch = build_batch(TOKENS, Segment(AT, np.arange(2), fresh=False, skip=np.array([0, 2])))
    assert batch.targets.tolist() == [[6, 7, 8], [-1, -1, 10]]
    assert (int(batch.step_tokens), batch.fresh.tolist()) == (4, False)
    scored = np.array([True, False, True, True, True, False])
    batch = build_batch(TOKENS, Segment(AT, np.arange(2), fresh=False, skip=np.array([0, 1])), scored)
    assert batch.targets.tolist() == [[-1, 7, 8], [-1, 9, -1]]
    assert int(batch.step_tokens) == 3


def test_a_batch_without_rows() -> None:
    batch = build_batch(TOKENS, NOTHING)
    assert batch.ids.shape == batch.targets.shape == (0, 1)
    assert int(batch.step_tokens) == 0
    assert batch.index.shape == (0,)


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
