"""The datamodule of text: a store's tokens in batches, and every way in which store and recipe disagree."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from jsonargparse import ArgumentParser

from repro.batches import Evaluation, TextCut
from repro.data import TextData, registry
from repro.data.prepare import prepare
from repro.data.registry import DATA_SETS
from repro.data.table import DATA_FILE
from repro.errors import UserError

TRAIN = "".join(f"the cat saw {'a dog' if i % 3 else 'it'}\n" for i in range(60))
HELD = "the dog saw a cat\n" * 9


@pytest.fixture
def words(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """``ptb/words`` of a few lines."""
    monkeypatch.setitem(registry.DATA_SETS, "ptb", dataclasses.replace(DATA_SETS["ptb"], sha256={}))
    for split, text in (("train", TRAIN), ("valid", HELD), ("test", HELD[:40])):
        (tmp_path / f"ptb.{split}.txt").write_text(text)
    return prepare("ptb", tmp_path, report=lambda line: None)


def data(**changes: Any) -> TextData:
    settings: dict[str, Any] = {"store": "ptb/words", "vocab_size": 7, "batch_tokens": 40, "seq_len": 10}
    return TextData(**(settings | changes))


def test_a_store_is_verified_once_in_a_process(words: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    monkeypatch.setattr("repro.data.store_data.verify", lambda store: checked.append(store.name))
    module = data()
    for _ in range(3):  # by a run, and by Lightning for training and for the test
        module.prepare_data()
    assert len(checked) == 1


def test_batches_hold_the_text(words: Path) -> None:
    module = data()
    module.prepare_data()
    module.setup()
    assert module.tokenizer.size == 7
    text = TRAIN.replace("\n", " \n ").split(" ")[:-1]
    streams: list[list[int]] = [[] for _ in range(4)]
    for batch in module.train_dataloader():
        for row, stream in zip(batch.targets.tolist(), streams, strict=True):
            stream += row
    output = [module.tokenizer.decode(stream) for stream in streams]
    steps = (len(text) - 1) // 40
    for row, words_said in enumerate(output):
        expected = text[1 + row * steps * 10 : 1 + (row + 1) * steps * 10]
        assert words_said.split() == [word for word in expected if word != "\n"]
        assert words_said.count("\n") == expected.count("\n")


def test_counts_and_hash_come_from_the_manifest(words: Path) -> None:
    module = data()
    tokens = len(TRAIN.split()) + 60
    assert module.counts == {
        "train": {"tokens": tokens, "targets": tokens - 1, "dropped": (tokens - 1) % 40},
        "val": {"tokens": 54, "targets": 53, "dropped": 0},
        "test": {"tokens": 14, "targets": 13, "dropped": 0},
    }
    assert module.store_name == "ptb"
    assert module.manifest_sha256 == module.store.manifest_sha256
    assert module.store.manifest.variant == "words"
    assert module.expected(Evaluation("val", selection=TextCut(5, rows=4))) == {"tokens": 52}
    module, windows = data(val_split="valid"), Evaluation("val", selection=TextCut(5, stride=2))
    assert module.expected(windows) == {"tokens": 53}
    assert sum(batch.step_targets for batch in module.evaluation_loader(windows)) == 53


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"vocab_size": 10_000},
            "store ptb/words has a vocabulary of 7, not 10000; --model.net.vocabulary.size 7",
        ),
        ({"store": "ptb/chars"}, "`repro data prepare ptb --level chars --from DIR`"),
        ({"store": "ptb/word"}, "ptb has no level 'word'; it has words, chars, bytes"),
        ({"store": "ptb/bpe300"}, "ptb has no level 'bpe300'"),
        ({"store": "ptp/words"}, "unknown data set 'ptp'; nearest: ptb"),
        ({"store": "wikitext-103/words"}, "`repro data prepare wikitext-103 --level words`"),
        ({"store": "books/bpe29000"}, "`repro data prepare books --vocab-size 29000 --from DIR`"),
        ({"store": "books/given300-12345678"}, "`repro data prepare books --tokenizer FILE --from DIR`"),
    ],
)
def test_stores_that_are_missing_or_others(words: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        data(**changes).setup()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sentence_pairs_are_no_text(numbers_store: Path) -> None:
    with pytest.raises(UserError, match="store numbers-en-de/bpe300-n300"):
        data(store="numbers-en-de/bpe300-n300", vocab_size=300).setup()


def test_a_source_alone_stands_for_its_first_level(words: Path) -> None:
    assert data(store="ptb").store.name == "ptb/words"


def test_sentences_are_shuffled_where_the_store_knows_them(words: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not stored sentence by sentence"):
        data(order="sentences").train_dataloader()
    lm1b = registry.DATA_SETS["lm1b"]
    with pytest.MonkeyPatch.context() as patch:
        names = {s: (f"ptb.{s}.txt",) for s in ("train", "test")} | {"val": ("ptb.valid.txt",)}
        changed = dataclasses.replace(lm1b, shards={}, names=names)  # type: ignore[call-arg]
        patch.setitem(registry.DATA_SETS, "lm1b", changed)
        prepare("lm1b", tmp_path, level="words-min3", report=lambda line: None)
    module = data(store="lm1b/words-min3", vocab_size=8, order="sentences")
    loader = module.train_dataloader()
    first, second = ([b.targets.tolist() for b in loader] for _ in range(2))
    assert first != second
    for epoch in (first, second):
        streams = [module.tokenizer.decode([i for batch in epoch for i in batch[row]]) for row in range(4)]
        lines = {line for stream in streams for line in stream.split("\n")[1:-1]}
        assert lines == {"the cat saw it", "the cat saw a dog"}


def test_damage_is_found_before_training(words: Path) -> None:
    path = words / "train" / DATA_FILE
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(
        UserError,
        match=r"sha256 of train/data-00000-of-00001\.arrow .* `repro data prepare ptb --level words",
    ):
        data().prepare_data()


def test_recipes_can_name_it(words: Path) -> None:
    parser = ArgumentParser(exit_on_error=False)
    parser.add_subclass_arguments(TextData, "data")
    settings = {"store": "ptb/words", "vocab_size": 7, "batch_tokens": 40, "seq_len": 10}
    stages = [{"epochs": 2, "seq_len": 5}]
    data = {
        "class_path": "repro.data.TextData",
        "init_args": {**settings, "stages": stages, "order": "shuffled"},
    }
    parsed = parser.instantiate_classes(parser.parse_object({"data": data}))
    assert [parsed.data.seq_len_of(epoch) for epoch in (0, 2)] == [5, 10]


def test_a_text_without_documents_cannot_be_read_by_document(words: Path) -> None:
    with pytest.raises(UserError, match="ptb has no documents: use order stream"):
        _ = data(order="documents").steps_per_epoch
    by_document = Evaluation("val", selection=TextCut(5, documents=True))
    with pytest.raises(UserError, match="ptb has no documents"):
        data().expected(by_document)
