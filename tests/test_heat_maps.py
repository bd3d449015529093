"""Heat maps, read back as pictures: every number has its colour in its place, whatever the labels say."""

import io

import numpy as np
import pytest
from PIL import Image

from repro.errors import ReproError
from repro.heat_maps import Band, HeatMap, colour, draw


def pixels(content: bytes) -> np.ndarray:
    opened = Image.open(io.BytesIO(content))
    assert opened.format == "PNG"
    return np.asarray(opened.convert("RGB")).astype(int)


def count(sheet: np.ndarray, wanted: tuple[int, int, int]) -> int:
    return int((sheet == wanted).all(-1).sum())


def test_colours_keep_their_order_in_grey() -> None:
    for signed, low in ((False, 0.0), (True, 0.0)):
        greys = [sum(colour(low + i / 50, signed)) for i in range(51)]
        assert greys == sorted(greys, reverse=True)
        assert greys[0] > greys[25] > greys[50]
    assert colour(0.0) == colour(0.0, signed=True) == (255, 255, 255)
    assert colour(-1.0, signed=True) != colour(1.0, signed=True)
    assert colour(7.0) == colour(1.0)
    assert colour(-3.0) == colour(float("nan")) == colour(0.0)


def test_every_number_is_a_cell_of_its_colour() -> None:
    values = [[0.1, 0.5, 0.9], [0.3, 0.7, 1.0]]
    one = HeatMap("head 1", values, ("Männer", "x"), ("a", "b", "c"), cell=(5, 4))
    sheet = pixels(draw("a title", [Band("layer 1", [one])]))
    for value in (0.1, 0.3, 0.5, 0.7, 0.9):
        assert count(sheet, colour(value)) == 5 * 4
    top = {value: np.argwhere((sheet == colour(value)).all(-1)).min(0) for value in (0.1, 0.5, 0.3)}
    assert (top[0.5] - top[0.1]).tolist() == [0, 5]
    assert (top[0.3] - top[0.1]).tolist() == [4, 0]


def test_rules_stand_left_of_their_columns() -> None:
    values = [[0.1, 0.5, 0.9], [0.1, 0.5, 0.9]]
    plain, ruled = (
        pixels(draw("", [Band("", [HeatMap("", values, cell=(5, 4), rules=rules)])])) for rules in ((), (1,))
    )
    changed = np.argwhere((plain != ruled).any(-1))
    assert set(changed[:, 1]) == {np.argwhere((plain == colour(0.5)).all(-1))[:, 1].min()}
    assert np.ptp(changed[:, 0]) >= 2 * 4 - 1


def test_maps_of_a_band_stand_side_by_side_and_bands_below_each_other() -> None:
    def single(value: float) -> HeatMap:
        return HeatMap("", [[value]])

    sheet = pixels(draw("", [Band("", [single(0.2), single(0.4)]), Band("", [single(0.6)])]))
    first, second, third = (np.argwhere((sheet == colour(v)).all(-1)).min(0) for v in (0.2, 0.4, 0.6))
    assert first[0] == second[0] < third[0]
    assert first[1] == third[1] < second[1]


@pytest.mark.parametrize("label", ["", "x" * 500, "\x1b[31m\nred", "\u202eabc", "名前", "🙂"])
def test_any_label_leaves_the_numbers_as_they_are(label: str) -> None:
    one = HeatMap(label, [[0.5]], [label], [label])
    sheet = pixels(draw(label, [Band(label, [one])]))
    assert count(sheet, colour(0.5)) == 14 * 14


def test_labels_are_drawn_and_long_ones_cut() -> None:
    def width(label: str) -> int:
        return pixels(draw("", [Band("", [HeatMap("", [[0.5]], [label])])])).shape[1]

    assert width("word") > width("")
    assert width("m" * 17) == width("m" * 500)
    assert width("i" * 200) < 2 * width("m" * 16)


def test_a_sheet_too_large_is_refused_in_one_line() -> None:
    wide = HeatMap("", [[0.0] * 3000] * 3000)
    with pytest.raises(ReproError, match="take a shorter sentence"):
        draw("", [Band("", [wide])])
