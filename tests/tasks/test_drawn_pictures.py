"""Pictures as lines of text, and sheets of them, read back."""

import base64
import io
import zlib

import numpy as np
import pytest
from PIL import Image

from repro.tasks.drawn_pictures import GREY, cut_up, sheet_of, to_line


def some(n: int, height: int, width: int, channels: int) -> np.ndarray:
    """Pictures with long runs, short ones and none."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (n, height, width, channels), np.uint8)
    pixels = np.where(rng.random((n, height, 1, 1)) < 0.5, noise // 86 * 100, noise)
    pixels[0] = 0
    return pixels.astype(np.uint8)


def seen(pictures: np.ndarray, side: int = 112) -> np.ndarray:
    """The pixels of a sheet of these pictures."""
    content = sheet_of("\n".join(map(to_line, pictures)) + "\n", side)
    assert content is not None
    opened = Image.open(io.BytesIO(content))
    opened.load()
    return np.asarray(opened.convert("RGB"))


@pytest.mark.parametrize("shape", [(5, 7, 1), (4, 3, 3)])
@pytest.mark.parametrize(("n", "scale"), [(1, 3), (5, 2), (8, 1), (19, 1)])
def test_every_picture_lies_in_its_place(shape: tuple[int, int, int], n: int, scale: int) -> None:
    pictures = some(n, *shape)
    result = seen(pictures, scale * max(shape))
    across, rows = min(8, n), -(-n // 8)
    height, width = shape[0] * scale, shape[1] * scale
    assert result.shape[:2] == (rows * (height + 1) + 1, across * (width + 1) + 1)
    rest = np.ones(result.shape[:2], bool)
    for i, picture in enumerate(pictures):
        top, left = 1 + i // across * (height + 1), 1 + i % across * (width + 1)
        large = np.broadcast_to(picture.repeat(scale, 0).repeat(scale, 1), (height, width, 3))
        assert np.array_equal(result[top : top + height, left : left + width], large)
        rest[top : top + height, left : left + width] = False
    assert (result[rest] == GREY).all()


def test_small_pictures_become_large_and_large_ones_keep_their_size() -> None:
    assert seen(some(1, 2, 3, 1), 7).shape[:2] == (2 * 2 + 2, 3 * 2 + 2)
    assert seen(some(1, 9, 8, 1), 7).shape[:2] == (9 + 2, 8 + 2)


def test_pictures_are_cut_out_of_an_array() -> None:
    pictures = some(3, 3, 2, 3)
    assert np.array_equal(cut_up((3, 2, 3), pictures.tobytes()), pictures)


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3)])
def test_a_line_holds_the_shape_and_every_pixel(shape: tuple[int, int, int]) -> None:
    for picture in some(3, *shape):
        size, packed = to_line(picture).split(":")
        assert size == "x".join(map(str, shape))
        assert zlib.decompress(base64.b64decode(packed)) == picture.tobytes()


LINE = to_line(np.frombuffer(b"abcd", np.uint8).reshape(2, 2, 1))


def test_outputs_that_are_pictures_become_a_sheet() -> None:
    content = sheet_of(f"{LINE}\n{LINE}\n")
    assert content is not None
    assert Image.open(io.BytesIO(content)).size == (227, 114)


@pytest.mark.parametrize(
    "outputs", [None, "", "a translation\n", f"{LINE}\nwords\n", "2x2:eNp\n", "2x2x2:eNp\n"]
)
def test_other_outputs_are_no_sheet(outputs: str | None) -> None:
    assert sheet_of(outputs) is None
