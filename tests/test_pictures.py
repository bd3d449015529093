"""Sheets of pictures, read back; pictures as lines of text; and every refusal."""

import io

import numpy as np
import pytest
from PIL import Image

from repro.errors import UserError
from repro.pictures import GREY, Picture, cut_up, from_line, sheet, sheet_of, to_line


def some(n: int, height: int, width: int, channels: int) -> list[Picture]:
    """Pictures with long runs, short ones and none."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, (n, height, width, channels), np.uint8)
    pixels = np.where(rng.random((n, height, 1, 1)) < 0.5, noise // 86 * 100, noise)
    pixels[0] = 0
    return cut_up((height, width, channels), pixels.astype(np.uint8).tobytes())


def seen(content: bytes) -> np.ndarray:
    opened = Image.open(io.BytesIO(content))
    opened.load()
    return np.asarray(opened.convert("RGB"))


@pytest.mark.parametrize("shape", [(5, 7, 1), (4, 3, 3)])
@pytest.mark.parametrize(("n", "scale"), [(1, 3), (5, 2), (8, 1), (19, 1)])
def test_every_picture_lies_in_its_place(shape: tuple[int, int, int], n: int, scale: int) -> None:
    pictures = some(n, *shape)
    result = seen(sheet(pictures, scale * max(shape)))
    across, rows = min(8, n), -(-n // 8)
    height, width = shape[0] * scale, shape[1] * scale
    assert result.shape[:2] == (rows * (height + 1) + 1, across * (width + 1) + 1)
    rest = np.ones(result.shape[:2], bool)
    for i, picture in enumerate(pictures):
        top, left = 1 + i // across * (height + 1), 1 + i % across * (width + 1)
        pixels = np.frombuffer(picture.pixels, np.uint8).reshape(shape)
        large = np.broadcast_to(pixels.repeat(scale, 0).repeat(scale, 1), (height, width, 3))
        assert np.array_equal(result[top : top + height, left : left + width], large)
        rest[top : top + height, left : left + width] = False
    assert (result[rest] == GREY).all()


def test_small_pictures_become_large_and_large_ones_keep_their_size() -> None:
    assert seen(sheet(some(1, 2, 3, 1), 7)).shape[:2] == (2 * 2 + 2, 3 * 2 + 2)
    assert seen(sheet(some(1, 9, 8, 1), 7)).shape[:2] == (9 + 2, 8 + 2)


@pytest.mark.parametrize("shape", [(28, 28, 1), (3, 2, 3)])
def test_lines_come_back(shape: tuple[int, int, int]) -> None:
    for picture in some(3, *shape):
        line = to_line(picture)
        assert "\n" not in line
        assert from_line(f"{line}\n") == picture
    assert to_line(some(1, *shape)[0]).startswith(f"{shape[0]}x{shape[1]}x{shape[2]}:")


LINE = to_line(Picture(2, 2, 1, b"abcd"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "no picture in ''; it looks like"),
        ("2x2:eNp", "no picture in '2x2:eNp'"),
        ("2x2x2:eNp", "no picture in"),
        (LINE.replace("2x2x1", "2x3x1"), "does not have 6 bytes"),
        (LINE.replace("2x2x1", "1x3x1"), "does not have 3 bytes"),
        (LINE[:-6], "is damaged|does not have 4 bytes"),
        (LINE[:-5], "is damaged"),
        ("2x2x1:AAAA", "is damaged"),
        (to_line(Picture(2, 2, 1, bytes(10**6))), "does not have 4 bytes"),
    ],
)
def test_lines_that_are_no_pictures(line: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        from_line(line)
    assert "\n" not in str(caught.value)


def test_pictures_that_cannot_be() -> None:
    with pytest.raises(UserError, match="must have one shape"):
        sheet([*some(2, 2, 2, 1), *some(1, 2, 3, 1)], 1)
    for shape, pixels in (((2, 2, 2), bytes(8)), ((2, 2, 1), bytes(7)), ((0, 2, 1), b"")):
        with pytest.raises(UserError, match="not pictures of"):
            cut_up(shape, pixels)


def test_outputs_that_are_pictures_become_a_sheet() -> None:
    content = sheet_of(f"{LINE}\n{LINE}\n")
    assert content is not None
    assert seen(content).shape[:2] == (114, 227)


@pytest.mark.parametrize(
    "outputs", [None, "", "a translation\n", f"{LINE}\nwords\n", f"{LINE}\n2x2x1:eNpj\n"]
)
def test_other_outputs_are_no_sheet(outputs: str | None) -> None:
    assert sheet_of(outputs) is None
