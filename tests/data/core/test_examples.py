"""Batches of examples: a pure function of seed, epoch and step, shared by ranks, evaluated once each."""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.batches import Evaluation, ExampleBatch, Examples, FirstExamples, RandomBatches, scored_places
from repro.data import BitMemoryData, ExampleData
from repro.data.core.draws import Int64s
from repro.data.core.examples import Rows
from repro.errors import UserError
from tests.data.running import SaveAt, placed, same, train

SIZES = {"train": 50, "val": 13, "test": 7}


class Counting(ExampleData):
    """Examples that tell who they are: example i of epoch e is the number 1000 e + i, or -i outside training."""

    store_name = "counting"
    input_size = 1
    seq_len = 1
    n_targets = 3
    n_classes = 2

    def size(self, split: str) -> int:
        return SIZES[split]

    def examples(self, split: str, indices: Int64s, epoch: int | None) -> Examples:
        values = -indices if epoch is None else 1000 * epoch + indices
        return Examples(
            torch.from_numpy(values.astype(np.float32))[:, None, None], torch.from_numpy(values)[:, None]
        )

    @property
    def manifest_sha256(self) -> str:
        return "0"


def data(
    batch_size: int = 12, rank: int = 0, world: int = 1, micro_batches: int = 1, **changes: Any
) -> Counting:
    return placed(Counting(batch_size, **changes), rank, world, micro_batches)


def order(epoch: int = 0, **changes: Any) -> list[list[int]]:
    return [rows.indices.tolist() for rows in data(**changes).plan_epoch(epoch)]


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    assert order() == order()
    assert order(seed=1) != order()
    assert order(epoch=1) != order()
    assert order(seed=1, epoch=0) != order(seed=0, epoch=1)


def test_an_epoch_has_every_example_at_most_once() -> None:
    for epoch in range(3):
        steps = order(epoch)
        assert [len(rows) for rows in steps] == [12] * 4
        seen = [*chain(*steps)]
        assert len(set(seen)) == 48
        assert set(seen) < set(range(50))
    assert data().steps_per_epoch == len(data().train_dataloader()) == 4


@pytest.mark.parametrize(
    ("world", "micro_batches"), [(1, 2), (2, 1), (3, 1), (2, 2), (3, 2), (12, 1), (1, 12)]
)
def test_ranks_and_micro_batches_share_the_global_batch(world: int, micro_batches: int) -> None:
    for epoch in (0, 2):
        whole = order(epoch)
        ranks = [order(epoch, rank=rank, world=world, micro_batches=micro_batches) for rank in range(world)]
        assert {len(plan) for plan in ranks} == {4 * micro_batches}
        for step, batch in enumerate(whole):
            shares = [plan[step * micro_batches + i] for plan in ranks for i in range(micro_batches)]
            assert {len(share) for share in shares} == {12 // (world * micro_batches)}
            assert sorted(chain(*shares)) == sorted(batch)


def test_shares_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(UserError, match=r"batch_size 12.*4.*2"):
        data(world=4, micro_batches=2).train_dataloader()


def test_a_batch_says_what_it_is() -> None:
    module = data(rank=1, world=3, micro_batches=2, seed=4)
    loader = module.train_dataloader()
    for epoch in range(2):
        for rows, batch in zip(module.plan_epoch(epoch), loader, strict=True):
            assert isinstance(batch, ExampleBatch)
            assert batch.step_targets == 12 * 3
            assert batch.indices.dtype == torch.int64
            assert batch.indices.tolist() == rows.indices.tolist()
            assert batch.examples.targets[:, 0].tolist() == [1000 * epoch + i for i in rows.indices.tolist()]


def test_a_batch_says_which_of_its_targets_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*targets: list[int]) -> Examples:
        examples = Examples(torch.zeros(len(targets), 1, 1), torch.tensor(targets))
        module = data()
        monkeypatch.setattr(module, "examples", lambda split, indices, epoch: examples)
        return module.build("val", Rows(np.arange(len(targets)), None, 0)).examples

    some, every = built([1, -1, 0], [5, 2, -1]), built([0, 3], [2, 0])
    assert some.scored is not None
    assert some.scored.tolist() == [0, 2, 3, 4]
    assert scored_places(some.targets.flatten(), some.scored).tolist() == [1, 0, 5, 2]
    assert every.scored is None
    assert scored_places(every.targets.flatten(), every.scored).tolist() == [0, 3, 2, 0]


@pytest.mark.parametrize("world", [1, 2, 3, 5, 20])
@pytest.mark.parametrize(("limit", "n"), [(None, 13), (4, 4), (99, 13), (0, 0)])
def test_evaluation_scores_each_example_once(world: int, limit: int | None, n: int) -> None:
    evaluation = Evaluation("val", selection=None if limit is None else FirstExamples(limit))
    result: list[int] = []
    for rank in range(world):
        loader = data(rank=rank, world=world, eval_batch_size=3).evaluation_loader(evaluation)
        sizes = [len(batch.indices) for batch in loader]
        assert len(loader) == len(sizes) >= 1, "Lightning passes over an empty one"
        assert all(size == 3 for size in sizes[:-1])
        for batch in loader:
            assert batch.examples.targets[:, 0].tolist() == [-i for i in batch.indices.tolist()]
            result += batch.indices.tolist()
    assert sorted(result) == list(range(n))
    assert data().expected(evaluation) == {"examples": n}


def test_validation_reads_the_split_that_is_named() -> None:
    module = data()
    module.val_split = "test"
    assert sum(len(batch.indices) for batch in module.val_dataloader()) == 7


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_samples_are_the_same_in_every_run_and_shared_by_ranks(world: int) -> None:
    evaluation = Evaluation("val", selection=RandomBatches(batches=2, rows=5))
    assert data().expected(evaluation) == {"examples": 10}
    whole = [batch.indices.tolist() for batch in data(seed=5).evaluation_loader(evaluation)]
    assert [len(rows) for rows in whole] == [5, 5]
    assert len(set(whole[0] + whole[1])) == 10, "without replacement"
    ranks = [
        [batch.indices.tolist() for batch in data(rank=rank, world=world).evaluation_loader(evaluation)]
        for rank in range(world)
    ]
    for step, rows in enumerate(whole):
        assert sorted(chain(*(plan[step] for plan in ranks))) == sorted(rows)


def test_samples_of_a_small_split_go_round_it() -> None:
    evaluation = Evaluation("test", selection=RandomBatches(batches=5, rows=3))
    seen = [*chain(*(batch.indices.tolist() for batch in data().evaluation_loader(evaluation)))]
    assert len(seen) == 15
    assert sorted(seen[:7]) == sorted(seen[7:14]) == list(range(7))
    assert seen[:7] != list(range(7))


def test_counts_tell_what_training_leaves_out() -> None:
    assert data().counts == {
        "train": {"examples": 50, "targets": 150, "dropped": 2},
        "val": {"examples": 13, "targets": 39, "dropped": 0},
        "test": {"examples": 7, "targets": 21, "dropped": 0},
    }
    assert data(batch_size=10).counts["train"]["dropped"] == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"batch_size": 0}, "batch_size must be at least 1, not 0"),
     ({"eval_batch_size": 0}, "eval_batch_size must be at least 1, not 0"),
     ({"batch_size": 51}, "batch_size 51 is more than the 50 examples of training")],
)  # fmt: skip
def test_numbers_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        data(**changes).train_dataloader()


def test_workers_build_the_same_batches() -> None:
    here, there = (BitMemoryData(4, 6, 3, 2, 24, 9, 4, seed=3, num_workers=n) for n in (0, 2))
    for mine, official in [
        (here.train_dataloader(), there.train_dataloader()),
        (here.predict_dataloader(), there.predict_dataloader()),
    ]:
        pairs = list(zip(mine, official, strict=True))
        assert pairs
        assert all(same(a, b) for a, b in pairs)


@pytest.mark.parametrize(("micro_batches", "cut"), [(1, 2), (1, 4), (1, 6), (2, 5)])
def test_a_resumed_training_goes_on_where_it_was(tmp_path: Path, micro_batches: int, cut: int) -> None:
    checkpoint = tmp_path / "x.ckpt"

    def seen(**how: Any) -> list[list[int]]:
        how |= {"max_steps": 10, "max_epochs": -1, "accumulate_grad_batches": micro_batches}
        return train(Counting(12, seed=3), lambda b: b.examples.targets[:, 0].tolist(), **how).seen

    whole = seen(callbacks=[SaveAt(cut, checkpoint)])
    planned = data(micro_batches=micro_batches, seed=3)
    expected = [
        [1000 * epoch + i for i in rows.indices.tolist()]
        for epoch in range(3)
        for rows in planned.plan_epoch(epoch)
    ]
    assert whole == expected[: 10 * micro_batches]
    assert whole[:cut] + seen(resume=checkpoint) == whole
    assert all(a != b for a, b in pairwise(whole)), "else a repeated batch would not show"
