"""Proteins as batches: what is left out, padding, targets."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from repro.data import HomologyData
from repro.data.prepare import prepare
from repro.errors import UserError

LENGTHS = [3, 9, 4, 12, 5]  # <cls> and <sep> counted


def prepare_proteins(folder: Path, **lengths: list[int]) -> None:
    for split in ("train", "valid", "test_fold_holdout"):
        first = {"train": 0, "valid": 100, "test_fold_holdout": 200}[split]
        own = enumerate(lengths.get(split, LENGTHS))
        rows = [{"primary": "ACDEFGHIKL"[: n - 2], "fold_label": first + i} for i, n in own]
        (folder / f"remote_homology_{split}.json").write_text(json.dumps(rows))
    prepare("remote-homology", folder, report=lambda line: None)


@pytest.fixture
def _store(data_folder: Path, tmp_path: Path) -> None:
    prepare_proteins(tmp_path)


@pytest.mark.usefixtures("_store")
def test_longer_sequences_are_left_out_and_counted() -> None:
    data = HomologyData(batch_size=2, max_length=9)
    data.prepare_data()
    data.setup()
    assert data.size("train") == 4
    assert data.counts == {
        "train": {"examples": 4, "targets": 4, "dropped": 0, "left_out": 1},
        "val": {"examples": 4, "targets": 4, "dropped": 0, "left_out": 1},
        "test": {"examples": 4, "targets": 4, "dropped": 0, "left_out": 1},
    }
    read = data.examples("test", np.array([3, 1, 0]), None)
    assert read.targets.tolist() == [[204], [201], [200]]
    assert HomologyData(batch_size=2, max_length=8).size("val") == 3
    assert HomologyData(batch_size=2).counts["val"]["left_out"] == 0


@pytest.mark.usefixtures("_store")
def test_rows_are_padded_to_the_longest_and_know_their_length() -> None:
    read = HomologyData(batch_size=2, max_length=11).examples("val", np.array([0, 3, 2]), None)
    assert read.inputs.tolist() == [[2, 5, 3, 0, 0], [2, 5, 7, 8, 3], [2, 5, 7, 3, 0]]
    assert read.lengths is not None
    assert read.lengths.tolist() == [3, 5, 4]
    assert read.targets.tolist() == [[100], [104], [102]]
    assert read.inputs.dtype == read.targets.dtype == torch.int64


@pytest.mark.usefixtures("_store")
def test_a_rank_without_examples_gets_none() -> None:
    read = HomologyData(batch_size=2).examples("val", np.zeros(0, np.int64), None)
    assert read.inputs.shape == (0, 1)
    assert read.targets.shape == (0, 1)


@pytest.mark.usefixtures("_store")
def test_it_can_be_sent_to_workers() -> None:
    data = HomologyData(batch_size=2)
    index = np.array([4, 0])
    sent = pickle.loads(pickle.dumps(data))
    assert torch.equal(sent.examples("train", index, 0).inputs, data.examples("train", index, 0).inputs)


@pytest.mark.usefixtures("_store")
def test_sizes_fit_the_task() -> None:
    data = HomologyData(batch_size=2)
    assert (data.input_size, data.n_classes, data.n_targets, data.seq_len) == (30, 1195, 1, 1024)
    with pytest.raises(UserError, match=r"max_length.*1"):
        HomologyData(batch_size=2, max_length=0)


@pytest.mark.parametrize("split", ["train", "valid", "test_fold_holdout"])
def test_a_split_of_which_nothing_is_used_is_refused(data_folder: Path, tmp_path: Path, split: str) -> None:
    prepare_proteins(tmp_path, **{split: [12, 11]})
    assert HomologyData(batch_size=2, max_length=11).size("train")
    name = {"valid": "val", "test_fold_holdout": "test"}.get(split, split)
    with pytest.raises(UserError, match=f"no sequence of {name} has at most max_length 10 tokens"):
        HomologyData(batch_size=2, max_length=10).setup()


def test_another_store_is_refused(numbers_store: Path) -> None:
    with pytest.raises(UserError, match="holds en, de, not proteins"):
        HomologyData(batch_size=2, store="numbers-en-de/bpe300-n300").setup()
