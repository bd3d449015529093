"""Trees as batches: both ways of reading them, from a store and generated at once."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from repro.data import ListOpsData
from repro.data.prepare import prepare
from repro.data.registry import DATA_SETS
from repro.data.sets.listops.trees import CLOSE, SYMBOLS, TreeRules, TreeSet
from repro.errors import UserError
from tests.data.listops.tree_values import read_tree, value_of

# 4 tokens, 10 tokens, 1 token
TEXTS = ["[MAX 3 4 ]\t4", "[SM 9 [MIN 2 5 ] 1 1 1 ]\t4", "7\t7"]
SHORT = TreeSet(40, 12, TreeRules(max_depth=5, max_args=4, min_length=8, max_length=30))


@pytest.fixture
def _store(data_folder: Path, tmp_path: Path) -> None:
    for file in DATA_SETS["listops"].files:
        (tmp_path / file).write_text("\n".join(["Source\tTarget", *TEXTS]))
    prepare("listops", tmp_path, report=lambda line: None)


def ids(line: str) -> list[int]:
    return read_tree(line.split("\t")[0])


@pytest.mark.usefixtures("_store")
def test_lra_keeps_brackets_and_knows_lengths() -> None:
    data = ListOpsData(batch_size=1, max_length=6)
    read = data.examples("test", np.array([2, 1, 0]), None)
    assert read.inputs.tolist() == [[8, 0, 0, 0, 0, 0], ids(TEXTS[1])[:6], [*ids(TEXTS[0]), 0, 0]]
    assert read.lengths is not None
    assert read.lengths.tolist() == [1, 6, 4]
    assert read.targets.tolist() == [[7], [4], [4]]
    assert read.inputs.dtype == read.targets.dtype == torch.int64
    assert (data.input_size, data.n_classes, data.seq_len, data.n_targets) == (16, 10, 6, 1)


@pytest.mark.usefixtures("_store")
def test_truncated_loses_brackets_and_ends_in_padding() -> None:
    data = ListOpsData(batch_size=1, max_length=6, tokens="truncated")
    read = data.examples("test", np.array([2, 1, 0]), None)
    without = [i for i in ids(TEXTS[1]) if i != CLOSE]
    assert len(without) == 8
    assert read.inputs.tolist() == [[8, 0, 0, 0, 0, 0], without[:6], [12, 4, 5, 0, 0, 0]]
    assert read.lengths is None  # the last of all positions is read
    assert data.input_size == 15
    assert int(read.inputs.max()) < 15


def test_both_ways_are_those_of_the_published_loaders(data_folder: Path, tmp_path: Path) -> None:
    text = "( ( ( [SM 9 ) ( ( ( [MIN 2 ) 5 ) ] ) ) ] )"
    lra = text.replace("]", "X").replace("(", "").replace(")", "").split()
    broken = [word for word in re.split(r"\W+", text) if word]  # only letters and digits are kept
    assert lra == ["[SM", "9", "[MIN", "2", "5", "X", "X"]
    assert broken == ["SM", "9", "MIN", "2", "5"]
    for file in DATA_SETS["listops"].files:
        (tmp_path / file).write_text(f"Source\tTarget\n{text}\t1\n")
    prepare("listops", tmp_path, report=lambda line: None)
    read = ListOpsData(1, 7).examples("test", np.array([0]), None)
    assert [SYMBOLS[i].replace("]", "X") for i in read.inputs[0]] == lra
    read = ListOpsData(1, 7, tokens="truncated").examples("test", np.array([0]), None)
    assert [SYMBOLS[i].removeprefix("[") for i in read.inputs[0]] == [*broken, "<pad>", "<pad>"]


@pytest.mark.usefixtures("_store")
def test_what_is_cut_is_counted() -> None:
    def cut(max_length: int, tokens: str) -> int:
        data = ListOpsData(1, max_length, tokens=tokens)  # type: ignore[arg-type]
        return data.counts["val"]["cut"]

    assert [cut(n, "lra") for n in (3, 4, 9, 10)] == [2, 1, 1, 0]
    assert [cut(n, "truncated") for n in (2, 3, 7, 8)] == [2, 1, 1, 0]


@pytest.mark.usefixtures("_store")
def test_it_is_cheap_to_send_and_reads_the_same_there() -> None:
    data = ListOpsData(1, 12)
    sent = pickle.dumps(data)
    assert len(sent) < 10_000
    index = np.array([0, 1])
    assert torch.equal(
        pickle.loads(sent).examples("train", index, 0).inputs, data.examples("train", index, 0).inputs
    )


def test_generated_trees_need_no_store(data_folder: Path) -> None:
    data = ListOpsData(batch_size=8, max_length=30, store=SHORT)
    data.prepare_data()
    data.setup()
    batches = list(data.train_dataloader())
    assert len(batches) == 5
    assert sorted(int(i) for batch in batches for i in batch.indices) == list(range(40))
    for batch in batches:
        lengths = batch.examples.lengths
        assert lengths is not None
        for row, n, target in zip(
            batch.examples.inputs.tolist(), lengths.tolist(), batch.examples.targets, strict=True
        ):
            assert value_of(row[:n]) == target.item()
            assert not any(row[n:])
    assert data.counts["train"] == {"examples": 40, "targets": 40, "dropped": 0, "cut": 0}
    assert not data_folder.exists()
    assert data.store_name == "listops-generated"


def test_settings_of_generated_trees_tell_them_apart() -> None:
    one = ListOpsData(8, 30, SHORT).manifest_sha256
    assert one == ListOpsData(4, 20, SHORT, "truncated").manifest_sha256
    assert one != ListOpsData(8, 30, TreeSet(41, 12, SHORT.rules)).manifest_sha256


def test_a_recipe_may_state_trees_or_a_store() -> None:
    from jsonargparse import ArgumentParser

    parser = ArgumentParser()
    parser.add_class_arguments(ListOpsData, "data")
    output = {
        "batch_size": 8,
        "max_length": 30,
        "store": {"train": 40, "held_out": 12, "rules": {"max_length": 600}},
    }
    made = parser.instantiate_classes(parser.parse_object({"data": output})).data
    assert made.generated == TreeSet(40, 12, TreeRules(max_length=600))
    made = parser.instantiate_classes(
        parser.parse_object({"data": {**output, "store": "listops/lra-n50"}})
    ).data
    assert (made.generated, made.store_name, made.variant) == (None, "listops", "lra-n50")


def test_bad_settings_are_refused(numbers_store: Path) -> None:
    with pytest.raises(UserError, match=r"max_length.*1, not 0"):
        ListOpsData(8, 0)
    with pytest.raises(UserError, match="holds en, de, not trees"):
        ListOpsData(8, 30, "numbers-en-de/bpe300-n300").setup()
    with pytest.raises(UserError, match="'official'"):
        ListOpsData(8, 30, "listops/official").setup()
