"""The datamodule of sentence pairs: batches, shares, counts, resuming under a real Trainer."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from repro.data import PairBatch, TranslationData
from repro.errors import UserError

STORE = "numbers-en-de/bpe300-n300"


def data(**changes: Any) -> TranslationData:
    settings: dict[str, Any] = {
        "store": STORE,
        "vocab_size": 300,
        "batch_tokens": 600,
        "eval_batch_tokens": 700,
    }
    return TranslationData(**(settings | changes))


def share(module: TranslationData, rank: int, world: int, parts: int) -> TranslationData:
    """Gives a datamodule a trainer's place without a trainer."""
    module._share = lambda: (rank, world, parts)  # type: ignore[method-assign]
    return module


def test_batches_hold_the_text(numbers_store: Path) -> None:
    module = data()
    sources, references = module.sources("train"), module.references("train")
    seen = []
    for batch in module.train_dataloader():
        assert int(batch.step_tokens) == int(batch.target_lengths.sum())
        assert batch.source.numel() <= 600
        for row, i in enumerate(batch.index.tolist()):
            assert module.tokenizer.decode(batch.source[row].tolist()) == sources[i]
            assert module.tokenizer.decode(batch.target_out[row].tolist()) == references[i]
            n = int(batch.target_lengths[row])
            assert batch.target_in[row, 0] == module.bos_id
            assert batch.target_out[row, n - 1] == module.eos_id
            assert torch.equal(batch.target_in[row, 1:n], batch.target_out[row, : n - 1])
            assert batch.source[row, batch.source_lengths[row] - 1] == module.eos_id
        seen += batch.index.tolist()
    assert sorted(seen) == list(range(300))


@pytest.mark.parametrize(("world", "parts"), [(1, 2), (2, 1), (3, 1), (2, 2)])
def test_any_share_of_the_work_is_the_same_global_batches(
    numbers_store: Path, world: int, parts: int
) -> None:
    alone = [(sorted(b.index.tolist()), int(b.step_tokens)) for b in data().train_dataloader()]
    ranks = [list(share(data(), rank, world, parts).train_dataloader()) for rank in range(world)]
    assert {len(batches) for batches in ranks} == {len(alone) * parts}
    for step, (rows, tokens) in enumerate(alone):
        mine = [batches[step * parts + part] for batches in ranks for part in range(parts)]
        assert sorted(i for batch in mine for i in batch.index.tolist()) == rows
        assert {int(batch.step_tokens) for batch in mine} == {tokens}
        assert sum(int(batch.target_lengths.sum()) for batch in mine) == tokens


def test_too_many_ranks_stop_before_training(numbers_store: Path) -> None:
    with pytest.raises(UserError, match="cannot be shared by 50 ranks x 2 micro-batches"):
        share(data(), 0, 50, 2).train_dataloader()


@pytest.mark.parametrize("world", [1, 2, 3])
def test_evaluation_counts_each_token_once(numbers_store: Path, world: int) -> None:
    batches = [b for rank in range(world) for b in share(data(), rank, world, 1).eval_loader("test")]
    assert sorted(i for b in batches for i in b.index.tolist()) == list(range(1000))
    total = sum(int(b.target_lengths.sum()) for b in batches)
    assert total == data().expected_tokens("test")
    module = data()
    assert total == sum(len(ids) + 1 for ids in module.tokenizer.encode_batch(module.references("test")))


def test_long_pairs_are_dropped_in_training_only_and_counted(numbers_store: Path) -> None:
    module = data(max_length=9)
    used = [i for batch in module.train_dataloader() for i in batch.index.tolist()]
    long = int((module.table("train").lengths.max(axis=1) > 9).sum())
    assert 0 < long < 300
    assert len(used) == 300 - long
    assert module.counts["train"]["dropped"] == long
    assert module.counts["val"]["dropped"] == 0
    assert module.counts["test"] == {
        "examples": 1000,
        "dropped": 0,
        "source_tokens": int(module.table("test").lengths[:, 0].sum()),
        "target_tokens": module.expected_tokens("test"),
    }
    assert sum(len(b.index) for b in module.val_dataloader()) == 500


def test_the_order_depends_on_the_seed_and_epoch(numbers_store: Path) -> None:
    def order(seed: int, epoch: int) -> str:
        return str([rows.index.tolist() for rows in data(seed=seed).plan_epoch(epoch)])

    assert order(0, 0) == order(0, 0)
    assert len({order(0, 0), order(0, 1), order(1, 0)}) == 3


def test_languages_can_be_turned_round(numbers_store: Path) -> None:
    there, back = data(), data(source_language="de", target_language="en")
    assert there.sources("val") == back.references("val")
    assert there.expected_tokens("val") != back.expected_tokens("val")
    with pytest.raises(UserError, match="no 'fr'"):
        data(source_language="fr").train_dataloader()


def test_splits_by_any_of_their_names(numbers_store: Path) -> None:
    first, second = data(test_split="train").test_dataloader()
    assert [sum(len(b.index) for b in loader) for loader in (first, second)] == [300, 500]
    with pytest.raises(UserError, match="no split 'test_2016_flickr'"):
        data(test_split="test_2016_flickr").test_dataloader()


def test_stores_missing_or_of_another_vocabulary(data_folder: Path) -> None:
    with pytest.raises(UserError, match="`repro data prepare multi30k --vocab-size 8000`"):
        data(store="multi30k", vocab_size=8000).setup()
    with pytest.raises(UserError, match="unknown data set 'multi31k'"):
        data(store="multi31k").setup()
    module = data()
    module.prepare_data()  # a generated store makes itself
    module.setup()
    assert module.manifest.counts["train"]["examples"] == 300
    with pytest.raises(UserError, match="has a vocabulary of 300, not 512"):
        data(vocab_size=512).setup()


def test_a_table_travels_light_and_workers_build_the_same(numbers_store: Path) -> None:
    module = data()
    table = module.table("train")
    assert table.lengths.shape == (300, 2)
    sent = pickle.dumps(table)
    assert len(sent) < 20_000
    rows = module.plan_epoch(0)[0]
    for ours, theirs in zip(table.build(rows), pickle.loads(sent).build(rows), strict=True):
        assert torch.equal(ours, theirs)
    with_workers = list(data(num_workers=1).val_dataloader())
    for ours, theirs in zip(module.val_dataloader(), with_workers, strict=True):
        assert isinstance(theirs, PairBatch)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


class Recorder(LightningModule):
    """Remembers the rows of every batch and what evaluation counted."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[list[int]] = []
        self.evaluated = 0

    def training_step(self, batch: PairBatch, batch_idx: int) -> torch.Tensor:
        self.seen.append(batch.index.tolist())
        return self.weight.sum()

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        self.evaluated += int(batch.target_lengths.sum())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAfter(Callback):
    """Saves once, when so many batches have been trained on."""

    def __init__(self, batches: int, path: Path) -> None:
        self.batches, self.path = batches, path

    def on_train_batch_end(self, trainer: Trainer, module: Recorder, *_: Any) -> None:
        if len(module.seen) == self.batches:
            trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("parts", [1, 2])
def test_a_resumed_training_replays_and_skips_nothing(
    numbers_store: Path, tmp_path: Path, parts: int
) -> None:
    steps = len(data().plan_epoch(0))
    checkpoint = tmp_path / "x.ckpt"

    def fit(callbacks: list[Callback], resume: Path | None) -> Recorder:
        module, trainer = Recorder(), Trainer(
            accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, max_steps=steps + 3, max_epochs=-1, num_sanity_val_steps=0,
            accumulate_grad_batches=parts, callbacks=callbacks,
        )  # fmt: skip
        trainer.fit(module, data(), ckpt_path=resume, weights_only=False)
        return module

    cut = (steps - 2) * parts
    whole = fit([SaveAfter(cut, checkpoint)], None)
    assert len(whole.seen) == (steps + 3) * parts
    assert whole.evaluated == data().expected_tokens("val")
    epoch = share(data(), 0, 1, parts).plan_epoch
    expected = [rows.index.tolist() for e in (0, 1) for rows in epoch(e)]
    assert whole.seen == expected[: len(whole.seen)]
    assert whole.seen[:cut] + fit([], checkpoint).seen == whole.seen


def test_evaluating_a_checkpoint_does_not_move_training(numbers_store: Path) -> None:
    module = data()
    module.trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    module.load_state_dict({"train": {"epoch": 4, "batch": 1, "parts": 1}})  # no fit is running
    loader = module.train_dataloader()
    assert loader.state_dict() == {"epoch": 0, "batch": 0, "parts": 1}
    assert np.concatenate([rows.index for rows in loader.items()]).size == 300


def test_training_needs_no_raw_text(numbers_store: Path) -> None:
    for text in numbers_store.glob("train.*.txt"):
        text.write_bytes(b"\n" * text.stat().st_size)  # as large, but of other lines
    module = data()
    assert module.counts["train"]["examples"] == 300
    assert sum(len(batch.index) for batch in module.train_dataloader()) == 300
    read = []
    store = module.store
    store.lines = lambda split, part: read.append(split) or []  # type: ignore[method-assign,func-returns-value]
    list(module.train_dataloader()), list(module.val_dataloader())
    module.references("val")
    assert read == ["val"]


def test_lengths_take_eight_bytes_a_pair(numbers_store: Path) -> None:
    table = data().table("train")
    assert (table.lengths.nbytes, table.lengths.shape) == (300 * 8, (300, 2))
    for side, (_, offsets) in enumerate(table.columns):
        assert table.lengths[:, side].tolist() == (np.diff(offsets) + 1).tolist()
