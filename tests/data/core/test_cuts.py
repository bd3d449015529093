"""Cuts for evaluation: each target counted once over all ranks, streams in order, windows that overlap."""

from collections.abc import Callable

import numpy as np
import pytest

from repro.batches import RandomBatches, TextCut, scored_places
from repro.data.core.cuts import Cut, RandomWindows, Streams, Windows
from repro.data.core.segments import Segment, build_batch
from repro.errors import UserError

SIZES = [1, 2, 7, 8, 9, 63, 64, 101]
CUTS: list[Cut] = [
    Streams(8), Streams(8, rows=3), Streams(7, rows=10), Streams(1, rows=2),
    Windows(8, stride=8), Windows(8, stride=3), Windows(8, stride=1, rows=4), Windows(7, stride=7, rows=5),
    Windows(1, stride=1), Windows(200, stride=5),
]  # fmt: skip


def scored(segment: Segment, n: int) -> list[int]:
    """The targets that a segment scores, through the batch that is built from it."""
    batch = build_batch(np.arange(n + 1), segment)
    assert (batch.ids >= 0).all()
    result: list[int] = scored_places(batch.targets.flatten(), batch.scored).tolist()
    assert batch.step_targets == len(result) == int((batch.targets >= 0).sum())
    return result


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("cut", CUTS, ids=str)
def test_each_target_is_counted_once_over_all_ranks(cut: Cut, n: int, world: int) -> None:
    seen = [t for rank in range(world) for s in cut.plan(n, rank, world) for t in scored(s, n)]
    # target i is token i + 1, so the first token of a split is never one
    assert sorted(seen) == list(range(1, n + 1 - cut.dropped(n)))


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_stream_belongs_to_one_rank_and_is_read_in_order(world: int) -> None:
    n, cut = 101, Streams(8, rows=3)
    assert cut.dropped(n) == 2
    for rank in range(world):
        segments = list(cut.plan(n, rank, world))
        assert len(segments) == (5 if rank < 3 else 0)
        for row, stream in enumerate(range(rank, 3, world)):
            text = np.concatenate([s.targets[row] for s in segments])
            assert text.tolist() == list(range(33 * stream, 33 * (stream + 1)))
            assert {int(s.indices[row]) for s in segments} == {stream}
        assert [s.reset_memory for s in segments] == [True, False, False, False, False][: len(segments)]
        assert [s.targets.shape[1] for s in segments] == [8, 8, 8, 8, 1][: len(segments)]


def test_one_stream_drops_nothing() -> None:
    assert [Streams(8).dropped(n) for n in SIZES] == [0] * len(SIZES)
    assert [Streams(8, 10).dropped(n) for n in (9, 10, 11)] == [9, 0, 1]


def test_windows_overlap_and_score_their_last_stride() -> None:
    segments = list(Windows(8, stride=3, rows=2).plan(20))
    assert [s.targets[:, 0].tolist() for s in segments] == [[0, 3], [6, 9], [12]]
    assert [s.targets.shape for s in segments] == [(2, 8), (2, 8), (1, 8)]
    assert [s.indices.tolist() for s in segments] == [[0, 1], [2, 3], [4]]
    assert all(s.reset_memory for s in segments)
    assert scored(segments[0], 20) == [*range(1, 9), 9, 10, 11]
    assert scored(segments[2], 20) == [18, 19, 20]


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_every_scored_target_has_the_context_it_should_have(stride: int) -> None:
    for s in Windows(8, stride=stride, rows=3).plan(50):
        for row, start in enumerate(s.targets[:, 0]):
            at = build_batch(np.arange(51), s).targets[row]
            columns = np.flatnonzero(at.numpy() >= 0)
            if start > 0:
                assert columns[0] == 8 - stride


def test_the_short_window_is_a_batch_of_its_own() -> None:
    segments = list(Windows(8, stride=3, rows=4).plan(21))
    assert [s.targets.shape for s in segments] == [(4, 8), (1, 8), (1, 6)]
    assert segments[-1].targets[0].tolist() == list(range(15, 21))
    assert scored(segments[-1], 21) == [21]


def test_a_plan_of_many_windows_is_cheap() -> None:
    planned = Windows(512, stride=1, rows=8).plan(10**8)
    assert len(planned) == -(-(10**8 - 511) // 8)
    assert planned[-1].targets[-1, -1] == 10**8 - 1


@pytest.mark.parametrize("world", [1, 2, 3])
def test_random_windows_are_a_sample_that_the_seed_decides(world: int) -> None:
    cut = RandomWindows(8, rows=3, batches=5, seed=4)
    ranks = [cut.plan(20, rank, world) for rank in range(world)]
    batches = [ranks[i % world][i // world] for i in range(5)]
    assert sum(map(len, ranks)) == 5
    starts = np.stack([s.targets[:, 0] for s in batches])
    for s in batches:
        assert s.reset_memory
        assert (s.targets == s.indices[:, None] + np.arange(8)).all()
        assert len(scored(s, 20)) == 24, "every target of a window counts"
    assert starts.min() >= 0
    assert starts.max() <= 12
    assert len(np.unique(starts)) > 5
    other = RandomWindows(8, rows=3, batches=5, seed=5).plan(20)
    assert any((s.indices != o.indices).any() for s, o in zip(batches, other, strict=True))


def test_random_windows_reach_both_ends_and_nothing_beyond() -> None:
    cut = RandomWindows(8, rows=200, batches=1, seed=0)
    assert set(cut.plan(10)[0].indices.tolist()) == {0, 1, 2}
    assert set(cut.plan(8)[0].indices.tolist()) == {0}
    with pytest.raises(UserError, match="seq_len 8 is more than the 7 targets"):
        cut.plan(7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TextCut(0), "seq_len .* 0"),
        (lambda: TextCut(4, rows=-1), "rows .* -1"),
        (lambda: TextCut(4, tokens=0), "tokens .* 0"),
        (lambda: TextCut(4, stride=5), "seq_len 4, not 5"),
        (lambda: TextCut(4, stride=0), "seq_len 4, not 0"),
        (lambda: TextCut(4, batches=0), "batches .* 0"),
        (lambda: TextCut(4, batches=2, stride=4), "batches 2 .* stride"),
        (lambda: TextCut(4, batches=2, tokens=9), "batches 2 .* tokens"),
        (lambda: TextCut(4, batches=2, documents=True), "batches 2 .* documents"),
        (lambda: RandomBatches(0, 2), "batches 0"),
        (lambda: RandomBatches(2, 0), "rows 0"),
    ],
)
def test_selections_with_numbers_out_of_range_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
