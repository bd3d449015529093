"""One vocabulary of symbols and subwords: nothing is lost, and nothing is mistaken for something else."""

import json
from pathlib import Path

import pytest

from repro.data.tokenizers.loading import load_tokenizer
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.errors import UserError

SYMBOLS = ["XX", "(NP", "(S", ")NP", ")S"]
SENTENCES = ["the dog saw the cat .", "the cat saw the dog ."] * 5
SIZE = 276


@pytest.fixture(scope="module")
def tokenizer() -> WordsAndSymbols:
    return WordsAndSymbols.train(SENTENCES, SYMBOLS, SIZE)


def test_symbols_have_ids_of_their_own_behind_the_specials(tokenizer: WordsAndSymbols) -> None:
    assert tokenizer.size == SIZE
    assert tokenizer.encode("(S (NP XX )NP XX )S") == [6, 5, 4, 7, 4, 8]
    assert min(tokenizer.encode("the dog \x00")) >= 9
    assert max(tokenizer.encode("the dog saw the cat")) < SIZE
    assert tokenizer.encode_batch(["", "XX", "dog"])[:2] == [[], [4]]


@pytest.mark.parametrize(
    "text",
    [
        *SENTENCES[:2],
        "  two  blanks ",
        "größer 漢字 \x00",
        "(S (NP XX )NP )S",
        "",
        "(s S) ( ) ((NP",
        "XX",
        "(S (WHNP XX )WHNP )S",  # a label that no training tree has
    ],
)
def test_decoding_undoes_encoding(tokenizer: WordsAndSymbols, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.encode_batch(["x", text]) == [tokenizer.encode("x"), tokenizer.encode(text)]


def test_specials_are_never_made_and_dropped_when_read(tokenizer: WordsAndSymbols) -> None:
    assert min(tokenizer.encode("<pad> <s> </s> (S")) >= 4
    assert tokenizer.decode([1, 6, 0, 4, 8, 2, 3]) == "(S XX )S"


def test_words_between_symbols_are_read_as_words(tokenizer: WordsAndSymbols) -> None:
    dog = tokenizer.encode("dog")
    assert tokenizer.decode([6, *dog, 8]) == "(S dog )S"


def test_it_is_read_from_its_file(tokenizer: WordsAndSymbols, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = load_tokenizer(path)
    assert isinstance(loaded, WordsAndSymbols)
    assert loaded.sha256 == tokenizer.sha256
    assert loaded.symbols == SYMBOLS
    assert loaded.encode("the (S dog") == tokenizer.encode("the (S dog")


def test_the_same_text_gives_the_same_file(tokenizer: WordsAndSymbols) -> None:
    assert WordsAndSymbols.train(iter(SENTENCES), SYMBOLS, SIZE).sha256 == tokenizer.sha256
    assert WordsAndSymbols.train(SENTENCES, SYMBOLS[::-1], SIZE).sha256 != tokenizer.sha256


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (264, "264 includes 5 symbols of trees; for the words, vocabulary size 259 is too small"),
        (900, "900 includes 5 symbols of trees; for the words, vocabulary size 895 is too large"),
    ],
)
def test_a_size_that_cannot_be_reached(size: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        WordsAndSymbols.train(SENTENCES, SYMBOLS, size)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"[]",
        json.dumps({"kind": "words-and-symbols", "symbols": ["XX"]}).encode(),
        json.dumps({"kind": "words-and-symbols", "symbols": ["XX", "XX"], "words": {}}).encode(),
        json.dumps({"kind": "words", "symbols": ["XX"], "words": {}}).encode(),
    ],
)
def test_another_file_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"not a vocabulary of words and symbols|not a byte-level BPE file"):
        WordsAndSymbols(content)
