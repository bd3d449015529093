"""Cuts for evaluation: each target counted once over all ranks, streams in order, windows that overlap."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from repro.batches import RandomBatches, TextCut, scored_places
from repro.data.core.orders import InRandomWindows, InStreams, Order, Windows, evaluation_of_rank
from repro.data.core.segments import Segment, build_batch
from repro.errors import UserError

SIZES = [1, 2, 7, 8, 9, 63, 64, 101]


def streams(rows: int, seq_len: int, n_targets: int) -> Order:
    return InStreams(rows, n_targets // rows, seq_len)


CUTS: dict[str, Callable[[int], Order]] = {
    **{
        f"{rows} streams of {seq_len}": partial(streams, rows, seq_len)
        for rows, seq_len in ((1, 8), (3, 8), (10, 7), (2, 1))
    },
    **{
        f"{rows} windows of {seq_len} by {stride}": partial(Windows, rows, stride, seq_len)
        for rows, stride, seq_len in ((1, 8, 8), (1, 3, 8), (4, 1, 8), (5, 7, 7), (1, 1, 1), (1, 5, 200))
    },
}


def batches(order: Order) -> list[Segment]:
    return list(evaluation_of_rank(order, 0, 1))


def scored(segment: Segment, n: int) -> list[int]:
    """The targets that a segment scores, through the batch that is built from it."""
    batch = build_batch(np.arange(n + 1), segment)
    assert (batch.ids >= 0).all()
    result: list[int] = scored_places(batch.targets.flatten(), batch.scored).tolist()
    assert batch.step_targets == len(result) == int((batch.targets >= 0).sum())
    return result


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("cut", CUTS)
def test_each_target_is_counted_once_over_all_ranks(cut: str, n: int, world: int) -> None:
    order = CUTS[cut](n)
    seen = [t for rank in range(world) for s in evaluation_of_rank(order, rank, world) for t in scored(s, n)]
    # target i is token i + 1, so the first token of a split is never one
    assert sorted(seen) == list(range(1, order.n_targets + 1))
    assert n - order.n_targets == (n % order.rows if "streams" in cut else 0)


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_a_stream_belongs_to_one_rank_and_is_read_in_order(world: int) -> None:
    order = InStreams(3, 33, 8)
    for rank in range(world):
        segments = list(evaluation_of_rank(order, rank, world))
        assert len(segments) == (5 if rank < 3 else 0)
        for row, stream in enumerate(range(rank, 3, world)):
            text = np.concatenate([s.targets[row] for s in segments])
            assert text.tolist() == list(range(33 * stream, 33 * (stream + 1)))
            assert {int(s.indices[row]) for s in segments} == {stream}
        assert [s.reset_memory for s in segments] == [True, False, False, False, False][: len(segments)]
        assert [s.targets.shape[1] for s in segments] == [8, 8, 8, 8, 1][: len(segments)]


def test_windows_overlap_and_score_their_last_stride() -> None:
    segments = batches(Windows(2, 3, 8, 20))
    assert [s.targets[:, 0].tolist() for s in segments] == [[0, 3], [6, 9], [12]]
    assert [s.targets.shape for s in segments] == [(2, 8), (2, 8), (1, 8)]
    assert [s.indices.tolist() for s in segments] == [[0, 1], [2, 3], [4]]
    assert all(s.reset_memory for s in segments)
    assert scored(segments[0], 20) == [*range(1, 9), 9, 10, 11]
    assert scored(segments[2], 20) == [18, 19, 20]


@pytest.mark.parametrize("stride", [1, 3, 8])
def test_every_scored_target_has_the_context_it_should_have(stride: int) -> None:
    for s in batches(Windows(3, stride, 8, 50)):
        for row, start in enumerate(s.targets[:, 0]):
            at = build_batch(np.arange(51), s).targets[row]
            columns = np.flatnonzero(at.numpy() >= 0)
            if start > 0:
                assert columns[0] == 8 - stride


def test_the_short_window_is_a_batch_of_its_own() -> None:
    segments = batches(Windows(4, 3, 8, 21))
    assert [s.targets.shape for s in segments] == [(4, 8), (1, 8), (1, 6)]
    assert segments[-1].targets[0].tolist() == list(range(15, 21))
    assert scored(segments[-1], 21) == [21]


def test_a_plan_of_many_windows_is_cheap() -> None:
    planned = evaluation_of_rank(Windows(8, 1, 512, 10**8), 0, 1)
    assert len(planned) == -(-(10**8 - 511) // 8)
    assert planned[-1].targets[-1, -1] == 10**8 - 1


@pytest.mark.parametrize("world", [1, 2, 3])
def test_random_windows_are_a_sample_that_the_seed_decides(world: int) -> None:
    ranks = [evaluation_of_rank(InRandomWindows(3, 5, 8, 20, (4,)), rank, world) for rank in range(world)]
    drawn = [ranks[i % world][i // world] for i in range(5)]
    assert sum(map(len, ranks)) == 5
    starts = np.stack([s.targets[:, 0] for s in drawn])
    for s in drawn:
        assert s.reset_memory
        assert (s.targets == s.indices[:, None] + np.arange(8)).all()
        assert len(scored(s, 20)) == 24, "every target of a window counts"
    assert starts.min() >= 0
    assert starts.max() <= 12
    assert len(np.unique(starts)) > 5
    other = batches(InRandomWindows(3, 5, 8, 20, (5,)))
    assert any((s.indices != o.indices).any() for s, o in zip(drawn, other, strict=True))


def test_random_windows_reach_both_ends_and_nothing_beyond() -> None:
    assert set(InRandomWindows(200, 1, 8, 10, (0,)).segment(0).indices.tolist()) == {0, 1, 2}
    assert set(InRandomWindows(200, 1, 8, 8, (0,)).segment(0).indices.tolist()) == {0}
    with pytest.raises(UserError, match="seq_len 8 is more than the 7 targets"):
        InRandomWindows(200, 1, 8, 7, (0,))


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
