"""Tokenisers: nothing is lost, nothing is imitated, and broken files are named."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from repro.data.sets.translation.numbers import generate
from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.tokenizer import ByteBpe, SentencePiece
from repro.errors import UserError

TEXT = [side for pair in generate("train", 300) for side in pair]
ODD = [
    "",
    " ",
    "  a  b ",
    "Füße im Fluß",
    "😀 👩‍👩‍👧",
    "\x00\t\r\u2028",
    "日本語",
    "<pad> <s></s><unk>",
    "\n",
    "Ġ",
]


@pytest.fixture(scope="module")
def bpe() -> ByteBpe:
    return ByteBpe.train(TEXT, 300)


@pytest.fixture(scope="module")
def sentence_piece() -> bytes:
    """A model whose own order is unk 0, bos 1, eos 2, pad 3."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=model,
        vocab_size=60,
        pad_id=3,
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


@pytest.mark.parametrize("text", ODD)
def test_byte_bpe_loses_nothing(bpe: ByteBpe, text: str) -> None:
    ids = bpe.encode(text)
    assert bpe.decode(ids) == text
    assert all(4 <= i < bpe.size for i in ids)  # text never makes a special symbol


def test_byte_bpe_has_the_size_asked_for_and_merges(bpe: ByteBpe) -> None:
    assert bpe.size == 300
    assert len(bpe.encode("hundred")) < len("hundred")
    assert (bpe.pad_id, bpe.bos_id, bpe.eos_id, bpe.unk_id) == (0, 1, 2, 3)


def test_byte_bpe_training_is_deterministic(bpe: ByteBpe) -> None:
    assert ByteBpe.train(iter(TEXT), 300).sha256 == bpe.sha256
    assert ByteBpe.train(TEXT[:100], 300).sha256 != bpe.sha256


def test_specials_are_dropped_in_decoding(bpe: ByteBpe) -> None:
    ids = bpe.encode("sieben Häuser")
    assert bpe.decode([1, *ids[:2], 3, *ids[2:], 2, 0, 0]) == "sieben Häuser"


def test_batches_encode_like_single_lines(bpe: ByteBpe) -> None:
    assert bpe.encode_batch(TEXT[:20]) == [bpe.encode(text) for text in TEXT[:20]]


def test_sizes_that_cannot_be_reached(bpe: ByteBpe) -> None:
    with pytest.raises(UserError, match="the largest is 262"):
        ByteBpe.train(["aab"] * 3, 5000)
    assert ByteBpe.train(["aab"] * 3, 262).size == 262
    with pytest.raises(UserError, match=r"100.*260"):
        ByteBpe.train(TEXT, 100)


def test_broken_text_is_named(bpe: ByteBpe) -> None:
    with pytest.raises(UserError, match="not valid Unicode at character 1"):
        bpe.encode("a\ud800")


def test_files_round_trip(bpe: ByteBpe, sentence_piece: bytes, tmp_path: Path) -> None:
    for tokenizer in (bpe, SentencePiece(sentence_piece)):
        path = tmp_path / f"t{tokenizer.suffix}"
        tokenizer.save(path)
        again = load_tokenizer(path)
        assert type(again) is type(tokenizer)
        assert (again.sha256, again.size) == (tokenizer.sha256, tokenizer.size)
        assert again.encode("zweihundert Äpfel") == tokenizer.encode("zweihundert Äpfel")


def test_sentence_piece_ids_are_moved(sentence_piece: bytes) -> None:
    tokenizer = SentencePiece(sentence_piece)
    assert tokenizer.size == 60
    for text in TEXT[:20]:
        ids = tokenizer.encode(text)
        assert all(4 <= i < tokenizer.size for i in ids)
        assert tokenizer.decode([tokenizer.bos_id, *ids, tokenizer.eos_id, tokenizer.pad_id]) == text
    assert tokenizer.unk_id in tokenizer.encode("日")
    assert not {0, 1, 2} & set(tokenizer.encode("<pad> <s> </s>"))
    everything = {i for ids in tokenizer.encode_batch(TEXT) for i in ids}
    assert len(everything) > 30  # pieces keep apart


def test_broken_files_are_named(bpe: ByteBpe, sentence_piece: bytes, tmp_path: Path) -> None:
    bpe.save(tmp_path / "whole.json")
    whole = (tmp_path / "whole.json").read_bytes()
    with_added = json.loads(whole)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    with_added["added_tokens"] = [{"id": 296, "content": "<pad>", "special": True, **flags}]
    broken = {
        "half.json": whole[: len(whole) // 2],
        "other.json": b'{"a": 1}',
        "bytes.json": b"\xff\xfe",
        "added.json": json.dumps(with_added).encode(),
        "empty.model": b"",
        "half.model": sentence_piece[: len(sentence_piece) // 2],
        "text.model": b"hello",
        "name.txt": b"hello",
    }
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=name):
            load_tokenizer(tmp_path / name)
    with pytest.raises(UserError, match="cannot read the tokeniser file"):
        load_tokenizer(tmp_path / "absent.json")


def changed(bpe: ByteBpe, **changes: object) -> bytes:
    """A tokeniser's file with other settings; those of its model in ``model``."""
    file = json.loads(bpe.content)
    model = {**file["model"], **changes.pop("model", {})}  # type: ignore[dict-item]
    return json.dumps({**file, **changes, "model": model}).encode()


TRUNCATED = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
PADDED = {
    "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0,
    "pad_token": "!",
}  # fmt: skip


@pytest.mark.parametrize(
    "setting", [{"truncation": TRUNCATED}, {"padding": PADDED}, {"model": {"dropout": 0.9}}]
)
def test_truncation_padding_and_dropout_of_a_file_are_ignored(
    bpe: ByteBpe, setting: dict[str, object]
) -> None:
    text = "two hundred and twenty-two thousand"
    assert ByteBpe(changed(bpe, **setting)).encode(text) == bpe.encode(text)


CAT = {"String": "cat"}
STRIP = {"type": "Strip", "strip_left": True, "strip_right": True}
LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
SPLIT = {"type": "Split", "pattern": CAT, "behavior": "Removed", "invert": False}
LOSSY: list[tuple[dict[str, Any], str]] = [
    *(
        ({"normalizer": normalizer}, f"normaliser .*{normalizer['type']}")
        for normalizer in (
            {"type": "Lowercase"}, {"type": "NFC"}, {"type": "NFKD"}, STRIP, {"type": "StripAccents"},
            {"type": "Replace", "pattern": CAT, "content": "dog"}, {"type": "Prepend", "prepend": "_"},
            {"type": "Sequence", "normalizers": [STRIP]},
        )
    ),
    ({"pre_tokenizer": {**LEVEL, "add_prefix_space": True}}, "comes back as ' 0123"),
    ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [SPLIT, LEVEL]}}, "pre-tokeniser .*cat"),
    ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, LEVEL]}}, "comes back"),
    ({"pre_tokenizer": {"type": "CharDelimiterSplit", "delimiter": "q"}}, "comes back"),
]  # fmt: skip


@pytest.mark.parametrize(("setting", "message"), LOSSY, ids=lambda value: str(value)[:40])
def test_a_file_that_changes_text_is_refused(bpe: ByteBpe, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=rf"changes text: .*{message}") as caught:
        ByteBpe(changed(bpe, **setting))
    assert "\n" not in str(caught.value)


def added(content: str, bpe: ByteBpe, **more: bool) -> bytes:
    """A file with an added token that is in its vocabulary already."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    number = json.loads(bpe.content)["model"]["vocab"][content]
    return changed(bpe, added_tokens=[{"id": number, "content": content, "special": False, **flags, **more}])


def test_text_makes_no_added_token(bpe: ByteBpe) -> None:
    with pytest.raises(UserError, match=r"added token 'hund'"):
        ByteBpe(added("hund", bpe, lstrip=True, rstrip=True))
    special = ByteBpe(added("hund", bpe, lstrip=True, rstrip=True, special=True))
    assert special.decode(special.encode("two hundred and")) == "two hundred and"
    assert special.size == bpe.size


def test_a_file_whose_ids_have_a_gap_is_refused(bpe: ByteBpe) -> None:
    vocab = json.loads(bpe.content)["model"]["vocab"]
    moved = {symbol: number + 9 * (number > 200) for symbol, number in vocab.items()}
    with pytest.raises(UserError, match=r"ids of its \d+ entries are not 0 to"):
        ByteBpe(changed(bpe, model={"vocab": moved}))


def test_a_file_that_lacks_bytes_is_refused(bpe: ByteBpe) -> None:
    vocab = json.loads(bpe.content)["model"]["vocab"]
    renamed = {symbol if symbol != "~" else "filler": number for symbol, number in vocab.items()}
    with pytest.raises(UserError, match="lack 1 of the 256 bytes"):
        ByteBpe(changed(bpe, model={"vocab": renamed}))
