"""The datamodule of sentence pairs: batches, shares, counts, resuming under a real Trainer."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.batches import Evaluation, PairBatch
from repro.data import TranslationData
from repro.errors import UserError
from tests.data.picture_files import small_store
from tests.data.running import SaveAt, placed, same, train

STORE = "numbers-en-de/bpe300-n300"


def data(**changes: Any) -> TranslationData:
    settings: dict[str, Any] = {
        "store": STORE,
        "vocab_size": 300,
        "batch_tokens": 600,
        "eval_batch_tokens": 700,
    }
    return TranslationData(**(settings | changes))


def test_a_negative_size_of_evaluation_batches_is_refused() -> None:
    with pytest.raises(UserError, match="eval_batch_tokens must be at least 1, not -5"):
        data(eval_batch_tokens=-5)


def test_batches_hold_the_text(numbers_store: Path) -> None:
    module = data()
    sources, references = module.sources("train"), module.references("train")
    seen = []
    for batch in module.train_dataloader():
        assert batch.step_targets == int(batch.target_lengths.sum())
        assert batch.source.numel() <= 600
        for row, i in enumerate(batch.indices.tolist()):
            assert module.tokenizer.decode(batch.source[row].tolist()) == sources[i]
            assert module.tokenizer.decode(batch.target_out[row].tolist()) == references[i]
            n = int(batch.target_lengths[row])
            assert batch.target_in[row, 0] == module.tokenizer.bos_id
            assert batch.target_out[row, n - 1] == module.tokenizer.eos_id
            assert torch.equal(batch.target_in[row, 1:n], batch.target_out[row, : n - 1])
            assert batch.source[row, batch.source_lengths[row] - 1] == module.tokenizer.eos_id
        seen += batch.indices.tolist()
    assert sorted(seen) == list(range(300))


@pytest.mark.parametrize(("world", "micro_batches"), [(1, 2), (2, 1), (3, 1), (2, 2)])
def test_any_share_of_the_work_is_the_same_global_batches(
    numbers_store: Path, world: int, micro_batches: int
) -> None:
    alone = [(sorted(b.indices.tolist()), b.step_targets) for b in data().train_dataloader()]
    ranks = [list(placed(data(), rank, world, micro_batches).train_dataloader()) for rank in range(world)]
    assert {len(batches) for batches in ranks} == {len(alone) * micro_batches}
    for step, (rows, tokens) in enumerate(alone):
        mine = [
            batches[step * micro_batches + micro_batch]
            for batches in ranks
            for micro_batch in range(micro_batches)
        ]
        assert sorted(i for batch in mine for i in batch.indices.tolist()) == rows
        assert {batch.step_targets for batch in mine} == {tokens}
        assert sum(int(batch.target_lengths.sum()) for batch in mine) == tokens


def test_too_many_ranks_stop_before_training(numbers_store: Path) -> None:
    with pytest.raises(UserError, match=r"50.*2 micro-batches"):
        placed(data(), 0, 50, 2).train_dataloader()


def test_too_many_ranks_for_the_rest_of_any_epoch_stop_before_training(numbers_store: Path) -> None:
    def planned(world: int) -> list[list[int]]:
        module = placed(data(batch_tokens=[600] * 4), 0, world, 1)
        return [[len(rows.indices) for rows in module.plan_epoch(epoch)] for epoch in range(12)]

    sizes = sorted(len(b.indices) for b in data(batch_tokens=[600]).train_dataloader())
    assert len(sizes) % 4, "some batches are left to an update of their own"
    assert planned(sum(sizes[: len(sizes) % 4]))
    with pytest.raises(UserError, match="cannot be shared"):
        planned(1 + sum(sizes[: len(sizes) % 4]))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_evaluation_counts_each_token_once(numbers_store: Path, world: int) -> None:
    batches = [b for rank in range(world) for b in placed(data(), rank, world).predict_dataloader()]
    assert sorted(i for b in batches for i in b.indices.tolist()) == list(range(1000))
    total = sum(int(b.target_lengths.sum()) for b in batches)
    assert data().expected(Evaluation("test")) == {"examples": 1000, "tokens": total}
    module = data()
    assert total == sum(len(ids) + 1 for ids in module.tokenizer.encode_batch(module.references("test")))


def test_long_pairs_are_dropped_in_training_only_and_counted(numbers_store: Path) -> None:
    module = data(max_length=9)
    used = [i for batch in module.train_dataloader() for i in batch.indices.tolist()]
    long = int((module.table("train").lengths.max(axis=1) > 9).sum())
    assert 0 < long < 300
    assert len(used) == 300 - long
    assert module.counts["train"]["dropped"] == long
    assert module.counts["val"]["dropped"] == 0
    assert module.counts["test"] == {
        "examples": 1000,
        "dropped": 0,
        "source_tokens": int(module.table("test").lengths[:, 0].sum()),
        "target_tokens": module.expected(Evaluation("test"))["tokens"],
    }
    assert sum(len(b.indices) for b in module.val_dataloader()) == 500


def test_the_order_depends_on_the_seed_and_epoch(numbers_store: Path) -> None:
    def order(seed: int, epoch: int) -> str:
        return str([rows.indices.tolist() for rows in data(seed=seed).plan_epoch(epoch)])

    assert order(0, 0) == order(0, 0)
    assert len({order(0, 0), order(0, 1), order(1, 0)}) == 3


def test_languages_can_be_turned_round(numbers_store: Path) -> None:
    there, back = data(), data(source_language="de", target_language="en")
    assert there.sources("val") == back.references("val")
    assert there.expected(Evaluation("val"))["tokens"] != back.expected(Evaluation("val"))["tokens"]
    with pytest.raises(UserError, match="no 'fr'"):
        data(source_language="fr").train_dataloader()
    with pytest.raises(UserError, match="'fr'"):
        data(target_language="fr").expected(Evaluation("val"))


def test_splits_by_any_of_their_names(numbers_store: Path) -> None:
    first, second = data(test_split="train").test_dataloader()
    assert [sum(len(b.indices) for b in loader) for loader in (first, second)] == [300, 500]
    with pytest.raises(UserError, match="'test_2016_flickr'"):
        data(test_split="test_2016_flickr").test_dataloader()


def test_stores_missing_or_of_another_vocabulary(data_folder: Path) -> None:
    with pytest.raises(UserError, match="`repro data prepare multi30k --vocab-size 8000`"):
        data(store="multi30k", vocab_size=8000).setup()
    with pytest.raises(UserError, match="'multi31k'"):
        data(store="multi31k").setup()
    module = data()
    module.prepare_data()  # a generated store makes itself
    module.setup()
    assert module.store.manifest.counts["train"]["examples"] == 300
    with pytest.raises(UserError, match="300, not 512"):
        data(vocab_size=512).setup()


def test_a_table_travels_light_and_workers_build_the_same(numbers_store: Path) -> None:
    module = data()
    table = module.table("train")
    assert table.lengths.shape == (300, 2)
    sent = pickle.dumps(table)
    assert len(sent) < 20_000
    rows = module.plan_epoch(0)[0]
    assert same(table.build(rows), pickle.loads(sent).build(rows))
    with_workers = list(data(num_workers=1).val_dataloader())
    for ours, official in zip(module.val_dataloader(), with_workers, strict=True):
        assert isinstance(official, PairBatch)
        assert same(ours, official)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_resumed_training_replays_and_skips_nothing(
    numbers_store: Path, tmp_path: Path, micro_batches: int
) -> None:
    def read(batch: PairBatch) -> list[int]:
        result: list[int] = batch.indices.tolist()
        return result

    steps, checkpoint = len(data().plan_epoch(0)), tmp_path / "x.ckpt"
    limits: dict[str, Any] = {
        "max_steps": steps + 3,
        "max_epochs": -1,
        "accumulate_grad_batches": micro_batches,
    }
    cut = (steps - 2) * micro_batches
    whole = train(data(), read, [SaveAt(cut, checkpoint)], **limits)
    assert len(whole.seen) == (steps + 3) * micro_batches
    assert sorted(i for rows in whole.evaluated for i in rows) == list(range(500))
    epoch = placed(data(), micro_batches=micro_batches).plan_epoch
    expected = [rows.indices.tolist() for e in (0, 1) for rows in epoch(e)]
    assert whole.seen == expected[: len(whole.seen)]
    assert whole.seen[:cut] + train(data(), read, resume=checkpoint, **limits).seen == whole.seen


def test_training_needs_no_raw_text(numbers_store: Path) -> None:
    for text in numbers_store.glob("train.*.txt"):
        text.write_bytes(b"\n" * text.stat().st_size)  # as large, but of other lines
    module = data()
    assert module.counts["train"]["examples"] == 300
    assert sum(len(batch.indices) for batch in module.train_dataloader()) == 300
    read = []
    store = module.store
    store.lines = lambda split, part: read.append(split) or []  # type: ignore[method-assign,func-returns-value]
    list(module.train_dataloader()), list(module.val_dataloader())
    module.references("val")
    assert read == ["val"]


def test_lengths_take_eight_bytes_a_pair(numbers_store: Path) -> None:
    table = data().table("train")
    assert (table.lengths.nbytes, table.lengths.shape) == (300 * 8, (300, 2))
    for side, part in enumerate((table.source, table.target)):
        assert table.lengths[:, side].tolist() == (np.diff(table.store.offsets("train", part)) + 1).tolist()


def test_a_store_without_tokens_is_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA", str(tmp_path))
    small_store(monkeypatch, "mnist", tmp_path_factory.mktemp("raw"))
    with pytest.raises(UserError, match="store mnist/pixels holds images, labels, not tokens"):
        data(store="mnist/pixels").setup()
