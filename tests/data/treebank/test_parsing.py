"""The datamodule of sentences and their trees."""

from pathlib import Path
from typing import Any

import pytest

from repro.batches import Evaluation
from repro.data import ParsingData
from repro.data.prepare import prepare
from repro.errors import UserError
from tests.data.treebank_folder import write_lines

STORE = "grammar-trees/bpe300-n120"


@pytest.fixture(scope="module")
def _prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_DATA", str(folder))
        prepare("grammar-trees", vocab_size=300, size=120, report=lambda line: None)
        prepare("wsj-trees", write_lines(folder / "raw"), vocab_size=300, report=lambda line: None)
    return folder


@pytest.fixture(autouse=True)
def _here(_prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_DATA", str(_prepared))


def data(**changes: Any) -> ParsingData:
    return ParsingData(**({"store": STORE, "vocab_size": 300, "batch_tokens": 600} | changes))


def test_batches_hold_sentences_and_rows_of_symbols() -> None:
    module = data()
    words, rows = module.sources("train"), module.targets("train")
    seen = []
    for batch in module.train_dataloader():
        assert batch.source.numel() <= 600
        assert batch.target_out.numel() <= 600
        for place, i in enumerate(batch.indices.tolist()):
            assert module.tokenizer.decode(batch.source[place].tolist()) == words[i]
            assert module.tokenizer.decode(batch.target_out[place].tolist()) == rows[i]
            seen.append(i)
    assert sorted(seen) == list(range(120))


def test_references_are_trees_with_their_words() -> None:
    module = data()
    for line, words, row in zip(
        module.references("val"), module.sources("val"), module.targets("val"), strict=True
    ):
        assert [piece.rstrip(")") for piece in line.split() if not piece.startswith("(")] == words.split()
        assert row.split().count("XX") == len(words.split())
    lengths = [len(row.split()) + 1 for row in module.targets("val")]
    expected = {"examples": len(lengths), "tokens": sum(lengths)}
    assert module.expected(Evaluation("val")) == expected
    assert module.counts["val"]["target_tokens"] == sum(lengths)


def test_long_rows_are_left_out_of_training_and_counted() -> None:
    module = data(max_length=20)
    short = [i for i, row in enumerate(module.targets("train")) if len(row.split()) < 20]
    there = sorted(i for batch in module.train_dataloader() for i in batch.indices.tolist())
    assert there
    assert set(there) <= set(short)
    assert module.counts["train"]["dropped"] == 120 - len(there)
    assert module.counts["test"]["dropped"] == 0


def test_what_is_licensed_is_not_public() -> None:
    assert data().public
    assert not data(store="wsj-trees").public


def test_another_store_is_refused() -> None:
    prepare("numbers-en-de", vocab_size=300, size=300, report=lambda line: None)
    with pytest.raises(UserError, match="holds en, de, not sentences and their trees"):
        data(store="numbers-en-de/bpe300-n300").setup()
    with pytest.raises(UserError, match="300, not 301"):
        data(store="wsj-trees/bpe300", vocab_size=301).setup()
    with pytest.raises(UserError, match=r"wsj-trees/bpe301.*repro data prepare wsj-trees --vocab-size 301"):
        data(store="wsj-trees", vocab_size=301).setup()
