"""Heat maps, read back as pictures: every number has its colour in its place, whatever the labels are."""

import io

import matplotlib
import numpy as np
import pytest
from PIL import Image

from repro.errors import ReproError
from repro.experiment.pictures.heat_maps import Band, HeatMap, draw


def places(content: bytes, value: float) -> np.ndarray:
    """The pixels that have the colour of a number, as rows and columns."""
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).astype(int)
    colour = matplotlib.colormaps["Blues"](value)
    return np.argwhere(abs(pixels - 255 * np.array(colour[:3])).max(-1) < 2)


def test_every_number_is_a_cell_of_its_colour() -> None:
    values = [[0.1, 0.5, 0.9], [0.3, 0.7, 1.0]]
    one = HeatMap("head 1", values, ("Männer", "x"), ("a", "b", "c"))
    sheet = draw("a title", [Band("layer 1", [one])])
    result = {value: places(sheet, value) for value in (0.1, 0.3, 0.5)}
    assert all(0.7 * 14 * 14 < len(pixels) <= 14 * 14 for pixels in result.values())
    corner = {value: np.median(pixels, axis=0) for value, pixels in result.items()}
    assert (corner[0.5] - corner[0.1]).tolist() == pytest.approx([0, 14], abs=2)
    assert (corner[0.3] - corner[0.1]).tolist() == pytest.approx([14, 0], abs=2)


def test_maps_of_a_band_stand_side_by_side_and_bands_below_each_other() -> None:
    def single(value: float) -> HeatMap:
        return HeatMap("", [[value]])

    sheet = draw("", [Band("", [single(0.2), single(0.4)]), Band("", [single(0.6)])])
    first, second, third = (np.median(places(sheet, value), axis=0) for value in (0.2, 0.4, 0.6))
    assert first[0] == pytest.approx(second[0], abs=1)
    assert second[0] < third[0]
    assert first[1] == pytest.approx(third[1], abs=1)
    assert third[1] < second[1]


@pytest.mark.parametrize("label", ["", "x" * 500, "\x1b[31m\nred", "\u202eabc", "名前", "🙂", "$x^", "$$"])
def test_any_label_leaves_the_numbers_as_they_are(label: str) -> None:
    sheet = draw(label, [Band(label, [HeatMap(label, [[0.5]], [label], [label])])])
    assert 100 < len(places(sheet, 0.5)) <= 14 * 14


def test_a_sheet_too_large_is_refused_in_one_line() -> None:
    with pytest.raises(ReproError, match="take a shorter sentence"):
        draw("", [Band("", [HeatMap("", [[0.0] * 3000] * 3000)])])
