"""GPT-2's subwords under GPT-2's numbers: the file, stores of text, and every refusal. And the first books of PG-19."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from repro.data.prepare import open_store, prepare
from repro.data.registry import DATA_SETS
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.tokenizer import Gpt2Bpe, load_gpt2
from repro.errors import UserError

MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he")]
END = {
    "id": 50256, "content": "<|endoftext|>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
    "normalized": False,
}  # fmt: skip
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def file_of_gpt2(folder: Path, **changes: Any) -> Path:
    """A file in the form of GPT-2's, with its bytes and its size, and three merges."""
    from tokenizers import pre_tokenizers

    symbols = sorted(pre_tokenizers.ByteLevel.alphabet(), key=lambda c: (not "!" <= c <= "~", c))
    symbols += ["".join(merge) for merge in MERGES]
    symbols += [f"filler{n}" for n in range(50256 - len(symbols))] + ["<|endoftext|>"]
    body = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None,
        "added_tokens": [END],
        "pre_tokenizer": LEVEL, "post_processor": LEVEL, "decoder": LEVEL,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "vocab": {s: i for i, s in enumerate(symbols)},
            "merges": [" ".join(merge) for merge in MERGES],
        },
    } | changes  # fmt: skip
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(body))
    return path


@pytest.fixture
def given(tmp_path: Path) -> Path:
    return file_of_gpt2(tmp_path)


def test_ids_are_those_of_the_file_and_text_makes_no_special_one(given: Path) -> None:
    result = load_gpt2(given)
    vocab = json.loads(given.read_text())["model"]["vocab"]
    assert (result.size, result.eos_id, vocab["!"]) == (50257, 50256, 0)
    assert result.encode("a the") == [vocab["a"], vocab["Ġthe"]]
    for text in ("the cat\n  é 🪁", "<|endoftext|>"):
        ids = result.encode(text)
        assert result.decode([*ids, 50256]) == text
        assert 50256 not in ids


def test_a_store_has_all_lines_without_their_ends(data_folder: Path, given: Path, tmp_path: Path) -> None:
    books = tmp_path / "books"
    books.mkdir()
    for split in ("train", "val", "test"):
        (books / f"{split}.txt").write_text(" the end \n\nthe\n")
    prepare("books", books, level="gpt2", tokenizer=given, report=lambda line: None)
    store = open_store("books", "gpt2")
    output = load_tokenizer(store.tokenizer_path)
    assert isinstance(output, Gpt2Bpe)
    assert store.values("train", "text").tolist() == [*output.encode(" the end "), *output.encode("the")]
    assert store.manifest.tokenizer["size"] == 50257
    assert store.manifest.tokenizer["kind"] == "gpt2-bpe"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"type": "BPE", "vocab": {"!": 0}, "merges": []}}, "1 entries"),
        ({"model": None}, "BPE file"),
        ({"decoder": {"type": "Nothing"}}, "BPE file"),
        ({"normalizer": {"type": "Lowercase"}}, "normaliser .*Lowercase"),
        ({"pre_tokenizer": {**LEVEL, "add_prefix_space": True}}, "comes back as"),
        ({"added_tokens": [{**END, "special": False}]}, "added token .*endoftext"),
    ],
)
def test_another_file_is_refused(
    data_folder: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    books = tmp_path / "books"
    books.mkdir()
    (books / "a.txt").write_text("a\n" * 90)
    with pytest.raises(UserError, match=message) as caught:
        prepare(
            "books",
            books,
            level="gpt2",
            tokenizer=file_of_gpt2(tmp_path, **changes),
            report=lambda line: None,
        )
    assert "\n" not in str(caught.value)
    assert not (data_folder / "books" / "gpt2").exists()


def test_the_level_needs_a_file_and_other_levels_have_none(
    data_folder: Path, given: Path, tmp_path: Path
) -> None:
    for options, output in (
        ({"level": "gpt2"}, "--tokenizer FILE"),
        ({"level": "gpt2", "vocab_size": 300}, "--tokenizer FILE"),
        ({"level": "bytes", "tokenizer": given}, "--level bytes"),
    ):
        with pytest.raises(UserError, match=output):
            prepare("books", tmp_path, report=lambda line: None, **options)
    with pytest.raises(UserError, match="ptb"):
        prepare("ptb", tmp_path, level="gpt2", tokenizer=given, report=lambda line: None)
    assert "--level gpt2 --tokenizer FILE" in DATA_SETS["wikitext-103-raw"].command("gpt2")


def test_the_first_books_by_name(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = DATA_SETS["pg19-2000"]
    small = dataclasses.replace(known, shards={"train": 2, "val": 1, "test": 1})  # type: ignore[call-arg]
    monkeypatch.setitem(DATA_SETS, "pg19-2000", small)
    for name in ("train/1", "train/30", "train/4", "validation/7", "test/8"):
        path = tmp_path / "pg19" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name[-1]}\n")
    folder = tmp_path / "pg19"
    prepare("pg19-2000", folder, report=lambda line: None)
    assert bytes(open_store("pg19-2000", "bytes").values("train", "text").tolist()) == b"1\n0\n"
    for name in ("30", "4"):
        (folder / "train" / f"{name}.txt").unlink()
    with pytest.raises(UserError, match=r"1.*2 files"):
        prepare("pg19-2000", folder, level="gpt2", tokenizer=file_of_gpt2(tmp_path), report=lambda line: None)


def test_truncation_and_padding_of_a_file_are_ignored(tmp_path: Path) -> None:
    plain = load_gpt2(file_of_gpt2(tmp_path)).encode("the cat, the hat")
    truncation = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    padding = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "!",
    }  # fmt: skip
    for setting in ({"truncation": truncation}, {"padding": padding}):
        assert load_gpt2(file_of_gpt2(tmp_path, **setting)).encode("the cat, the hat") == plain
