"""The datamodule of streams: stages, masks, evaluation over ranks, resuming under a real Trainer."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.data import Stage, StreamBatch, StreamData, Streams, Windows
from repro.data.stream_data import Column
from repro.data.streams import Share
from repro.errors import UserError

SIZES = {"train": 500, "val": 101, "test": 57}


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


def share(module: Counting, rank: int, world: int, parts: int = 1) -> Counting:
    """Gives a datamodule a trainer's place without a trainer."""
    module._share = lambda: Share(rank, world, parts)  # type: ignore[method-assign]
    return module


def test_stages_change_the_length_and_nothing_else() -> None:
    module = data(stages=[Stage(epochs=2, seq_len=3), Stage(epochs=1, seq_len=6)])
    assert [module.seq_len_of(epoch) for epoch in range(5)] == [3, 3, 6, 12, 12]
    loader = module.train_dataloader()
    assert len(loader) == module.steps_per_epoch == 10
    for seq_len in (3, 3, 6, 12):
        batches = list(loader)
        assert [b.ids.shape for b in batches] == [(48 // seq_len, seq_len)] * 10
        assert [bool(b.fresh) for b in batches] == [True] + [False] * 9
        seen = torch.cat([b.targets.flatten() for b in batches])
        assert sorted(seen.tolist()) == list(range(1, 481))
        assert {int(b.step_tokens) for b in batches} == {48}


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
        assert bool(batches[0].fresh)
    assert module.counts["train"] == {"tokens": 500, "targets": 499, "dropped": 499 - 3 * 144}


@pytest.mark.parametrize("mask", [False, True])
def test_a_context_is_read_and_not_scored(mask: bool) -> None:
    module = data(context=5)
    module.mask = mask
    for batch in list(module.train_dataloader())[:3]:
        assert bool((batch.targets[:, :5] == -1).all())
        assert int(batch.step_tokens) == int((batch.targets >= 0).sum()) > 0
        assert torch.equal(batch.ids[:, 1:], batch.ids[:, :-1] + 1), "it is read"
    assert mask or int(batch.step_tokens) == 4 * 7


@pytest.mark.parametrize("cut", [Streams(8, rows=3), Windows(8, stride=3, rows=2)], ids=str)
def test_the_beginning_of_a_split_is_scored_alone(cut: Any) -> None:
    loader = data().eval_loader("val", cut, tokens=40)
    seen = torch.cat([b.targets.flatten() for b in loader])
    seen = seen[seen >= 0]
    assert sorted(seen.tolist()) == list(range(1, 1 + len(seen)))
    assert len(seen) == data().expected_tokens("val", cut, 40) == 40 - cut.dropped(40)
    assert data().expected_tokens("val", cut, 4000) == data().expected_tokens("val", cut)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"shards": 0}, "shards must be at least 1"), ({"shards": 2, "order": "sentences"}, "shards must be at least 1"),
     ({"context": 12}, "context 12"), ({"context": -1}, "context -1")],
)  # fmt: skip
def test_shards_and_contexts_that_cannot_be(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        data(**changes).train_dataloader()


def test_the_order_depends_on_the_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[list[int]]:
        return [s.index.tolist() for s in data(order="shuffled", seed=seed).plan_epoch(epoch)]

    assert order(0, 0) == order(0, 0)
    assert order(0, 0) != order(1, 0)
    assert order(0, 0) != order(0, 1)


def test_counts_tell_what_training_leaves_out() -> None:
    assert data().counts == {
        "train": {"tokens": 500, "targets": 499, "dropped": 19},
        "val": {"tokens": 101, "targets": 100, "dropped": 0},
        "test": {"tokens": 57, "targets": 56, "dropped": 0},
    }


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("cut", [Streams(8, rows=3), Windows(8, stride=3, rows=2)], ids=str)
@pytest.mark.parametrize("mask", [False, True])
def test_evaluation_counts_each_token_once(cut: Any, world: int, mask: bool) -> None:
    found: list[int] = []
    for rank in range(world):
        module = share(data(), rank, world)
        module.mask = mask
        loader = module.eval_loader("val", cut)
        assert len(loader) >= 1  # Lightning passes over an empty one
        for batch in loader:
            found += batch.targets[batch.targets >= 0].tolist()
    expected = [t for t in range(1, 101 - cut.dropped(100)) if t % 4 == 0 or not mask]
    assert sorted(found) == expected
    module = data()
    module.mask = mask
    assert module.expected_tokens("val", cut) == len(expected)


def test_a_rank_without_streams_gets_a_batch_without_rows() -> None:
    (batch,) = share(data(), 3, 4).eval_loader("val", Streams(8, rows=3))
    assert batch.ids.shape == (0, 1)
    assert int(batch.step_tokens) == 0


def test_masked_training_counts_the_scored_only() -> None:
    module = data()
    module.mask = True
    for batch in module.train_dataloader():
        assert int(batch.step_tokens) == int((batch.targets >= 0).sum()) == 12
        assert (batch.targets[batch.targets >= 0] % 4 == 0).all()
    assert module.counts["train"]["targets"] == 124


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: data(50), "batch_tokens 50 is not a multiple of seq_len 12; use 48 or 60"),
        (lambda: data(stages=[Stage(1, 7)]), "batch_tokens 48 is not a multiple of seq_len 7"),
        (lambda: Stage(0, 7), "0 epochs at seq_len 7"),
        (lambda: share(data(), 0, 3).train_dataloader(), "4 streams .* 3 ranks"),
        (lambda: data(600).train_dataloader(), "more than the 499 targets"),
        (lambda: data(order="sentences").train_dataloader(), "not stored sentence by sentence"),
    ],
)
def test_bad_settings_are_named(make: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()


def test_a_mask_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="a mask of 3 for 4 tokens"):
        Column(np.arange(4), np.ones(3, np.bool_))


def test_a_memory_map_is_not_copied_to_workers(tmp_path: Path) -> None:
    path = tmp_path / "tokens.bin"
    np.arange(50_000, dtype="<u2").tofile(path)
    column = Column(np.memmap(path, "<u2", mode="r"))
    sent = pickle.dumps(column)
    assert len(sent) < 2000
    again = pickle.loads(sent)
    assert isinstance(again.tokens, np.memmap)
    assert (again.tokens == column.tokens).all()
    assert again.n_targets == 49_999


def test_workers_build_the_same_batches() -> None:
    for ours, theirs in zip(data().train_dataloader(), data(num_workers=1).train_dataloader(), strict=True):
        assert isinstance(theirs, StreamBatch)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


class Recorder(LightningModule):
    """Remembers every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[tuple[Any, ...]] = []

    def training_step(self, batch: StreamBatch, batch_idx: int) -> torch.Tensor:
        self.seen.append((batch.targets.tolist(), bool(batch.fresh), int(batch.part)))
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAfter(Callback):
    """Saves once, when so many batches have been trained on."""

    def __init__(self, batches: int, path: Path) -> None:
        self.batches, self.path = batches, path

    def on_train_batch_end(self, trainer: Trainer, module: Recorder, *_: Any) -> None:
        if len(module.seen) == self.batches:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize(("parts", "cut"), [(1, 7), (1, 10), (2, 26)])
def test_a_resumed_training_goes_on_across_a_stage(tmp_path: Path, parts: int, cut: int) -> None:
    checkpoint = tmp_path / "x.ckpt"

    def fit(callbacks: list[Callback], resume: Path | None) -> Recorder:
        module, trainer = Recorder(), Trainer(
            accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, max_steps=25, max_epochs=-1, limit_val_batches=0,
            accumulate_grad_batches=parts, callbacks=callbacks,
        )  # fmt: skip
        loaded = data(order="shuffled", stages=[Stage(1, 6)])
        trainer.fit(module, loaded, ckpt_path=resume, weights_only=False)
        return module

    whole = fit([SaveAfter(cut, checkpoint)], None)
    planned = share(data(order="shuffled", stages=[Stage(1, 6)]), 0, 1, parts)
    expected = [s for epoch in range(3) for s in planned.plan_epoch(epoch)][: 25 * parts]
    assert [t for t, _, _ in whole.seen] == [(s.targets + 1).tolist() for s in expected]
    assert [p for _, _, p in whole.seen] == [*range(parts)] * 25
    assert {len(t) for t, _, _ in whole.seen[: 10 * parts]} == {8 // parts}
    assert whole.seen[:cut] + fit([], checkpoint).seen == whole.seen
