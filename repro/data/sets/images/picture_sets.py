"""Common parts of data sets of pictures, and those with labels, a split of which is read at once. Needs no torch."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from repro.data.data_set import OneStore
from repro.data.hub import download, on_hub, remedy
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import need_packed, read_packed, sha256_of
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter

IMAGES, LABELS = "images", "labels"
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Labelled(NamedTuple):
    """Pictures ``(N, H, W, C)`` and their classes ``(N,)``, both uint8."""

    images: Bytes
    labels: Bytes


Splits = dict[str, Labelled]


@dataclass(frozen=True, kw_only=True)
class PictureSet(OneStore):
    """Pictures of one shape.

    A row of a store has ``images``, the pixels ``(H, W, C)``, and ``labels``, its class, where there are classes. The
    manifest's ``counts`` have the shape beside the number of pictures, and its ``source`` whatever is not as in the
    original: ``lossy_test_images``, how many test pictures are known to be copies of lesser quality, and ``unpinned``,
    contents whose hash nobody knew beforehand.

    Attributes:
        shape: height, width and channels of each.
        n_classes: classes they are labelled with; 0 where they have no labels.
    """

    parts: tuple[str, ...] = (IMAGES, LABELS)
    levels: tuple[str, ...] = ("pixels",)
    splits: tuple[str, ...] = ("train", "test")
    shape: tuple[int, int, int]
    n_classes: int = 0


@dataclass(frozen=True, kw_only=True)
class LabelledPictures(PictureSet):
    """Pictures with labels.

    Attributes:
        columns: names of picture and label on the hub.
        lossy: SHA-256 of the test pictures of copies in which some are not the original ones, and how many.
    """

    columns: tuple[str, str]
    lossy: dict[str, int] = field(default_factory=dict)

    @abstractmethod
    def read(self, folder: Path) -> Splits:
        """The pictures of the original files.

        Raises:
            UserError: a file is missing, damaged, or holds something else.
        """

    @abstractmethod
    def contents(self, splits: Splits) -> Iterator[tuple[str, bytes]]:
        """Contents of the known files if they had these pictures, by key."""

    def arranged(self, splits: Splits) -> Splits:
        """The pictures of the hub in the order of the original files."""
        return splits

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        from repro.data.table import ColumnType

        if options.from_dir is None:
            where = on_hub(self)
            splits, origin = self._from_hub()
        else:
            where, origin = f"--from {options.from_dir}", self.origin()
            splits = self.read(options.from_dir)
        for split, pictures in splits.items():
            self._check(f"{where}, {split}", pictures)
        origin.update(self._compare(splits, where))
        counts: dict[str, dict[str, Any]] = {}
        for split, pictures in splits.items():
            writer.column(split, IMAGES, ColumnType("uint8", self.shape)).add(pictures.images)
            writer.column(split, LABELS, ColumnType("uint8")).add(pictures.labels)
            counts[split] = {"examples": len(pictures.labels), "shape": list(self.shape)}
        return self.manifest(variant, origin, counts, {})

    def _from_hub(self) -> tuple[Splits, dict[str, Any]]:
        downloaded, origin = download(self)
        image, label = self.columns
        splits = {}
        for split, rows in downloaded.items():
            labels = np.array(list(rows[label]), np.int64).clip(-1, 255).astype(np.uint8)
            splits[split] = Labelled(self._pixels(rows[image]), labels)
        return self.arranged(splits), origin

    def _pixels(self, column: Iterable[object]) -> Bytes:
        """Pictures ``(N, H, W, C)`` of a column of the hub."""
        shape, where = self.shape, on_hub(self)
        pictures: list[Bytes] = []
        try:
            for picture in column:
                pictures.append(np.asarray(picture))  # noqa: PERF401  # a bad one is named by its number
        except ImportError:
            raise UserError(f"the package `Pillow` is not installed; install it, or {remedy(self)}") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{where}: picture {len(pictures)}: {error}") from None
        for n, array in enumerate(pictures):
            if array.dtype != np.uint8 or array.shape not in (shape, shape[:2] if shape[2] == 1 else shape):
                raise UserError(f"{where}: picture {n} has {array.shape} {array.dtype}, not {shape}")
        return np.stack(pictures).reshape(-1, *shape) if pictures else np.zeros((0, *shape), np.uint8)

    def _check(self, where: str, pictures: Labelled) -> None:
        if len(pictures.images) != len(pictures.labels) or not len(pictures.labels):
            raise UserError(f"{where}: {len(pictures.images):,} pictures and {len(pictures.labels):,} labels")
        wrong = np.flatnonzero(pictures.labels >= self.n_classes)
        if len(wrong):
            example = f"label {pictures.labels[wrong[0]]} of picture {wrong[0]}"
            raise UserError(f"{where}: {example} is not below {self.n_classes}; use the original files")

    def _compare(self, splits: Splits, where: str) -> dict[str, Any]:
        """Compares every known hash; returns the facts about pictures that are not known to be the original."""
        lossy, unpinned = 0, []
        for key, content in self.contents(splits):
            digest = sha256_of([content])
            if key in self.sha256:
                self.compare(key, digest, where)
            elif digest in self.lossy:
                lossy += self.lossy[digest]
            else:
                unpinned.append(key)
        facts: dict[str, Any] = {"lossy_test_images": lossy} if lossy else {}
        return {**facts, "unpinned": unpinned} if unpinned else facts


def read_original(folder: Path, name: str) -> tuple[Path, bytes]:
    """A file by its name, plain or packed, and its content."""
    path = need_packed(folder, name, "get the original files")
    return path, read_packed(path)
