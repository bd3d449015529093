"""Contact sheets: many pictures side by side in one PNG file, and a line of text for each."""

import base64
import binascii
import io
import re
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from repro.errors import UserError

GAP = 128  # grey level between pictures
_MODES: dict[int, tuple[str, int | tuple[int, ...]]] = {
    1: ("L", GAP),
    3: ("RGB", (GAP, GAP, GAP)),
}  # by channels
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
    if shape[2] not in _MODES or size < 1 or len(pixels) % size:
        dimensions = " x ".join(map(str, shape))
        raise UserError(f"{len(pixels):,} bytes are not pictures of {dimensions}, grey or of three colours")
    return [Picture(*shape, pixels[at : at + size]) for at in range(0, len(pixels), size)]


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


def to_png(
    pictures: Sequence[Picture], columns: int = 8, scale: int = 1, gap: int = 1, sha256: str = ""
) -> bytes:
    """A PNG file with pictures row by row, those of the last row on the left.

    Args:
        pictures: all of one shape, at least one.
        columns: pictures in a row.
        scale: side of the square that a pixel becomes.
        gap: pixels of a grey line around each picture, not scaled.
        sha256: a hash that the file carries as its text ``data-sha256``.

    Raises:
        UserError: no pictures, different shapes, or a number out of range.
    """
    from PIL import Image
    from PIL.PngImagePlugin import PngInfo

    if not pictures or columns < 1 or scale < 1 or gap < 0:
        arguments = f"{len(pictures)} pictures, columns {columns}, scale {scale}, gap {gap}"
        raise UserError(f"{arguments}: the first three must be at least 1, the last at least 0")
    if len({image[:3] for image in pictures}) != 1:
        raise UserError("the pictures of one sheet must have one shape")
    height, width, channels, _ = pictures[0]
    columns = min(columns, len(pictures))
    down, across = height * scale + gap, width * scale + gap
    size = (columns * across + gap, -(-len(pictures) // columns) * down + gap)
    mode, grey = _MODES[channels]
    sheet = Image.new(mode, size, grey)
    for i, picture in enumerate(pictures):
        image = Image.frombytes(mode, (width, height), picture.pixels)
        place = (i % columns * across + gap, i // columns * down + gap)
        sheet.paste(image.resize((width * scale, height * scale), Image.Resampling.NEAREST), place)
    text = PngInfo()
    if sha256:
        text.add_text("data-sha256", sha256)
    out = io.BytesIO()
    sheet.save(out, "PNG", optimize=True, pnginfo=text)
    return out.getvalue()
