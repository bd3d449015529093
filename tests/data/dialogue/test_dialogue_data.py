"""Conversations about documents: the published files, the store, rows and what counts in them, refusals."""

import gzip
import json
import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from repro.data import DialogueData
from repro.data.prepare import list_sources, open_store, prepare
from repro.data.registry import DATA_SETS
from repro.data.store import Store
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.tokenizer import ByteBpe, Gpt2Bpe
from repro.errors import UserError
from tests.data.dialogue_folder import TEXT, write_folder

SIZE = 270
DOC, FIRST, SECOND = SIZE, SIZE + 1, SIZE + 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files in the published layout, whose hashes are not the known ones."""
    return write_folder(monkeypatch, tmp_path / "files")


def made(folder: Path, **options: Any) -> Store:
    options = options or {"vocab_size": SIZE}
    path = prepare("cmu-dog", folder, report=lambda line: None, **options)
    return open_store("cmu-dog", path.name)


@pytest.fixture
def store(data_folder: Path, folder: Path) -> Store:
    return made(folder)


def data(**changes: Any) -> DialogueData:
    module = DialogueData(**({"vocab_size": SIZE + 3, "store": f"cmu-dog/bpe{SIZE}"} | changes))
    module.prepare_data()
    module.setup()
    return module


def columns(store: Store, split: str, part: str) -> list[list[int]]:
    ids, offsets = store.values(split, part), store.offsets(split, part)
    return [ids[a:b].tolist() for a, b in pairwise(offsets)]


def said(store: Store, split: str) -> list[list[str]]:
    """The utterances of each conversation."""
    decode = load_tokenizer(store.tokenizer_path).decode
    rows = zip(columns(store, split, "utterances"), columns(store, split, "lengths"), strict=True)
    return [
        [decode(part.tolist()) for part in np.split(ids, np.cumsum(lengths)[:-1])] for ids, lengths in rows
    ]


# --- the store ----------------------------------------------------------------------------------------------------


def test_files_become_a_store(store: Store) -> None:
    decode = load_tokenizer(store.tokenizer_path).decode
    texts = [decode(ids) for ids in columns(store, "documents", "documents")]
    assert texts == [TEXT.replace("1999", "2001"), TEXT], "by number"
    assert store.values("train", "topics").tolist() == [1, 0, 1]
    assert store.values("val", "topics").tolist() == [0]
    assert columns(store, "train", "speakers") == [[1, 0, 1], [0, 0, 1], [0]]
    assert said(store, "train") == [
        ["hello there", "hello there", "the kite falls"], ["a cat", "a kite", "the end"], ["bye"],
    ]  # fmt: skip
    assert said(store, "valid") == [["hello", "the film", "é 🪁"]]
    assert {split: counts["examples"] for split, counts in store.manifest.counts.items()} == {
        "train": 3,
        "val": 1,
        "test": 1,
    }


def test_the_store_keeps_no_text_and_says_what_was_read(store: Store, folder: Path) -> None:
    assert all(not name.endswith("_text") for columns in store.manifest.columns.values() for name in columns)
    messages = store.manifest.source
    assert messages["without_words"] == {"train": 1, "val": 0, "test": 0}
    assert set(messages["sha256"]) == {"documents", "train", "val", "test"}
    assert str(folder) not in (store.path / "manifest.json").read_text()
    listed = next(one for one in list_sources() if one["name"] == "cmu-dog")
    assert (listed["obtained"], listed["stores"]) == ("--from", [f"bpe{SIZE}"])


def test_packed_files_are_the_same(store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "Conversations" / "train" / "a.json"
    path.with_name("a.json.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    monkeypatch.setenv("REPRO_DATA", str(folder / "again"))
    assert made(folder).manifest.files == store.manifest.files


def test_a_tokeniser_can_be_given(store: Store, folder: Path, tmp_path: Path) -> None:
    """GPT-2's file has an added token, which is one of its vocabulary."""
    body = json.loads(ByteBpe.train([TEXT], 264).content)
    body["model"]["vocab"]["<|endoftext|>"] = 260
    special = {"id": 260, "content": "<|endoftext|>", "special": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    (tmp_path / "gpt2.json").write_text(json.dumps(body | {"added_tokens": [special | flags]}))
    given = made(folder, tokenizer=tmp_path / "gpt2.json")
    assert given.name.startswith("cmu-dog/given265-")
    module = data(store=given.name, vocab_size=268)
    assert (module.doc_id, module.tokenizer.size) == (265, 265)
    ids = module.examples("test", np.array([0]), None).inputs[0]
    assert module.tokenizer.decode(ids[ids < 265].tolist()).startswith(TEXT + "the cat sees the kite")


def test_gpt2_keeps_its_own_numbers(
    data_folder: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = json.loads(ByteBpe.train([TEXT], 264).content)
    vocab = {"<|endoftext|>": 260, **body["model"]["vocab"]}
    body["model"]["vocab"] = vocab | {"!": 0, next(t for t, i in vocab.items() if i == 0): vocab["!"]}
    (tmp_path / "gpt2.json").write_text(json.dumps(body))
    monkeypatch.setattr(Gpt2Bpe, "vocab_size", 261)
    assert made(folder, level="gpt2", tokenizer=tmp_path / "gpt2.json").name == "cmu-dog/gpt2"
    module = data(store="cmu-dog/gpt2", vocab_size=264)
    assert (module.doc_id, module.ends) == (261, (260, 260, 260))
    ids = module.examples("test", np.array([0]), None).inputs[0].tolist()
    assert (ids[0], ids.count(260)) == (261, 1)
    end = ids.index(260)
    assert ids[1:end] == module.tokenizer.encode(TEXT)
    assert module.words(ids[end + 2 : ids.index(262, end + 2)]) == "the cat sees the kite"
    with pytest.raises(UserError, match="--tokenizer FILE"):
        made(folder, level="gpt2")
    with pytest.raises(UserError, match="bytes"):
        made(folder, level="bytes")


def test_other_files_than_the_published_are_refused(data_folder: Path, folder: Path) -> None:
    for key in ("documents", "train", "val", "test"):
        DATA_SETS["cmu-dog"] = replace(DATA_SETS["cmu-dog"], sha256={key: 64 * "0"})
        with pytest.raises(UserError, match=f"cmu-dog {key} is 0000"):
            made(folder)
    assert not (data_folder / "cmu-dog" / f"bpe{SIZE}").exists()


# --- rows ---------------------------------------------------------------------------------------------------------


def by_hand(store: Store, split: str, i: int) -> tuple[list[int], list[int]]:
    """Computes the tokens before a conversation's utterances, and the utterances."""
    text = columns(store, "documents", "documents")[store.values(split, "topics")[i]]
    words, spoken = iter(columns(store, split, "utterances")[i]), list[int]()
    speakers, lengths = columns(store, split, "speakers")[i], columns(store, split, "lengths")[i]
    for who, length in zip(speakers, lengths, strict=True):
        spoken += [FIRST + who, *(next(words) for _ in range(length))]
    return [DOC, *text, 2], spoken


@pytest.mark.parametrize("document", ["none", "cut", "whole"])
def test_rows_are_a_document_and_utterances_behind_their_speakers(store: Store, document: Any) -> None:
    module = data(document=document, window=40)
    result = module.examples("train", np.array([2, 0, 1]), None)
    assert result.lengths is not None
    assert result.inputs.dtype == result.targets.dtype == torch.int64
    for row, i in enumerate((2, 0, 1)):
        before, output = by_hand(store, "train", i)
        displayed = {"none": [], "cut": [DOC, *before[-39:]], "whole": before}[document]
        assert document != "cut" or len(displayed) == 40 < len(before)
        ids, n = displayed + output, len(displayed) + len(output) - 1
        expected = [-1] * len(displayed) + [id_ if id_ < SIZE else -1 for id_ in output]
        assert result.lengths[row] == n
        assert result.inputs[row, :n].tolist() == ids[:-1]
        assert result.targets[row, :n].tolist() == expected[1:]
        assert set(result.inputs[row, n:].tolist()) <= {0}
        assert set(result.targets[row, n:].tolist()) <= {-1}


def test_in_training_every_token_may_count(store: Store) -> None:
    module = data(score_all=True)
    result = module.examples("train", np.arange(3), 0)
    assert result.lengths is not None
    for tokens, targets, n in zip(result.inputs, result.targets, result.lengths.tolist(), strict=True):
        assert targets[: n - 1].tolist() == tokens[1:n].tolist()
        assert targets[n - 1] >= 0
    plain = data().examples("train", np.arange(3), 0)
    assert torch.equal(module.examples("train", np.arange(3), None).targets, plain.targets)
    sent = pickle.loads(pickle.dumps(module))
    assert torch.equal(sent.examples("train", np.arange(3), 0).inputs, result.inputs), "in a worker process"


@pytest.mark.parametrize("document", ["none", "cut", "whole"])
@pytest.mark.parametrize("score_all", [False, True])
def test_targets_are_counted_without_reading_them(store: Store, document: Any, score_all: bool) -> None:
    module = data(document=document, score_all=score_all, window=30, batch_size=2)
    indices = np.array([2, 0, 1])
    for epoch in (None, 1):
        read = module.examples("train", indices, epoch).targets
        assert module.targets_of("train", indices, epoch).tolist() == (read >= 0).sum(1).tolist()
    batch = next(iter(module.train_dataloader()))
    assert len(batch.indices) == 2
    counted = (batch.examples.targets >= 0).sum()
    assert batch.step_targets == counted
    assert batch.examples.scored is None or len(batch.examples.scored) == counted
    output = columns(store, "train", "utterances")
    assert module.counts["train"] == {"examples": 3, "targets": sum(map(len, output)), "dropped": 1}


def test_what_a_run_reads_of_the_data(store: Store) -> None:
    module = data(window=64)
    assert (module.doc_id, module.n_classes, module.vocab_size, module.seq_len) == (DOC, 273, 273, 64)
    assert not module.public, "no licence allows it"
    assert [batch.indices.tolist() for batch in module.test_dataloader()[0]] == [[0]]
    none = module.examples("val", np.zeros(0, np.int64), None)
    assert none.inputs.shape == none.targets.shape == (0, 1)


# --- refusals -----------------------------------------------------------------------------------------------------


def test_other_stores_and_settings_are_refused(store: Store) -> None:
    with pytest.raises(UserError, match="273, not 270"):
        data(vocab_size=270)
    with pytest.raises(UserError, match="not 2"):
        data(window=2)
    prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
    with pytest.raises(UserError, match="holds en, de"):
        data(store="numbers-en-de/bpe300-n300")


def test_files_are_needed(data_folder: Path, folder: Path) -> None:
    (folder / "Conversations" / "train").rename(folder / "elsewhere")
    with pytest.raises(UserError, match="no Conversations/train"):
        made(folder)
    with pytest.raises(UserError, match="no WikiData"):
        made(folder / "Conversations")
