"""Batches of examples: a pure function of seed, epoch and step, shared by ranks, evaluated once each."""

from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.data import BitMemoryData, ExampleBatch, ExampleData, Examples
from repro.data.batches import Int64s
from repro.data.examples import shuffled
from repro.errors import UserError

SIZES = {"train": 50, "val": 13, "test": 7}


def numbers(indices: Int64s, epoch: int | None) -> Examples:
    """Example i of epoch e is the number 1000 e + i, or -i outside training."""
    values = -indices if epoch is None else 1000 * epoch + indices
    return Examples(
        torch.from_numpy(values.astype(np.float32))[:, None, None], torch.from_numpy(values)[:, None]
    )


class Counting(ExampleData):
    """Examples that tell who they are."""

    store_name = "counting"
    input_size = 1
    seq_len = 1
    n_targets = 3
    n_classes = 2

    def size(self, split: str) -> int:
        return SIZES[split]

    def reader(self, split: str) -> Any:
        return numbers

    @property
    def manifest_sha256(self) -> str:
        return "0"


def data(batch_size: int = 12, rank: int = 0, world: int = 1, parts: int = 1, **changes: Any) -> Counting:
    """A datamodule in a trainer's place without a trainer."""
    module = Counting(batch_size, **changes)
    module._share = lambda: (rank, world, parts)  # type: ignore[method-assign]
    return module


def order(epoch: int = 0, **changes: Any) -> list[list[int]]:
    return [rows.indices.tolist() for rows in data(**changes).plan_epoch(epoch)]


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    assert order() == order()
    assert order(seed=1) != order()
    assert order(epoch=1) != order()
    assert order(seed=1, epoch=0) != order(seed=0, epoch=1)


def test_an_order_is_pinned() -> None:
    """Records name a seed; it must mean the same order on any machine and in any version."""
    assert shuffled(10, (0, 0)).tolist() == [3, 2, 1, 8, 6, 0, 7, 4, 5, 9]
    assert shuffled(10, (0, 0)).dtype == np.int64


def test_an_epoch_has_every_example_at_most_once() -> None:
    for epoch in range(3):
        steps = order(epoch)
        assert [len(rows) for rows in steps] == [12] * 4
        seen = [*chain(*steps)]
        assert len(set(seen)) == 48
        assert set(seen) < set(range(50))
    assert data().steps_per_epoch == len(data().train_dataloader()) == 4


@pytest.mark.parametrize(("world", "parts"), [(1, 2), (2, 1), (3, 1), (2, 2), (3, 2), (12, 1), (1, 12)])
def test_ranks_and_micro_batches_share_the_global_batch(world: int, parts: int) -> None:
    for epoch in (0, 2):
        whole = order(epoch)
        ranks = [order(epoch, rank=rank, world=world, parts=parts) for rank in range(world)]
        assert {len(plan) for plan in ranks} == {4 * parts}
        for step, batch in enumerate(whole):
            shares = [plan[step * parts + part] for plan in ranks for part in range(parts)]
            assert {len(share) for share in shares} == {12 // (world * parts)}
            assert sorted(chain(*shares)) == sorted(batch)


@pytest.mark.parametrize(("world", "parts"), [(5, 1), (1, 5), (3, 3), (13, 1), (4, 2)])
def test_shares_that_do_not_come_out_even_are_refused(world: int, parts: int) -> None:
    with pytest.raises(UserError) as refused:
        data(world=world, parts=parts).train_dataloader()
    said = str(refused.value)
    assert f"batch_size 12 cannot be shared evenly by {world} ranks x {parts} micro-batches" in said
    assert said.endswith("must be one of 1, 2, 3, 4, 6, 12")


def test_a_batch_says_what_it_is() -> None:
    module = data(rank=1, world=3, parts=2, seed=4)
    loader = module.train_dataloader()
    for epoch in range(2):
        for rows, batch in zip(module.plan_epoch(epoch), loader, strict=True):
            assert isinstance(batch, ExampleBatch)
            assert int(batch.step_targets) == 12 * 3
            assert batch.step_targets.dtype == batch.index.dtype == torch.int64
            assert batch.index.tolist() == rows.indices.tolist()
            assert batch.examples.targets[:, 0].tolist() == [1000 * epoch + i for i in rows.indices.tolist()]


@pytest.mark.parametrize("world", [1, 2, 3, 5, 20])
@pytest.mark.parametrize(("limit", "n"), [(None, 13), (4, 4), (99, 13)])
def test_evaluation_scores_each_example_once(world: int, limit: int | None, n: int) -> None:
    found: list[int] = []
    for rank in range(world):
        loader = data(rank=rank, world=world, eval_batch_size=3).eval_loader("val", limit)
        sizes = [len(batch.index) for batch in loader]
        assert len(loader) == len(sizes) >= 1, "Lightning passes over an empty one"
        assert all(size == 3 for size in sizes[:-1])
        for batch in loader:
            assert batch.examples.targets[:, 0].tolist() == [-i for i in batch.index.tolist()]
            found += batch.index.tolist()
    assert sorted(found) == list(range(n))
    assert data().expected("val", limit) == n


def test_validation_reads_the_split_that_is_named() -> None:
    module = data()
    module.val_split = "test"
    assert sum(len(batch.index) for batch in module.val_dataloader()) == 7


@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_samples_are_the_same_in_every_run_and_shared_by_ranks(world: int) -> None:
    whole = [batch.index.tolist() for batch in data(seed=5).sampled_loader("val", 2, 5)]
    assert [len(rows) for rows in whole] == [5, 5]
    assert len(set(whole[0] + whole[1])) == 10, "without replacement"
    ranks = [
        [batch.index.tolist() for batch in data(rank=rank, world=world).sampled_loader("val", 2, 5)]
        for rank in range(world)
    ]
    for step, rows in enumerate(whole):
        assert sorted(chain(*(plan[step] for plan in ranks))) == sorted(rows)


def test_samples_of_a_small_split_go_round_it() -> None:
    drawn = [batch.index.tolist() for batch in data().sampled_loader("test", 5, 3)]
    seen = [*chain(*drawn)]
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
    ("changes", "said"),
    [({"batch_size": 0}, "batch_size 0 and eval_batch_size 50 must be at least 1"),
     ({"eval_batch_size": 0}, "batch_size 12 and eval_batch_size 0 must be at least 1"),
     ({"batch_size": 51}, "batch_size 51 is more than the 50 examples of training")],
)  # fmt: skip
def test_numbers_that_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        data(**changes).train_dataloader()


def flat(batch: ExampleBatch) -> list[torch.Tensor]:
    return [t for t in (*batch.examples, *batch[1:]) if t is not None]


def test_workers_build_the_same_batches() -> None:
    here, there = (BitMemoryData(4, 6, 3, 2, 24, 9, 4, seed=3, num_workers=n) for n in (0, 2))
    for mine, theirs in [
        (here.train_dataloader(), there.train_dataloader()),
        (here.eval_loader("test"), there.eval_loader("test")),
    ]:
        pairs = list(zip(mine, theirs, strict=True))
        assert pairs
        for a, b in pairs:
            assert len(flat(a)) == len(flat(b)) == 5
            assert all(torch.equal(x, y) for x, y in zip(flat(a), flat(b), strict=True))


class Recorder(LightningModule):
    """Remembers every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[list[int]] = []

    def training_step(self, batch: ExampleBatch, batch_idx: int) -> torch.Tensor:
        self.seen.append(batch.examples.targets[:, 0].tolist())
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAfter(Callback):
    """Saves once, when so many batches have been trained on."""

    def __init__(self, batches: int, path: Path) -> None:
        self.batches, self.path = batches, path

    def on_train_batch_end(self, trainer: Trainer, module: Any, *_: Any) -> None:
        if len(module.seen) == self.batches:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize(("parts", "cut"), [(1, 2), (1, 4), (1, 6), (2, 5)])
def test_a_resumed_training_goes_on_where_it_was(tmp_path: Path, parts: int, cut: int) -> None:
    checkpoint = tmp_path / "x.ckpt"

    def fit(callbacks: list[Callback], resume: Path | None) -> Recorder:
        module, trainer = Recorder(), Trainer(
            accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, max_steps=10, max_epochs=-1, limit_val_batches=0,
            accumulate_grad_batches=parts, callbacks=callbacks,
        )  # fmt: skip
        trainer.fit(module, Counting(12, seed=3), ckpt_path=resume, weights_only=False)
        return module

    whole = fit([SaveAfter(cut, checkpoint)], None)
    planned = data(parts=parts, seed=3)
    expected = [
        [1000 * epoch + i for i in rows.indices.tolist()]
        for epoch in range(3)
        for rows in planned.plan_epoch(epoch)
    ]
    assert whole.seen == expected[: 10 * parts]
    assert whole.seen[:cut] + fit([], checkpoint).seen == whole.seen
    assert all(a != b for a, b in pairwise(whole.seen)), "else a repeated batch would not show"


def test_its_position_is_two_numbers() -> None:
    module, loader = data(parts=2), None
    assert module.state_dict() == {}
    loader = iter(module.train_dataloader())
    for _ in range(3):
        next(loader)
    assert module.state_dict() == {"train": {"epoch": 0, "batch": 3, "parts": 2}}
    again = data(parts=2)
    again.load_state_dict(module.state_dict())
    assert torch.equal(next(iter(again.train_dataloader())).index, next(loader).index)
