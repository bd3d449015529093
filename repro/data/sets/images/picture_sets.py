"""Data sets of pictures with labels: MNIST and CIFAR-10, from their original files or the hub. Needs no torch."""

import io
import math
import struct
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from typing import Any, NamedTuple

import numpy as np

from repro.data.data_set import TEST, TRAIN, DataSet, Options
from repro.data.hub import download, on_hub, remedy
from repro.data.packed import find_packed, need_packed, read_packed, sha256_of
from repro.data.store import Manifest, StoreWriter
from repro.data.table import ColumnType
from repro.errors import UserError

IMAGES, LABELS = "images", "labels"
_UNPACKED = "cifar-10-batches-py"
_ARRAYS = {
    "_reconstruct": np.empty(0).__reduce__()[0], "_frombuffer": np.empty(0).__reduce_ex__(5)[0],
    "ndarray": np.ndarray, "dtype": np.dtype,
}  # fmt: skip
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Labelled(NamedTuple):
    """Pictures ``(N, H, W, C)`` and their classes ``(N,)``, both uint8."""

    images: Bytes
    labels: Bytes


Splits = dict[str, Labelled]


@dataclass(frozen=True, kw_only=True)
class PictureSet(DataSet):
    """Pictures of one shape with labels.

    A row of a store has ``images``, the pixels ``(H, W, C)``, and ``labels``, its class. The manifest's ``counts`` have
    the shape beside the number of pictures, and its ``source`` whatever is not as in the original:
    ``lossy_test_images``, how many test pictures are known to be copies of lesser quality, and ``unpinned``, contents
    whose hash nobody knew beforehand.

    Attributes:
        shape: height, width and channels of each.
        n_classes: classes they are labelled with.
        columns: names of picture and label on the hub.
        batches: files that the training pictures are published in, which have a hash each. The hub may have them in
            another order.
        lossy: SHA-256 of the test pictures of copies in which some are not the original ones, and how many.
    """

    parts: tuple[str, ...] = (IMAGES, LABELS)
    levels: tuple[str, ...] = ("pixels",)
    splits: tuple[str, ...] = (TRAIN, TEST)
    shape: tuple[int, int, int]
    n_classes: int
    columns: tuple[str, str]
    batches: int = 1
    lossy: dict[str, int] = field(default_factory=dict)

    @abstractmethod
    def read(self, folder: Path) -> Splits:
        """The pictures of the original files.

        Raises:
            UserError: a file is missing, damaged, or holds something else.
        """

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        if options.from_dir is None:
            source = on_hub(self)
            splits, origin = self._from_hub()
        else:
            source, origin = f"--from {options.from_dir}", self.origin()
            splits = self.read(options.from_dir)
        counts: dict[str, dict[str, Any]] = {}
        for split, (images, labels) in splits.items():
            if len(images) != len(labels) or not len(labels):
                raise UserError(f"{source}, {split}: {len(images):,} pictures and {len(labels):,} labels")
            writer.column(split, IMAGES, ColumnType("uint8", self.shape)).add(images)
            writer.column(split, LABELS, ColumnType("uint8")).add(labels)
            counts[split] = {"examples": len(labels), "shape": list(self.shape)}
        return self.manifest(variant, origin | self._compare(splits, source), counts, {})

    def _compare(self, splits: Splits, source: str) -> dict[str, Any]:
        """Compares every known hash; returns the facts about pictures that are not known to be the original."""
        facts: dict[str, Any] = {}
        for key, content in self._contents(splits):
            digest = sha256_of([content.tobytes()])
            if key in self.sha256:
                self.compare(key, digest, source)
            elif digest in self.lossy:
                facts["lossy_test_images"] = self.lossy[digest]
            else:
                facts.setdefault("unpinned", []).append(key)
        return facts

    def _contents(self, splits: Splits) -> Iterator[tuple[str, Bytes]]:
        for split, (images, labels) in splits.items():
            if split == TRAIN and self.batches > 1:
                parts = np.array_split(images, self.batches)
                yield from ((f"{split}-{IMAGES}-{n}", part) for n, part in enumerate(parts, 1))
            else:
                yield f"{split}-{IMAGES}", images
            yield f"{split}-{LABELS}", labels

    def _from_hub(self) -> tuple[Splits, dict[str, Any]]:
        downloaded, origin = download(self)
        image, label = self.columns
        splits = {
            split: Labelled(self._pixels(rows[image]), _classes(rows[label]))
            for split, rows in downloaded.items()
        }
        known = [self.sha256.get(f"{TRAIN}-{IMAGES}-{n}") for n in range(1, 1 + self.batches)]
        parts = [np.array_split(column, self.batches) for column in splits[TRAIN]]
        actual = [sha256_of([part.tobytes()]) for part in parts[0]]
        if set(known) == set(actual):
            order = [actual.index(str(digest)) for digest in known]
            splits[TRAIN] = Labelled(*(np.concatenate([part[n] for n in order]) for part in parts))
        return splits, origin

    def _pixels(self, column: Iterable[Any]) -> Bytes:
        """Pictures ``(N, H, W, C)`` of a column of the hub."""
        pictures: list[Bytes] = []
        try:
            pictures.extend(np.asarray(picture, np.uint8) for picture in column)
            return np.array(pictures).reshape(-1, *self.shape)
        except (ImportError, OSError, ValueError) as error:
            reason = f"picture {len(pictures)}: {error}"
            raise UserError(f"{on_hub(self)}, {reason:.160}; {remedy(self)}") from None


class Mnist(PictureSet):
    """MNIST's four original files."""

    def read(self, folder: Path) -> Splits:
        return {
            split: Labelled(
                _read_idx(folder, f"{stem}-images-idx3-ubyte", self.shape[:2]).reshape(-1, *self.shape),
                _read_idx(folder, f"{stem}-labels-idx1-ubyte", ()),
            )
            for split, stem in ((TRAIN, "train"), (TEST, "t10k"))
        }


def _read_idx(folder: Path, name: str, item_shape: tuple[int, ...]) -> Bytes:
    """Items ``(N, *item_shape)`` of a file with a header of big-endian numbers: magic, N and the item's shape."""
    path, content = _original(folder, name)
    n_axes = 1 + len(item_shape)
    begin = 4 + 4 * n_axes
    magic, n, *shape = struct.unpack_from(f">{1 + n_axes}I", content.ljust(begin, b"\0"))
    expected = begin + n * math.prod(item_shape)
    if (magic, *shape) != (0x0800 + n_axes, *item_shape) or len(content) != expected:
        raise UserError(
            f"{path}: {len(content):,} bytes with the header {(magic, n, *shape)}; {name} has the header "
            f"{(0x0800 + n_axes, 'N', *item_shape)} and as many bytes as that states; use the original file"
        )
    return np.frombuffer(content, np.uint8, offset=begin).reshape(n, *item_shape)


class Cifar10(PictureSet):
    """Flat bytes ``train-images-1.u8`` to ``5``, ``train-labels.u8`` and so on, or the original Python version."""

    def read(self, folder: Path) -> Splits:
        numbers = range(1, 1 + self.batches)
        if find_packed(folder, "train-images-1.u8"):
            train = np.concatenate([self._flat(folder, f"train-images-{n}") for n in numbers])
            labels = {split: _original(folder, f"{split}-labels.u8")[1] for split in self.splits}
            images = {TRAIN: train, TEST: self._flat(folder, "test-images")}
            return {
                split: Labelled(images[split], np.frombuffer(labels[split], np.uint8))
                for split in self.splits
            }
        below = folder / _UNPACKED
        folder = below if below.is_dir() else folder
        if not find_packed(folder, "data_batch_1"):
            raise UserError(
                f"--from {folder}: neither data_batch_1 (the original Python version, unpacked) nor train-images-1.u8"
            )
        parts = zip(*(self._pickled(folder, f"data_batch_{n}") for n in numbers), strict=True)
        return {TRAIN: Labelled(*map(np.concatenate, parts)), TEST: self._pickled(folder, "test_batch")}

    def _flat(self, folder: Path, stem: str) -> Bytes:
        """Pictures of a file that holds only pixels, channels last."""
        path, content = _original(folder, f"{stem}.u8")
        if len(content) % math.prod(self.shape):
            raise UserError(f"{path}: {len(content):,} bytes are not pictures of {self.shape}")
        return np.frombuffer(content, np.uint8).reshape(-1, *self.shape)

    def _pickled(self, folder: Path, name: str) -> Labelled:
        """Reads a file of the original Python version: all red values of a picture, then green, then blue."""
        path, content = _original(folder, name)
        height, width, channels = self.shape
        try:
            loaded = _Unpickler(io.BytesIO(content), encoding="latin1").load()
            batch = {key.decode() if isinstance(key, bytes) else key: value for key, value in loaded.items()}
            planes = np.asarray(batch["data"], np.uint8).reshape(-1, channels, height, width)
            return Labelled(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), _classes(batch["labels"]))
        except Exception as error:  # a damaged file may raise anything
            reason = " ".join(str(error).split()) or type(error).__name__
            raise UserError(f"cannot read {path}: {reason:.160}; get the original file") from None


class _Unpickler(Unpickler):
    """Loads plain values and NumPy arrays. A file that names anything else is refused, so none of its code runs."""

    def find_class(self, module: str, name: str) -> object:
        """The names in a pickled array: its constructors, its class, its type, and the encoding of its bytes."""
        if f"{module}.{name}" == "_codecs.encode":
            return str.encode
        if module.partition(".")[0] == "numpy" and name in _ARRAYS:
            return _ARRAYS[name]
        raise UnpicklingError(f"it refers to {module}.{name}")


def _original(folder: Path, name: str) -> tuple[Path, bytes]:
    """A file by its name, plain or packed, and its content."""
    path = need_packed(folder, name, "get the original files")
    return path, read_packed(path)


def _classes(labels: Iterable[int]) -> Bytes:
    """Labels in uint8, those out of its range as 255, which no class is."""
    return np.array(list(labels), np.int64).clip(-1, 255).astype(np.uint8)
