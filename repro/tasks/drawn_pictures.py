"""Pictures that models draw: a line of text for each, and many side by side in one PNG file."""

import base64
import io
import re
import zlib

import numpy as np
from PIL import Image

GREY, COLUMNS = 128, 8  # the level between pictures, and pictures in a row of a sheet
_LINE = re.compile(r"(\d+)x(\d+)x([13]):([A-Za-z0-9+/=]+)")


def cut_up(shape: tuple[int, int, int], pixels: bytes) -> np.ndarray:
    """The pictures of an array ``(N, H, W, C)``.

    Args:
        shape: height, width and channels of each: 1 for grey, 3 for red, green, blue.
        pixels: its bytes.
    """
    return np.frombuffer(pixels, np.uint8).reshape(-1, *shape)


def to_line(picture: np.ndarray) -> str:
    """A picture as text: its height, width and channels, and its pixels packed, ``28x28x1:eNp...``."""
    packed = base64.b64encode(zlib.compress(picture.tobytes(), 9)).decode()
    return f"{'x'.join(map(str, picture.shape))}:{packed}"


def sheet_of(outputs: str | None, side: int = 112) -> bytes | None:
    """A PNG file with the pictures of some decoded outputs, in rows of eight with a grey line around each.

    Args:
        outputs: a line of :func:`to_line` for each picture, all of one shape; None is returned for other text.
        side: pixels of the longer side of a picture, at least; each of its pixels becomes a square.
    """
    lines = (outputs or "").splitlines()
    matches = [match for line in lines if (match := _LINE.fullmatch(line))]
    if not lines or len(matches) < len(lines):
        return None
    height, width, channels = map(int, matches[0].groups()[:3])
    scale = max(1, side // max(height, width))
    large = width * scale, height * scale
    columns = min(COLUMNS, len(lines))
    rows = -(-len(lines) // columns)
    size = columns * (large[0] + 1) + 1, rows * (large[1] + 1) + 1
    sheet = Image.new("RGB", size, (GREY, GREY, GREY))
    for i, match in enumerate(matches):
        pixels = zlib.decompress(base64.b64decode(match[4]))
        picture = Image.frombytes("L" if channels == 1 else "RGB", (width, height), pixels)
        row, column = divmod(i, columns)
        corner = column * (large[0] + 1) + 1, row * (large[1] + 1) + 1
        sheet.paste(picture.resize(large, Image.Resampling.NEAREST), corner)
    out = io.BytesIO()
    sheet.save(out, "png")
    return out.getvalue()
