"""The data set ImageNet at 64 x 64: archives of many small picture files, read one picture at a time. Needs no torch.

An archive is a tar of PNG files, or the unpacked folder.
"""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.sets.images.picture_sets import IMAGES, Bytes, PictureSet
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter

_END = ".png"


@dataclass(frozen=True, kw_only=True)
class PictureArchives(PictureSet):
    """Pictures without labels in archives, of which no more than one is ever in memory.

    Attributes:
        archives: the name of the archive of each split, without the end.
        examples: how many pictures each has.
    """

    parts: tuple[str, ...] = (IMAGES,)
    archives: dict[str, str]
    examples: dict[str, int]

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from tqdm import tqdm

        from repro.data.table import ColumnType

        counts: dict[str, dict[str, Any]] = {}
        unpinned = []
        for split in self.splits:
            column = writer.column(split, IMAGES, ColumnType("uint8", self.shape))
            images = read_archive(self, options.folder, split)
            # a progress bar only on a terminal
            for image in tqdm(images, split, self.examples[split], unit=" pictures", disable=None):
                column.add(image[None])
            key = f"{split}-images"
            self.compare(key, column.facts()["sha256"], f"--from {options.folder}")
            unpinned += [] if key in self.sha256 else [key]
            counts[split] = {"examples": column.rows, "shape": list(self.shape)}
        origin = self.origin(unpinned=unpinned) if unpinned else self.origin()
        return self.manifest(variant, origin, counts, {})


class _Found(NamedTuple):
    """A picture's file: its name without folders; where it begins in the archive, or its path; its size."""

    name: str
    at: int | str
    size: int


def read_archive(data_set: PictureArchives, folder: Path, split: str) -> Iterator[Bytes]:
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


def _decoded(where: str, content: bytes, shape: tuple[int, int, int]) -> Bytes:
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


IMAGENET64 = PictureArchives(
    name="imagenet64",
    title="downsampled ImageNet, 64 x 64, in colour, without labels (van den Oord et al. 2016)",
    licence="ImageNet's terms: research, non-commercial; the pictures belong to their owners",
    size="12 GB (16 GB unpacked), 1,281,149 training pictures",
    shape=(64, 64, 3),
    archives={"train": "train_64x64", "val": "valid_64x64"},
    examples={"train": 1_281_149, "val": 49_999},
    splits=("train", "val"),
    aliases={"test": "val"},
    files=("train_64x64.tar", "valid_64x64.tar"),
)
