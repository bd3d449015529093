"""The order of training: streams, blocks, sentences; shares of ranks and micro-batches; odd sizes."""

from typing import Any

import numpy as np
import pytest

from repro.data import StreamData
from repro.data.core.orders import OrderName, overlapping, rows_per_batch, steps_per_epoch
from repro.data.core.segments import Segment, build_batch
from repro.data.core.shares import Share
from repro.errors import UserError
from tests.data.running import placed
from tests.parity.golden import Golden, read

N, BATCH = 1003, 48  # 20 batches of 48, 43 targets dropped
ORDERS: list[OrderName] = ["stream", "shuffled", "sentences"]


class Numbers(StreamData):
    """Token i is the number i."""

    store_name = "numbers"
    n_targets = N
    mask: Any = None
    offsets: Any = None

    def tokens(self, split: str) -> Any:
        return np.arange(self.n_targets + 1)

    def scored(self, split: str) -> Any:
        return self.mask

    def sentences(self, split: str) -> Any:
        return self.offsets

    @property
    def manifest_sha256(self) -> str:
        return "0"


def plan_epoch(
    n: int, batch_tokens: int, seq_len: int, order: OrderName = "stream", seed_epoch: tuple[int, int] = (0, 0),
    share: Share = Share(), scored: Any = None, offsets: Any = None, context: int = 0,  # noqa: B008
) -> Any:  # fmt: skip
    seed, epoch = seed_epoch
    module = placed(Numbers(batch_tokens, seq_len, order, context=context, seed=seed), *share)
    module.n_targets, module.mask, module.offsets = n, scored, offsets
    return module.plan_epoch(epoch)


def sentence_offsets(n_targets: int) -> Any:
    """Sentences of 1 to 9 tokens."""
    lengths, total = [], 0
    while total < n_targets:
        lengths.append(min(1 + (7 * len(lengths)) % 9, n_targets - total))
        total += lengths[-1]
    return 1 + np.concatenate([[0], np.cumsum(lengths)])


def plan(
    order: OrderName = "stream",
    seq_len: int = 6,
    share: Share = Share(),  # noqa: B008
    n: int = N,
    epoch: int = 0,
    seed: int = 3,
    scored: Any = None,
    context: int = 0,
) -> list[Segment]:
    offsets = sentence_offsets(n) if order == "sentences" else None
    return list(plan_epoch(n, BATCH, seq_len, order, (seed, epoch), share, scored, offsets, context))


def targets_of(segments: list[Segment]) -> Any:
    """The targets that count, in order."""
    skips = [0 if s.skip is None else int(s.skip[0]) for s in segments]
    return np.concatenate([s.targets[:, skip:].ravel() for s, skip in zip(segments, skips, strict=True)])


@pytest.mark.parametrize("seq_len", [1, 2, 3, 6, 16, 48])
@pytest.mark.parametrize("order", ORDERS)
def test_an_epoch_has_equally_many_batches_at_every_length(order: OrderName, seq_len: int) -> None:
    segments = plan(order, seq_len)
    assert len(segments) == N // BATCH == steps_per_epoch(N, BATCH)
    assert all(s.targets.shape == (BATCH // seq_len, seq_len) for s in segments)
    seen = np.concatenate([s.targets.ravel() for s in segments])
    assert len(np.unique(seen)) == seen.size == 960
    assert seen.min() >= 0
    assert seen.max() < N
    assert {s.step_targets for s in segments} == {BATCH}


def test_streams_are_read_on_from_batch_to_batch() -> None:
    segments = plan("stream", 6)
    for row in range(8):
        text = np.concatenate([s.targets[row] for s in segments])
        assert text.tolist() == list(range(row * 120, (row + 1) * 120))
    assert [s.reset_memory for s in segments] == [True] + [False] * 19
    assert segments[5].indices.tolist() == list(range(8))


def test_blocks_are_drawn_anew_and_stand_alone() -> None:
    epochs = [plan("shuffled", 6, epoch=e, seed=s) for s, e in ((3, 0), (3, 0), (3, 1), (4, 0))]
    orders = [np.concatenate([s.indices for s in segments]).tolist() for segments in epochs]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != orders[3]
    assert orders[0] != sorted(orders[0])
    for s in epochs[0]:
        assert s.reset_memory
        assert (s.targets == s.indices[:, None] * 6 + np.arange(6)).all()


def test_random_windows_begin_anywhere_and_depend_on_seed_epoch_and_step() -> None:
    epochs = [plan("random", 6, epoch=e, seed=s) for s, e in ((3, 0), (3, 0), (3, 1), (4, 0))]
    starts = [np.stack([s.indices for s in segments]) for segments in epochs]
    assert starts[0].shape == (N // BATCH, BATCH // 6)
    assert (starts[0] == starts[1]).all()
    assert (starts[0] != starts[2]).any()
    assert (starts[0] != starts[3]).any()
    assert len({row.tobytes() for row in starts[0]}) == len(starts[0])
    assert (starts[0] % 6).any(), "not at blocks only"
    for s in epochs[0]:
        assert s.reset_memory
        assert (s.targets == s.indices[:, None] + np.arange(6)).all()
    seen = np.concatenate([s.targets.ravel() for e in range(200) for s in plan("random", 6, n=59, epoch=e)])
    assert set(seen.tolist()) == set(range(59)), "the first target and the last one are reached"


def test_sentences_stay_whole_and_change_places() -> None:
    offsets = sentence_offsets(N)
    # token i is the sentence it belongs to; a sentence ends with the symbol that also stands before the first
    belongs = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    tokens = np.concatenate([[-7], belongs])
    tokens[offsets[1:] - 1] = -7
    segments = plan("sentences", 6)
    streams = np.stack([np.concatenate([s.targets[row] for s in segments]) for row in range(8)])
    laid = streams.ravel()  # stream after stream is the shuffled text
    starts = np.flatnonzero(np.diff(laid) != 1) + 1
    assert set((laid[starts] + 1).tolist()) <= set(offsets[:-1].tolist())
    assert len(starts) > 100
    order = belongs[laid[np.concatenate([[0], starts])]]
    assert order.tolist() != sorted(order.tolist())
    batches = [build_batch(tokens, s) for s in segments]
    for row in range(8):  # every input is the target before it, wherever the sentence went
        ids = np.concatenate([b.ids[row].numpy() for b in batches])
        targets = np.concatenate([b.targets[row].numpy() for b in batches])
        assert (ids[1:] == targets[:-1]).all()
    assert [s.reset_memory for s in segments] == [True] + [False] * 19
    again, other = plan("sentences", 6), plan("sentences", 6, epoch=1)
    assert all((a.targets == s.targets).all() for a, s in zip(again, segments, strict=True))
    assert any((o.targets != s.targets).any() for o, s in zip(other, segments, strict=True))


@pytest.mark.parametrize("order", [*ORDERS, "random"])
@pytest.mark.parametrize(("world", "micro_batches"), [(1, 2), (2, 1), (4, 1), (2, 2), (2, 4), (8, 1)])
def test_any_share_of_the_work_is_the_same_global_batches(
    order: OrderName, world: int, micro_batches: int
) -> None:
    whole = plan(order, 6)
    ranks = [plan(order, 6, Share(rank, world, micro_batches)) for rank in range(world)]
    assert {len(segments) for segments in ranks} == {len(whole) * micro_batches}
    for step, alone in enumerate(whole):
        rebuilt = np.full_like(alone.targets, -1)
        for rank, segments in enumerate(ranks):
            mine = segments[step * micro_batches : (step + 1) * micro_batches]
            assert [s.micro_batch for s in mine] == list(range(micro_batches))
            assert {s.reset_memory for s in mine} == {alone.reset_memory}
            assert {s.step_targets for s in mine} == {BATCH}
            # interleaving a rank's micro-batches gives its rows in the order in which memories are saved
            rows = np.stack([s.targets for s in mine], axis=1).reshape(-1, 6)
            rebuilt[rank::world] = rows
        assert (rebuilt == alone.targets).all()


def test_masked_targets_are_counted_over_the_global_batch() -> None:
    scored = np.arange(N + 1) % 5 == 0
    segments = [plan("stream", 6, Share(rank, 2, 2), scored=scored) for rank in range(2)]
    batches = [[build_batch(np.arange(N + 1), s, scored) for s in mine] for mine in segments]
    for step in range(20):
        four = [batches[rank][2 * step + micro_batch] for rank in range(2) for micro_batch in range(2)]
        total = sum(int((b.targets >= 0).sum()) for b in four)
        assert {b.step_targets for b in four} == {total}
        assert 0 < total < BATCH


@pytest.mark.parametrize("name", ["transformer-xl_al-rfou_half", "transformer-xl_vaswani_half"])
def test_windows_with_a_context_are_those_of_the_official_iterator(name: str) -> None:
    golden: Golden = read(name)
    sizes = golden.meta["settings"]["order"]
    rows, segment, tokens = sizes["batch"], sizes["segment"], sizes["tokens"]
    inputs, targets = golden["order_half/inputs"].numpy(), golden["order_half/targets"].numpy()
    for epoch in range(2):
        plan = plan_epoch(
            tokens - 1, rows * segment, segment, "stream", (0, epoch), Share(), context=targets.shape[2]
        )
        assert len(plan) == len(inputs)
        for ours, read_, counted in zip(plan, inputs, targets, strict=True):
            batch = build_batch(np.arange(tokens), ours)
            assert batch.ids.flatten().tolist() == read_[read_ >= 0].tolist()
            assert batch.targets[batch.targets >= 0].tolist() == counted[counted >= 0].tolist()
            assert ours.step_targets == np.count_nonzero(counted >= 0)


def test_without_a_context_short_segments_are_all_that_the_official_iterator_has_more() -> None:
    golden = read("transformer-xl_vaswani_half")
    sizes = golden.meta["settings"]["order"]
    official = golden["order_plain/targets"].numpy()
    plan_ = plan_epoch(
        sizes["tokens"] - 1, sizes["batch"] * sizes["segment"], sizes["segment"], "stream", (0, 0), Share()
    )
    ours = targets_of(list(plan_)) + 1
    assert (len(ours), np.count_nonzero(official >= 0)) == (216, 234)
    assert len(ours) == np.count_nonzero(official[(official >= 0).all((1, 2))])


@pytest.mark.parametrize(("seq_len", "context"), [(6, 3), (6, 5), (6, 1), (16, 8), (12, 8), (48, 24)])
def test_with_a_context_every_target_counts_once(seq_len: int, context: int) -> None:
    segments, rows = plan("stream", seq_len, context=context), BATCH // seq_len
    seen = targets_of(segments)
    assert len(np.unique(seen)) == len(seen) == sum(s.step_targets or 0 for s in segments)
    assert len(seen) >= N - 2 * rows, "all but the first token of each stream and what rows do not share"
    assert len(segments) == overlapping(N, BATCH, seq_len, context).steps
    ahead = [s.skip[0] if s.skip is not None else 0 for s in segments]
    assert ahead == [min(context, step * (seq_len - context)) for step in range(len(segments))]
    assert [s.reread for s in segments] == [*ahead[1:], 0], "of a window, as much as the next one reads again"
    assert {s.targets.shape[1] for s in segments[3 * context :][:-1]} <= {seq_len}
    assert [s.reset_memory for s in segments] == [True] + [False] * (len(segments) - 1)


def test_windows_that_do_not_overlap_count_half_of_the_text_only() -> None:
    """A control with the earlier windows: the test above can fail."""
    before = np.concatenate([s.targets[:, 3:].ravel() for s in plan("stream", 6)])
    assert len(np.unique(before)) == 480 < N - 16


@pytest.mark.parametrize(("world", "micro_batches"), [(1, 2), (2, 1), (2, 2), (8, 1)])
def test_ranks_share_the_rows_of_windows(world: int, micro_batches: int) -> None:
    whole = plan("stream", 6, context=4)
    ranks = [plan("stream", 6, Share(rank, world, micro_batches), context=4) for rank in range(world)]
    for step, alone in enumerate(whole):
        rebuilt = np.full_like(alone.targets, -1)
        for rank, segments in enumerate(ranks):
            mine = segments[step * micro_batches : (step + 1) * micro_batches]
            assert {(s.step_targets, s.reread, s.reset_memory) for s in mine} == {
                (alone.step_targets, alone.reread, alone.reset_memory)
            }
            rows = np.stack([s.targets for s in mine], axis=1)
            rebuilt[rank::world] = rows.reshape(-1, alone.targets.shape[1])
        assert (rebuilt == alone.targets).all()


def test_masked_targets_of_windows_count_once() -> None:
    scored = np.arange(N + 1) % 5 == 0
    batches = [build_batch(np.arange(N + 1), s, scored) for s in plan("stream", 6, scored=scored, context=3)]
    seen = np.concatenate([b.targets[b.targets >= 0].numpy() for b in batches])
    assert len(np.unique(seen)) == len(seen) == sum(b.step_targets for b in batches)
    assert (seen % 5 == 0).all()


@pytest.mark.parametrize("order", ["shuffled", "sentences"])
def test_a_context_needs_streams(order: OrderName) -> None:
    with pytest.raises(UserError, match=rf"context 3.*stream.*{order}"):
        plan(order, 6, context=3)


@pytest.mark.parametrize(
    ("batch_tokens", "seq_len", "message"),
    [
        (100, 30, "batch_tokens 100 is not a multiple of seq_len 30; use 90 or 120"),
        (10, 30, "batch_tokens 10 is not a multiple of seq_len 30; use 30"),
        (10, 0, "seq_len must be at least 1"),
        (0, 4, "batch_tokens must be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_named(batch_tokens: int, seq_len: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        rows_per_batch(batch_tokens, seq_len)


def test_shares_that_do_not_divide_name_those_that_do() -> None:
    with pytest.raises(UserError, match=r"8 streams.*3.*1.*1, 2, 4, 8$"):
        plan("stream", 6, Share(0, 3, 1))
    with pytest.raises(UserError, match=r"8 streams.*4.*4"):
        plan("stream", 6, Share(0, 4, 4))


def test_too_little_text_and_no_sentences() -> None:
    with pytest.raises(UserError, match=r"batch_tokens 48.*47 targets"):
        plan(n=47)
    assert len(plan(n=48)) == 1
    with pytest.raises(UserError, match="not stored sentence by sentence"):
        plan_epoch(N, BATCH, 6, "sentences", (0, 0), Share())
