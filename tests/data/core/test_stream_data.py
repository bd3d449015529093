"""The datamodule of streams: stages, masks, evaluation over ranks, resuming under a real Trainer."""

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.batches import Evaluation, StreamBatch, TextCut
from repro.data import Stage, StreamData
from repro.data.core.stream_data import Column
from repro.errors import UserError
from tests.data.running import SaveAt, placed, same, train

SIZES = {"train": 500, "val": 101, "test": 57}
STREAMS, WINDOWS = TextCut(8, rows=3), TextCut(8, rows=2, stride=3)  # the one drops what 3 streams leave over


class Counting(StreamData):
    """Token i is the number i."""

    store_name = "counting"
    vocab_size = 500
    mask = False

    def tokens(self, split: str) -> Any:
        return np.arange(SIZES[split])

    def scored(self, split: str) -> Any:
        return np.arange(SIZES[split]) % 4 == 0 if self.mask else None

    @property
    def manifest_sha256(self) -> str:
        return "0"


def data(batch_tokens: int = 48, seq_len: int = 12, **changes: Any) -> Counting:
    return Counting(batch_tokens, seq_len, **changes)


def test_stages_change_the_length_and_nothing_else() -> None:
    module = data(stages=[Stage(epochs=2, seq_len=3), Stage(epochs=1, seq_len=6)])
    assert [module.seq_len_of(epoch) for epoch in range(5)] == [3, 3, 6, 12, 12]
    loader = module.train_dataloader()
    assert len(loader) == module.steps_per_epoch == 10
    for seq_len in (3, 3, 6, 12):
        batches = list(loader)
        assert [b.ids.shape for b in batches] == [(48 // seq_len, seq_len)] * 10
        assert [b.reset_memory for b in batches] == [True] + [False] * 9
        seen = torch.cat([b.targets.flatten() for b in batches])
        assert sorted(seen.tolist()) == list(range(1, 481))
        assert {b.step_targets for b in batches} == {48}


@pytest.mark.parametrize("order", ["stream", "shuffled"])
def test_shards_are_read_in_turn(order: Any) -> None:
    module = data(order=order, shards=3)
    loader = module.train_dataloader()
    assert len(loader) == module.steps_per_epoch == 3, "499 targets, 166 in a shard"
    for epoch in range(4):
        batches = list(loader)
        seen = torch.cat([b.targets.flatten() for b in batches]).tolist()
        first = epoch % 3 * 166
        assert len(set(seen)) == 144
        assert first < min(seen) <= max(seen) <= first + 166
        assert batches[0].reset_memory
    assert module.counts["train"] == {"tokens": 500, "targets": 499, "dropped": 499 - 3 * 144}


@pytest.mark.parametrize("mask", [False, True])
def test_a_context_is_read_and_not_scored(mask: bool) -> None:
    module = data(context=5)
    module.mask = mask
    batches = list(module.train_dataloader())
    assert len(batches) == module.steps_per_epoch == 18, "124 targets in each of 4 streams, 7 at a time"
    assert bool((batches[0].ids[:, 0] == torch.arange(4) * 125).all())
    for batch in batches[1:]:
        assert bool((batch.targets[:, :5] == -1).all())
        assert batch.step_targets == int((batch.targets >= 0).sum()) > 0
        assert torch.equal(batch.ids[:, 1:], batch.ids[:, :-1] + 1), "it is read"
    assert mask or batches[1].step_targets == 4 * 7
    seen = torch.cat([batch.targets[batch.targets >= 0] for batch in batches]).tolist()
    assert len(set(seen)) == len(seen) == (124 if mask else 496)
    assert module.counts["train"]["dropped"] == 499 - 496


def test_a_context_goes_with_shards() -> None:
    module = data(context=6, shards=3)
    loader = module.train_dataloader()
    for epoch in range(4):
        seen = torch.cat([b.targets[b.targets >= 0] for b in loader]).tolist()
        first = epoch % 3 * 166
        assert len(set(seen)) == len(seen) == 4 * 40
        assert first < min(seen) <= max(seen) <= first + 166
    assert module.counts["train"]["dropped"] == 499 - 3 * 160


@pytest.mark.parametrize(
    ("cut", "expected", "n"),
    [(STREAMS, 40, 39), (WINDOWS, 40, 40), (STREAMS, 4000, 99), (WINDOWS, 4000, 100)],
)
def test_the_beginning_of_a_split_is_scored_alone(cut: TextCut, expected: int, n: int) -> None:
    evaluation = Evaluation("val", selection=replace(cut, tokens=expected))
    seen = torch.cat([b.targets.flatten() for b in data().evaluation_loader(evaluation)])
    assert sorted(seen[seen >= 0].tolist()) == list(range(1, 1 + n))
    assert data().expected(evaluation) == {"tokens": n}


def test_without_a_cut_a_split_is_one_stream() -> None:
    batches = list(data().val_dataloader())
    assert [b.targets.shape for b in batches] == [(1, 12)] * 8 + [(1, 4)]
    assert [b.reset_memory for b in batches] == [True] + [False] * 8
    assert data().expected(Evaluation("val")) == {"tokens": 100}


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"shards": 0}, "shards must be at least 1"), ({"shards": 2, "order": "sentences"}, "shards must be at least 1"),
     ({"context": 12}, "context 12"), ({"context": -1}, "context -1"),
     ({"context": 6, "order": "shuffled"}, "context 6"),
     ({"context": 6, "stages": [Stage(1, 6)]}, "context 6")],
)  # fmt: skip
def test_shards_and_contexts_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        data(**changes).train_dataloader()


def test_the_order_depends_on_the_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [s.indices.tolist() for s in data(order="shuffled", seed=seed).plan_epoch(epoch)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != order(0, 1)


def test_random_windows_leave_nothing_out_for_good() -> None:
    module = data(order="random")
    assert module.steps_per_epoch == len(list(module.train_dataloader())) == 10
    assert module.counts["train"] == {"tokens": 500, "targets": 499, "dropped": 0}
    with pytest.raises(UserError, match="context 6"):
        data(order="random", context=6)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("mask", [False, True])
def test_a_sample_of_a_split_is_counted(world: int, mask: bool) -> None:
    evaluation, result = Evaluation("val", selection=TextCut(8, rows=3, batches=5)), []
    for rank in range(world):
        module = placed(data(seed=7), rank, world)
        module.mask = mask
        for batch in module.evaluation_loader(evaluation):
            result += batch.targets[batch.targets >= 0].tolist()
    module = data(seed=7)
    module.mask = mask
    assert module.expected(evaluation) == {"tokens": len(result)}
    assert mask or len(result) == 5 * 3 * 8
    drawn = [b.indices.tolist() for b in data(seed=8).evaluation_loader(evaluation)]
    assert drawn != [b.indices.tolist() for b in data(seed=7).evaluation_loader(evaluation)]


def test_counts_tell_what_training_leaves_out() -> None:
    assert data().counts == {
        "train": {"tokens": 500, "targets": 499, "dropped": 19},
        "val": {"tokens": 101, "targets": 100, "dropped": 0},
        "test": {"tokens": 57, "targets": 56, "dropped": 0},
    }


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize(("cut", "dropped"), [(STREAMS, 1), (WINDOWS, 0)], ids=str)
@pytest.mark.parametrize("mask", [False, True])
def test_evaluation_counts_each_token_once(cut: TextCut, dropped: int, world: int, mask: bool) -> None:
    evaluation, result = Evaluation("val", selection=cut), []
    for rank in range(world):
        module = placed(data(), rank, world)
        module.mask = mask
        loader = module.evaluation_loader(evaluation)
        assert len(loader) >= 1  # Lightning passes over an empty one
        for batch in loader:
            result += batch.targets[batch.targets >= 0].tolist()
    expected = [t for t in range(1, 101 - dropped) if t % 4 == 0 or not mask]
    assert sorted(result) == expected
    module = data()
    module.mask = mask
    assert module.expected(evaluation) == {"tokens": len(expected)}


def test_a_rank_without_streams_gets_a_batch_without_rows() -> None:
    (batch,) = placed(data(), 3, 4).evaluation_loader(Evaluation("val", selection=STREAMS))
    assert batch.ids.shape == (0, 1)
    assert batch.step_targets == 0


def test_masked_training_counts_the_scored_only() -> None:
    module = data()
    module.mask = True
    for batch in module.train_dataloader():
        assert batch.step_targets == int((batch.targets >= 0).sum()) == 12
        assert (batch.targets[batch.targets >= 0] % 4 == 0).all()
    assert module.counts["train"]["targets"] == 124


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data(50), "batch_tokens 50 is not a multiple of seq_len 12; use 48 or 60"),
        (lambda: data(stages=[Stage(1, 7)]), "batch_tokens 48 is not a multiple of seq_len 7"),
        (lambda: Stage(0, 7), "epochs must be at least 1"),
        (lambda: placed(data(), 0, 3).train_dataloader(), "4 streams .* 3 ranks"),
        (lambda: placed(data(stages=[Stage(1, 6)]), 0, 8).train_dataloader(), "4 streams of 12 .* 8 ranks"),
        (lambda: data(num_workers=-1), "num_workers must be at least 0, not -1"),
        (lambda: data(600).train_dataloader(), "more than the 499 targets"),
        (lambda: data(order="sentences").train_dataloader(), "not stored sentence by sentence"),
        (
            lambda: data().expected(Evaluation("val", selection=replace(STREAMS, rows=500))),
            "val has .* targets, too few for an evaluation in 500 rows",
        ),
    ],
)
def test_bad_settings_are_named(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_tokens_of_a_store_are_opened_anew_by_workers() -> None:
    column = Column(partial(np.arange, 50_000))
    assert len(column.tokens) == 50_000
    sent = pickle.dumps(column)
    assert len(sent) < 2000
    again = pickle.loads(sent)
    assert (again.tokens == column.tokens).all()
    assert again.n_targets == 49_999


def test_workers_build_the_same_batches() -> None:
    for ours, official in zip(data().train_dataloader(), data(num_workers=1).train_dataloader(), strict=True):
        assert isinstance(official, StreamBatch)
        assert same(ours, official)


@pytest.mark.parametrize(("micro_batches", "cut"), [(1, 3), (1, 18), (2, 41)])
def test_a_resumed_training_goes_on_with_windows(tmp_path: Path, micro_batches: int, cut: int) -> None:
    checkpoint = tmp_path / "x.ckpt"

    def seen(**how: Any) -> list[tuple[Any, ...]]:
        how |= {"max_steps": 25, "max_epochs": -1, "accumulate_grad_batches": micro_batches}
        return train(data(context=5), lambda b: (b.ids.tolist(), b.targets.tolist(), b.reread), **how).seen

    whole = seen(callbacks=[SaveAt(cut, checkpoint)])
    assert len(whole) == 25 * micro_batches
    assert whole[:cut] + seen(resume=checkpoint) == whole


@pytest.mark.parametrize(("micro_batches", "cut"), [(1, 7), (1, 10), (2, 26)])
def test_a_resumed_training_goes_on_across_a_stage(tmp_path: Path, micro_batches: int, cut: int) -> None:
    checkpoint = tmp_path / "x.ckpt"

    def seen(**how: Any) -> list[tuple[Any, ...]]:
        how |= {"max_steps": 25, "max_epochs": -1, "accumulate_grad_batches": micro_batches}
        staged = data(order="shuffled", stages=[Stage(1, 6)])
        return train(staged, lambda b: (b.targets.tolist(), b.reset_memory, b.micro_batch), **how).seen

    whole = seen(callbacks=[SaveAt(cut, checkpoint)])
    planned = placed(data(order="shuffled", stages=[Stage(1, 6)]), micro_batches=micro_batches)
    expected = [s for epoch in range(3) for s in planned.plan_epoch(epoch)][: 25 * micro_batches]
    assert [t for t, _, _ in whole] == [(s.targets + 1).tolist() for s in expected]
    assert [p for _, _, p in whole] == [*range(micro_batches)] * 25
    assert {len(t) for t, _, _ in whole[: 10 * micro_batches]} == {8 // micro_batches}
    assert whole[:cut] + seen(resume=checkpoint) == whole
