"""Pictures for people: many side by side in one PNG file, and a line of text for each. Standard library only.

The bytes of a PNG depend on the pictures alone. zlib's own compression differs between its versions and makers, so
what compresses here is a few lines that only shorten runs, which is most of what drawings of digits hold.
"""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from repro.errors import UserError

GAP = 128  # level of what lies between pictures
_COLOURS = {1: 0, 3: 2}  # PNG's numbers for grey and for red, green, blue
_LINE = re.compile(r"(\d{1,5})x(\d{1,5})x([13]):([A-Za-z0-9+/=]*)")
_RUNS = re.compile(rb"(?s)(.)\1*")


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
        UserError: another number of channels than 1 or 3, or the bytes are no pictures of this shape.
    """
    size = shape[0] * shape[1] * shape[2]
    if shape[2] not in _COLOURS or size < 1 or len(pixels) % size:
        said = " x ".join(map(str, shape))
        raise UserError(f"{len(pixels):,} bytes are no pictures of {said}, grey or of three colours")
    return [Picture(*shape, pixels[at : at + size]) for at in range(0, len(pixels), size)]


def to_line(picture: Picture) -> str:
    """A picture as text: its height, width and channels, and its pixels packed, ``28x28x1:eNp...``."""
    packed = base64.b64encode(zlib.compress(picture.pixels, 9)).decode()
    return f"{picture.height}x{picture.width}x{picture.channels}:{packed}"


def from_line(line: str) -> Picture:
    """Reads a line of :func:`to_line`.

    Raises:
        UserError: it is no such line.
    """
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise UserError(f"no picture in {line[:40]!r}; it looks like '28x28x1:eNp...'")
    height, width, channels = (int(number) for number in found.groups()[:3])
    size = height * width * channels
    unpacker = zlib.decompressobj()
    try:
        pixels = unpacker.decompress(base64.b64decode(found[4]), size + 1)  # no more, whatever it holds
    except (zlib.error, binascii.Error) as error:
        raise UserError(f"the picture in {line[:40]!r} is damaged: {error}") from None
    if len(pixels) != size or not unpacker.eof:
        raise UserError(f"the picture in {line[:40]!r} does not have {size:,} bytes")
    return Picture(height, width, channels, pixels)


def to_png(pictures: Sequence[Picture], columns: int = 8, scale: int = 1, gap: int = 1) -> bytes:
    """A PNG file with pictures row by row, those of the last row on the left.

    Args:
        pictures: all of one shape, at least one.
        columns: pictures in a row.
        scale: width and height of what a pixel becomes.
        gap: pixels of a grey line around each picture, not scaled.

    Raises:
        UserError: no pictures, different shapes, or a number out of range.
    """
    if not pictures or columns < 1 or scale < 1 or gap < 0:
        given = f"{len(pictures)} pictures, columns {columns}, scale {scale}, gap {gap}"
        raise UserError(f"{given}: the first three must be at least 1, the last at least 0")
    if len({one[:3] for one in pictures}) != 1:
        raise UserError("the pictures of one sheet must have one shape")
    first = pictures[0]
    columns = min(columns, len(pictures))
    width = (columns * (first.width * scale + gap) + gap) * first.channels
    line = bytes([GAP]) * width
    rows = [line] * gap
    for start in range(0, len(pictures), columns):
        rows += _band(pictures[start : start + columns], scale, gap, width)
        rows += [line] * gap
    header = struct.pack(">IIBBBBB", width // first.channels, len(rows), 8, _COLOURS[first.channels], 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", _packed(_filtered(rows))) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _band(pictures: Sequence[Picture], scale: int, gap: int, width: int) -> list[bytes]:
    """The rows of some pictures side by side, filled up to ``width`` bytes."""
    height, across, channels, _ = pictures[0]
    between = bytes([GAP]) * (gap * channels)
    rows = []
    for y in range(height):
        parts = [between]
        for one in pictures:
            row = one.pixels[y * across * channels : (y + 1) * across * channels]
            pixels = (row[x : x + channels] * scale for x in range(0, len(row), channels))
            parts += [b"".join(pixels), between]
        rows += [b"".join(parts).ljust(width, bytes([GAP]))] * scale
    return rows


def _filtered(rows: list[bytes]) -> bytes:
    """Each row less the one above it, which leaves zeros where they are equal; PNG's filter 2."""
    above = bytes(len(rows[0]))
    lines = []
    for row in rows:
        same = row == above
        less = bytes(len(row)) if same else bytes((a - b) & 255 for a, b in zip(row, above, strict=True))
        lines.append(b"\x02" + less)
        above = row
    return b"".join(lines)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _literal(byte: int) -> str:
    """The bits of a byte in deflate's fixed code."""
    return f"{48 + byte:08b}" if byte < 144 else f"{400 + byte - 144:09b}"


_LITERALS = [_literal(byte) for byte in range(256)]
# The byte before once more, 3 to 10 times or 258 times: a length that needs no more bits, then the distance 1.
_REPEATS = {length: f"{length - 2:07b}00000" for length in range(3, 11)} | {258: "1100010100000"}


def _run(byte: int, length: int) -> str:
    """The bits of a byte that comes so many times."""
    bits, left = [_LITERALS[byte]], length - 1
    for most in (258, *range(10, 2, -1)):
        bits.append(_REPEATS[most] * (left // most))
        left %= most
    return "".join(bits) + _LITERALS[byte] * left


def _packed(content: bytes) -> bytes:
    """A zlib stream of one block in deflate's fixed code; the only repeats are those of the byte before."""
    known: dict[bytes, str] = {}
    pieces = ["110"]  # the last block; the fixed code, its lowest bit first
    for found in _RUNS.finditer(content):
        run = found[0]
        if run not in known:
            known[run] = _run(run[0], len(run))
        pieces.append(known[run])
    bits = "".join([*pieces, "0000000"])  # the end of the block
    body = int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little")
    return b"\x78\x01" + body + struct.pack(">I", zlib.adler32(content))
