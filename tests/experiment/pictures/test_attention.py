"""Sheets of attention: which maps there are, of which tokens; and networks that have none."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch

from repro.errors import UserError
from repro.experiment.pictures import attention
from repro.experiment.pictures.attention import attention_sheet, short_sample
from repro.models import EncoderDecoder
from repro.nn import (
    Blocks,
    CrossAttention,
    FeedForward,
    FullAttention,
    Hashing,
    LocalAttention,
    LSHAttention,
    RelativeAttention,
    Vocabulary,
)

D, H = 8, 2


class Letters:
    """A tokeniser of single letters behind three symbols."""

    pad_id, bos_id, eos_id = 0, 1, 2

    def encode(self, text: str) -> list[int]:
        return [" abcdefgh".index(letter) + 2 for letter in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(" abcdefgh"[i - 2] for i in ids)


def network(decoder: Any = FullAttention) -> EncoderDecoder:
    torch.manual_seed(0)
    blocks, decoder_blocks = (
        Blocks(
            [partial(mixer, n_heads=H)],
            partial(FeedForward, d_ff=16),
            cross=partial(CrossAttention, n_heads=H),
        )
        for mixer in (FullAttention, decoder)
    )
    return EncoderDecoder(D, 1, 2, partial(Vocabulary, size=11), blocks, decoder_blocks=decoder_blocks).eval()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects the figures to be drawn."""
    seen: list[Any] = []
    monkeypatch.setattr(attention, "draw", lambda title, bands: seen.append((title, bands)) or b"")
    return seen


def test_every_head_of_every_layer_with_its_tokens(drawn: list[Any]) -> None:
    attention_sheet(network(), Letters(), [3, 4, 5], [6, 7])
    title, bands = drawn[0]
    assert title == "abc  \N{RIGHTWARDS ARROW}  de"
    source, target = ["a", "b", "c", "<end>"], ["<begin>", "d", "e"]
    result = {band.title: (list(band.maps[0].rows), list(band.maps[0].columns)) for band in bands}
    assert result == {
        "Encoder to itself, layer 1": (source, source),
        "Decoder to itself, layer 1": (target, target),
        "Decoder to the source, layer 1": (target, source),
        "Decoder to itself, layer 2": (target, target),
        "Decoder to the source, layer 2": (target, source),
    }
    for band in bands:
        assert [one.title for one in band.maps] == ["head 1", "head 2"]
        for one in band.maps:
            assert (len(one.values), len(one.values[0])) == tuple(map(len, result[band.title]))
            assert all(abs(sum(row) - 1) < 1e-5 for row in one.values)
    assert bands[1].maps[0].values[0][1:] == [0.0, 0.0], "the first token of a translation sees itself only"


@pytest.mark.parametrize(
    "mixer",
    [
        partial(LocalAttention, chunk=2),  # a table for each chunk
        RelativeAttention,  # heads come first
        partial(LSHAttention, hashing=Hashing(rounds=0)),  # without the first token, which sees itself alone
    ],
    ids=["local", "relative", "hashed"],
)
def test_tables_of_another_shape_are_not_drawn(mixer: Any, drawn: list[Any]) -> None:
    attention_sheet(network(mixer), Letters(), [3, 4, 5], [6, 7])
    cross = [f"Decoder to the source, layer {layer}" for layer in (1, 2)]
    assert [band.title for band in drawn[0][1]] == ["Encoder to itself, layer 1", *cross]


def test_a_network_without_weights_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_LAYER", re.compile("no such layer"))
    with pytest.raises(UserError, match="no layer of this network"):
        attention_sheet(network(), Letters(), [3], [4])


def test_a_network_is_left_as_it_was() -> None:
    net = network().train()
    attention_sheet(net, Letters(), [3], [4])
    assert all(module.training for module in net.modules())


def test_the_first_sample_with_room_is_drawn() -> None:
    pairs = [("abcd", "a"), ("a", "abcd"), ("ab", "c"), ("a", "a")]
    assert short_sample(pairs, Letters(), most=3) == ([3, 4], [5])
    assert short_sample(pairs[:2], Letters(), most=3) is None
