"""Pictures that models draw: a line of text for each, and many side by side in one PNG file."""

import base64
import binascii
import io
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from repro.errors import UserError

GREY, COLUMNS = 128, 8  # the level between pictures, and pictures in a row of a sheet
_LINE = re.compile(r"(\d{1,5})x(\d{1,5})x([13]):([A-Za-z0-9+/=]*)")


class Picture(NamedTuple):
    """A picture.

    Attributes:
        height: rows.
        width: columns.
        channels: 1 for grey, 3 for red, green, blue.
        pixels: row by row, the channels of a pixel together.
    """

    height: int
    width: int
    channels: int
    pixels: bytes


def cut_up(shape: tuple[int, int, int], pixels: bytes) -> list[Picture]:
    """The pictures of an array ``(N, H, W, C)``.

    Args:
        shape: height, width and channels of each.
        pixels: its bytes.

    Raises:
        UserError: another number of channels than 1 or 3, or the bytes are not pictures of this shape.
    """
    size = shape[0] * shape[1] * shape[2]
    if shape[2] not in (1, 3) or size < 1 or len(pixels) % size:
        dimensions = " x ".join(map(str, shape))
        raise UserError(f"{len(pixels):,} bytes are not pictures of {dimensions}, grey or of three colours")
    return [Picture(*shape, pixels[begin : begin + size]) for begin in range(0, len(pixels), size)]


def to_line(picture: Picture) -> str:
    """A picture as text: its height, width and channels, and its pixels packed, ``28x28x1:eNp...``."""
    packed = base64.b64encode(zlib.compress(picture.pixels, 9)).decode()
    return f"{picture.height}x{picture.width}x{picture.channels}:{packed}"


def from_line(line: str) -> Picture:
    """Reads a line of :func:`to_line`.

    Raises:
        UserError: it is not such a line.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise UserError(f"no picture in {line[:40]!r}; it looks like '28x28x1:eNp...'")
    height, width, channels = (int(number) for number in match.groups()[:3])
    size = height * width * channels
    unpacker = zlib.decompressobj()
    try:
        pixels = unpacker.decompress(base64.b64decode(match[4]), size + 1)  # no more, even if there is more
    except (zlib.error, binascii.Error) as error:
        raise UserError(f"the picture in {line[:40]!r} is damaged: {error}") from None
    if len(pixels) != size or not unpacker.eof:
        raise UserError(f"the picture in {line[:40]!r} does not have {size:,} bytes")
    return Picture(height, width, channels, pixels)


def sheet(pictures: Sequence[Picture], side: int) -> bytes:
    """A PNG file with pictures in rows of eight, a grey line around each.

    Args:
        pictures: all of one shape, at least one.
        side: pixels of the longer side of a picture, at least; each of its pixels becomes a square.

    Raises:
        UserError: different shapes.
    """
    import numpy as np
    from matplotlib.image import imsave

    shape = pictures[0][:3]
    if {picture[:3] for picture in pictures} != {shape}:
        raise UserError("the pictures of one sheet must have one shape")
    columns, scale = min(COLUMNS, len(pictures)), max(1, side // max(shape[:2]))
    pixels = np.frombuffer(b"".join(picture.pixels for picture in pictures), np.uint8).reshape(-1, *shape)
    large = pixels.repeat(scale, 1).repeat(scale, 2)
    lined = np.pad(large, ((0, -len(large) % columns), (0, 1), (0, 1), (0, 0)), constant_values=GREY)
    rows = lined.reshape(-1, columns, *lined.shape[1:]).swapaxes(1, 2)
    whole = rows.reshape(rows.shape[0] * rows.shape[1], -1, shape[2])
    framed = np.pad(whole, ((1, 0), (1, 0), (0, 0)), constant_values=GREY)
    out = io.BytesIO()
    imsave(out, np.broadcast_to(framed, (*framed.shape[:2], 3)), format="png")
    return out.getvalue()


def sheet_of(outputs: str | None, side: int = 112) -> bytes | None:
    """A sheet with all pictures of some decoded outputs, a line each; None if a line is none, or there is no line."""
    try:
        pictures = [from_line(line) for line in (outputs or "").splitlines()]
        return sheet(pictures, side) if pictures else None
    except UserError:  # text, or pictures of several shapes
        return None
