"""Sheets of attention: which maps there are, of which tokens, as pictures read back; and networks that have none."""

import io
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from repro.errors import ReproError, UserError
from repro.experiment.pictures import attention
from repro.experiment.pictures.attention import Band, attention_sheet, draw, short_sample
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
    result = {band.title: (list(band.rows), list(band.columns)) for band in bands}
    assert result == {
        "Encoder to itself, layer 1": (source, source),
        "Decoder to itself, layer 1": (target, target),
        "Decoder to the source, layer 1": (target, source),
        "Decoder to itself, layer 2": (target, target),
        "Decoder to the source, layer 2": (target, source),
    }
    for band in bands:
        assert band.weights.shape == (H, *map(len, result[band.title]))
        torch.testing.assert_close(band.weights.sum(-1), torch.ones(band.weights.shape[:2]))
    assert bands[1].weights[0, 0, 1:].tolist() == [0.0, 0.0], (
        "the first token of a translation sees itself only"
    )


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


# --- as a picture ---------------------------------------------------------------------------------------------------


def band(*maps: list[list[float]], title: str = "", label: str = "") -> Band:
    values = torch.tensor(maps)
    return Band(title, values, [label] * values.shape[1], [label] * values.shape[2])


def places(content: bytes, value: float) -> np.ndarray:
    """The pixels that have the colour of a number, as rows and columns."""
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    colour = matplotlib.colormaps["Blues"](value)
    return np.argwhere(abs(pixels - 255 * np.array(colour[:3])).max(-1) < 2)


def test_every_number_is_a_cell_of_its_colour() -> None:
    sheet = draw("a title", [band([[0.1, 0.5, 0.9], [0.3, 0.7, 1.0]], title="layer 1", label="Männer")])
    result = {value: places(sheet, value) for value in (0.1, 0.3, 0.5)}
    assert all(0.7 * 14 * 14 < len(pixels) <= 15 * 15 for pixels in result.values())
    corner = {value: np.median(pixels, axis=0) for value, pixels in result.items()}
    assert (corner[0.5] - corner[0.1]).tolist() == pytest.approx([0, 14], abs=2)
    assert (corner[0.3] - corner[0.1]).tolist() == pytest.approx([14, 0], abs=2)


def test_heads_stand_side_by_side_and_layers_of_any_size_below_each_other() -> None:
    sheet = draw("", [band([[0.2]], [[0.4]]), band([[0.6] + [0.0] * 8] * 5)])
    first, second, third = (np.median(places(sheet, value), axis=0) for value in (0.2, 0.4, 0.6))
    assert first[0] == pytest.approx(second[0], abs=1)
    assert second[0] < third[0]
    assert first[1] == pytest.approx(third[1], abs=1)
    assert third[1] < second[1]
    assert all(100 < len(places(sheet, value)) <= 15 * 15 for value in (0.2, 0.4)), (
        "the frame covers the rest"
    )


@pytest.mark.parametrize("label", ["", "x" * 500, "\x1b[31m\nred", "\u202eabc", "名前", "🙂", "$x^", "$$"])
def test_any_label_leaves_the_numbers_as_they_are(label: str) -> None:
    sheet = draw(label, [band([[0.5]], title=label, label=label)])
    assert 100 < len(places(sheet, 0.5)) <= 15 * 15


def test_a_sheet_too_large_is_refused_in_one_line() -> None:
    with pytest.raises(ReproError, match="take a shorter sentence"):
        draw("", [band([[0.0] * 3000] * 3000)])
