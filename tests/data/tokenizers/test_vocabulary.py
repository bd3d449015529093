"""Vocabularies: ids in the order of the file, what is unknown, and files that are damaged."""

import json
from pathlib import Path

import pytest

from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.vocabulary import Bytes, Chars, Words
from repro.errors import UserError

WORDS = Words.from_symbols(["<eos>", "the", "cat", "Füße", "<unk>"], line_end="<eos>", unknown="<unk>")
CLOSED = Words.from_symbols(["<S>", "the", "cat"], line_end="<S>", unknown=None)


def test_words_and_line_ends() -> None:
    assert WORDS.encode("the cat\n\n  Füße  the\n") == [1, 2, 0, 0, 3, 1, 0]
    assert WORDS.encode("") == []
    assert WORDS.decode([1, 2, 0, 0, 3, 1]) == "the cat\n\nFüße the"
    assert (WORDS.size, WORDS.eos_id, WORDS.bos_id, WORDS.unk_id, WORDS.pad_id) == (5, 0, 0, 4, None)
    assert WORDS.encode_batch(["cat", "the the"]) == [[2], [1, 1]]


def test_unknown_words() -> None:
    assert WORDS.encode("the dog") == [1, 4]
    with pytest.raises(UserError, match=r"'dog'.*3 words"):
        CLOSED.encode("the\ncat dog")
    assert CLOSED.unk_id is None


def test_bytes() -> None:
    every = Bytes.from_symbols(range(256), dropped=[])
    text = "Füße\n😀"
    assert every.encode(text) == list(text.encode())
    assert every.decode(every.encode(text)) == text
    assert (every.eos_id, every.bos_id, every.pad_id, every.unk_id) == (None,) * 4
    some = Bytes.from_symbols([97, 99], dropped=[10])
    assert some.encode("a\nca\n") == [0, 1, 0]
    assert some.decode([1, 0]) == "ca"
    assert some.ids(b"a\nb").tolist() == [0, -1]
    with pytest.raises(UserError, match=r"98 is not in .* 2 bytes"):
        some.encode("ab")
    assert every.decode([0xFF, 97]) == "\ufffda"


def test_characters() -> None:
    chars = Chars.from_symbols(["\n", " ", "a", "ß"])
    assert chars.encode("aß a\n") == [2, 3, 1, 2, 0]
    assert chars.decode([2, 3, 1]) == "aß "
    assert chars.ids("a\u4e00b".encode()).tolist() == [2, -1, -1]  # beyond all of them, and between
    assert chars.encode("a a") == [2, 1, 2]
    with pytest.raises(UserError, match=r"'日' is not in .* 4 chars"):
        chars.encode("a日")
    far = Chars.from_symbols("abc—")  # beyond what a byte can hold
    assert far.encode("c—a") == [2, 3, 0]
    assert far.encode("cab") == [2, 0, 1], "a text of ASCII is read as bytes"
    with pytest.raises(UserError, match=r"'d' is not in .* 4 chars"):
        far.encode("abcd")


def test_broken_text_is_named() -> None:
    for vocabulary in (WORDS, Chars.from_symbols("a"), Bytes.from_symbols([97], dropped=[])):
        with pytest.raises(UserError, match="not valid Unicode at character 1"):
            vocabulary.encode("a\ud800")
    with pytest.raises(UserError, match=r"not UTF-8.*2"):
        WORDS.ids(b"a \xff")


def test_files_round_trip(tmp_path: Path) -> None:
    for vocabulary in (
        WORDS,
        CLOSED,
        Chars.from_symbols("aß\u2028"),
        Bytes.from_symbols([3, 200], dropped=[10]),
    ):
        path = tmp_path / f"tokenizer{vocabulary.suffix}"
        vocabulary.save(path)
        again = load_tokenizer(path)
        assert type(again) is type(vocabulary)
        assert (again.sha256, again.size, again.eos_id) == (
            vocabulary.sha256,
            vocabulary.size,
            vocabulary.eos_id,
        )
        assert isinstance(again, Words | Chars | Bytes)
        assert (again.symbols, again.settings) == (vocabulary.symbols, vocabulary.settings)
        body = json.loads(path.read_text(encoding="utf-8"))
        assert (body["kind"], body["symbols"]) == (vocabulary.kind, vocabulary.symbols)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "words", "symbols": ["a", "b"]},
        {"kind": "words", "symbols": ["a", "a"], "line_end": "a", "unknown": None},
        {"kind": "words", "symbols": ["a"], "line_end": "b", "unknown": None},
        {"kind": "words", "symbols": ["a"], "line_end": "a", "unknown": "u"},
        {"kind": "bytes", "symbols": [300], "dropped": []},
        {"kind": "bytes", "symbols": [], "dropped": []},
        {"kind": "chars", "symbols": ["ab"]},
        {"kind": "chars", "symbols": 7},
        {"kind": ["chars"], "symbols": ["a"]},
    ],
)
def test_broken_files_are_named(tmp_path: Path, body: object) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(body))
    with pytest.raises(UserError, match=r"t\.json:"):
        load_tokenizer(path)
