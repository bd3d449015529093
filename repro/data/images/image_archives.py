"""Archives of many small picture files, read one picture at a time: a tar of PNG files, or the unpacked folder."""

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from repro.data.images.image_sources import PictureArchives
from repro.errors import UserError

_Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_END = ".png"


class _Found(NamedTuple):
    """A picture's file: its name without folders; where it begins in the archive, or its path; its size."""

    name: str
    at: int | str
    size: int


def read_archive(data_set: PictureArchives, folder: Path, split: str) -> Iterator[_Bytes]:
    """The pictures ``(H, W, C)`` of a split in the order of their file names, which a tar does not keep.

    Args:
        data_set: of pictures in archives.
        folder: with ``<archive>.tar`` or a folder ``<archive>`` of files at any depth.
        split: of the data set.

    Raises:
        UserError: neither is there, something cannot be read, a picture has another size, or there are more or
            fewer than there should be.
    """
    stem = data_set.archives[split]
    tar, below = folder / f"{stem}.tar", folder / stem
    if not tar.is_file() and not below.is_dir():
        raise UserError(f"--from {folder}: neither {tar.name} (not packed any further) nor a folder {stem}")
    where = tar if tar.is_file() else below
    files = sorted(_in_tar(tar) if tar.is_file() else _in_folder(below))
    expected = data_set.examples[split]
    if len(files) != expected:
        raise UserError(
            f"{where}: {len(files):,} pictures, {data_set.name} has {expected:,} in {split}; get it again"
        )
    for name, content in _contents(where, files):
        yield _decoded(f"{where}, {name}", content, data_set.shape)


def _in_tar(path: Path) -> Iterator[_Found]:
    try:
        with tarfile.open(path, "r:") as opened:
            while (member := opened.next()) is not None:
                name = PurePosixPath(member.name).name
                if member.isfile() and _is_picture(name):
                    yield _Found(name, member.offset_data, member.size)
                opened.members.clear()  # type: ignore[attr-defined]  # it would keep a million of them
    except (OSError, tarfile.TarError) as error:
        raise UserError(f"cannot read {path}: {error}; get the file again") from None


def _in_folder(folder: Path) -> Iterator[_Found]:
    for path in folder.rglob(f"*{_END}"):
        if _is_picture(path.name):
            yield _Found(path.name, str(path), 0)


def _is_picture(name: str) -> bool:
    return name.endswith(_END) and not name.startswith(".")


def _contents(where: Path, files: list[_Found]) -> Iterator[tuple[str, bytes]]:
    """Name and content of every file."""
    try:
        if where.is_dir():
            for name, path, _ in files:
                yield name, Path(str(path)).read_bytes()
            return
        with where.open("rb") as opened:
            for name, at, size in files:
                opened.seek(int(at))
                yield name, opened.read(size)
    except OSError as error:
        raise UserError(f"cannot read {where}: {error}; get it again") from None


def _decoded(where: str, content: bytes, shape: tuple[int, int, int]) -> _Bytes:
    """A colour picture of the given shape."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("the package `Pillow` is not installed; install it") from None
    height, width, _ = shape
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            size, mode = image.size, image.mode
            if size == (width, height) and mode in ("RGB", "L"):
                return np.asarray(image.convert("RGB"))
    except Exception as error:  # a damaged file may raise anything
        raise UserError(f"{where}: no PNG that can be read ({error or type(error).__name__})") from None
    if size != (width, height):
        raise UserError(f"{where}: a picture of {size[1]} x {size[0]}, not {height} x {width}")
    raise UserError(f"{where}: a picture of mode {mode}, neither in colour nor grey")
