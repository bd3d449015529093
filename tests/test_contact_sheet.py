"""Contact sheets, read back; pictures as lines of text; and every refusal."""

import io

import numpy as np
import pytest
from PIL import Image

from repro.contact_sheet import GAP, Picture, cut_up, from_line, to_line, to_png
from repro.errors import UserError


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
    return np.asarray(opened)


def array(picture: Picture) -> np.ndarray:
    found = np.frombuffer(picture.pixels, np.uint8).reshape(picture[:3])
    return found[..., 0] if picture.channels == 1 else found


@pytest.mark.parametrize("shape", [(5, 7, 1), (4, 3, 3)])
@pytest.mark.parametrize(
    ("n", "columns", "scale", "gap"), [(5, 3, 2, 1), (4, 2, 1, 0), (1, 8, 3, 2), (6, 3, 1, 1)]
)
def test_every_picture_lies_in_its_place(
    shape: tuple[int, int, int], n: int, columns: int, scale: int, gap: int
) -> None:
    pictures = some(n, *shape)
    found = seen(to_png(pictures, columns, scale, gap))
    across, rows = min(columns, n), -(-n // columns)
    height, width = shape[0] * scale, shape[1] * scale
    assert found.shape[:2] == (rows * (height + gap) + gap, across * (width + gap) + gap)
    rest = np.ones(found.shape[:2], bool)
    for i, picture in enumerate(pictures):
        top, left = gap + i // across * (height + gap), gap + i % across * (width + gap)
        large = np.repeat(np.repeat(array(picture), scale, 0), scale, 1)
        assert np.array_equal(found[top : top + height, left : left + width], large)
        rest[top : top + height, left : left + width] = False
    assert (found[rest] == GAP).all()


def test_a_sheet_carries_a_hash() -> None:
    pictures = some(1, 2, 2, 1)
    assert Image.open(io.BytesIO(to_png(pictures, sha256="ab"))).text == {"data-sha256": "ab"}
    assert Image.open(io.BytesIO(to_png(pictures))).text == {}


@pytest.mark.parametrize("shape", [(28, 28, 1), (3, 2, 3)])
def test_lines_come_back(shape: tuple[int, int, int]) -> None:
    for picture in some(3, *shape):
        line = to_line(picture)
        assert "\n" not in line
        assert from_line(f"{line}\n") == picture
    assert to_line(some(1, *shape)[0]).startswith(f"{shape[0]}x{shape[1]}x{shape[2]}:")


LINE = to_line(Picture(2, 2, 1, b"abcd"))


@pytest.mark.parametrize(
    ("line", "said"),
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
def test_lines_that_are_no_pictures(line: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        from_line(line)
    assert "\n" not in str(caught.value)


def test_sheets_that_cannot_be() -> None:
    pictures = some(2, 2, 2, 1)
    for arguments in (([],), (pictures, 0), (pictures, 1, 0), (pictures, 1, 1, -1)):
        with pytest.raises(UserError, match="must be at least 1"):
            to_png(*arguments)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="must have one shape"):
        to_png([*pictures, *some(1, 2, 3, 1)])
    for shape, pixels in (((2, 2, 2), bytes(8)), ((2, 2, 1), bytes(7)), ((0, 2, 1), b"")):
        with pytest.raises(UserError, match="not pictures of"):
            cut_up(shape, pixels)
