"""Common files of pictures: MNIST's idx files, CIFAR-10 as flat bytes or as its original pickles."""

import hashlib
import io
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from typing import Any, NamedTuple

import numpy as np

from repro.data.store.packed import find_packed, need_packed, read_packed
from repro.errors import UserError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
TRAIN_FILES = 5
_IDX = {"train": "train", "test": "t10k"}  # how MNIST's files call the splits
_UNPACKED = "cifar-10-batches-py"
_ARRAYS = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}


class Labelled(NamedTuple):
    """Pictures ``(N, H, W, C)`` and their classes ``(N,)``, both uint8."""

    images: Bytes
    labels: Bytes


Splits = dict[str, Labelled]
Shape = tuple[int, int, int]


def _open(folder: Path, name: str) -> tuple[Path, bytes]:
    path = need_packed(folder, name, "get the original files")
    return path, read_packed(path)


# --- MNIST ----------------------------------------------------------------------------------------------------------


def read_mnist(folder: Path, shape: Shape) -> Splits:
    """The four original files.

    Args:
        folder: with them.
        shape: of a picture.

    Raises:
        UserError: one is missing, damaged, or holds something else.
    """
    height, width, _ = shape
    splits = {}
    for split, stem in _IDX.items():
        images = _read_idx(folder, f"{stem}-images-idx3-ubyte", (height, width))
        labels = _read_idx(folder, f"{stem}-labels-idx1-ubyte", ())
        splits[split] = Labelled(images.reshape(-1, *shape), labels)
    return splits


def _read_idx(folder: Path, stem: str, item_shape: tuple[int, ...]) -> Bytes:
    """Items ``(N, *item_shape)``."""
    path, content = _open(folder, stem)
    axes = 1 + len(item_shape)
    header = 4 + 4 * axes
    magic, *shape = struct.unpack_from(f">{1 + axes}I", content.ljust(header, b"\0"))
    if magic != _magic(axes):
        raise UserError(
            f"{path}: begins with the number {magic}, {stem} begins with {_magic(axes)}; use the original file"
        )
    if tuple(shape[1:]) != item_shape:
        dimensions = " x ".join(map(str, shape[1:]))
        raise UserError(f"{path}: pictures of {dimensions}, not {' x '.join(map(str, item_shape))}")
    expected = header + int(np.prod(shape, dtype=object))
    if len(content) != expected:
        raise UserError(f"{path}: {len(content):,} bytes, its header says {expected:,}; get the file again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _magic(axes: int) -> int:
    return 0x0800 + axes  # 8: unsigned bytes


def _idx_content(items: Bytes) -> bytes:
    """The original file's bytes of some items ``(N, ...)``."""
    header = struct.pack(f">{1 + items.ndim}I", _magic(items.ndim), *items.shape)
    return header + items.tobytes()


def mnist_contents(splits: Splits) -> Iterator[tuple[str, bytes]]:
    """Contents of the four files by name."""
    for split, stem in _IDX.items():
        yield f"{stem}-images-idx3-ubyte", _idx_content(splits[split].images[..., 0])
        yield f"{stem}-labels-idx1-ubyte", _idx_content(splits[split].labels)


# --- CIFAR-10 -------------------------------------------------------------------------------------------------------


def read_cifar10(folder: Path, shape: Shape) -> Splits:
    """Flat bytes ``train-images-1.u8`` to ``5``, ``train-labels.u8`` and so on, or the original Python version.

    Args:
        folder: with either.
        shape: of a picture.

    Raises:
        UserError: neither is there, or a file is missing, damaged, or holds something else.
    """
    numbers = range(1, 1 + TRAIN_FILES)
    if find_packed(folder, "train-images-1.u8"):
        train = np.concatenate([_read_flat(folder, f"train-images-{n}", shape) for n in numbers])
        return {
            "train": Labelled(train, _read_labels(folder, "train-labels")),
            "test": Labelled(_read_flat(folder, "test-images", shape), _read_labels(folder, "test-labels")),
        }
    below = folder / _UNPACKED
    folder = below if below.is_dir() else folder
    if not find_packed(folder, "data_batch_1"):
        raise UserError(
            f"--from {folder}: neither data_batch_1 (the original Python version, unpacked) nor train-images-1.u8"
        )
    parts = [_read_pickle(folder, f"data_batch_{n}", shape) for n in numbers]
    images, labels = (np.concatenate(several) for several in zip(*parts, strict=True))
    return {"train": Labelled(images, labels), "test": _read_pickle(folder, "test_batch", shape)}


def _read_flat(folder: Path, stem: str, shape: Shape) -> Bytes:
    """Pictures of a file that holds only pixels, channels last."""
    path, content = _open(folder, f"{stem}.u8")
    size = int(np.prod(shape))
    if not content or len(content) % size:
        dimensions = " x ".join(map(str, shape))
        raise UserError(f"{path}: {len(content):,} bytes are not pictures of {dimensions} = {size:,}")
    return np.frombuffer(content, np.uint8).reshape(-1, *shape)


def _read_labels(folder: Path, stem: str) -> Bytes:
    return np.frombuffer(_open(folder, f"{stem}.u8")[1], np.uint8)


def _read_pickle(folder: Path, stem: str, shape: Shape) -> Labelled:
    """One file of the original Python version."""
    path, content = _open(folder, stem)
    height, width, channels = shape
    try:
        batch = _Unpickler(io.BytesIO(content), encoding="latin1").load()
    except Exception as error:  # a damaged file may raise anything
        raise UserError(f"cannot read {path}: {error or type(error).__name__}; get the file again") from None
    rows, labels = (batch.get(key) for key in ("data", "labels")) if isinstance(batch, dict) else (None, None)
    if not isinstance(rows, np.ndarray) or rows.dtype != np.uint8 or rows.shape[1:] != (math.prod(shape),):
        raise UserError(f"{path}: its data are not rows of {math.prod(shape):,} bytes; use the original file")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise UserError(f"{path}: its labels are not a list of numbers; use the original file")
    planes = rows.reshape(-1, channels, height, width)
    classes = np.array(labels, np.int64).clip(-1, 255).astype(np.uint8)
    return Labelled(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), classes)


class _Unpickler(Unpickler):
    """Loads plain values and NumPy arrays. A file that names anything else is refused, so none of its code runs."""

    def find_class(self, module: str, name: str) -> Any:
        """The names in a pickled array: its constructor, its class, its type, and the encoding of its bytes."""
        if f"{module}.{name}" == "_codecs.encode":
            return str.encode
        if module.partition(".")[0] == "numpy" and name in _ARRAYS:
            return _ARRAYS[name]
        raise UnpicklingError(f"it names {module}.{name}")


def cifar10_contents(splits: Splits) -> Iterator[tuple[str, bytes]]:
    """Contents of the flat files by name."""
    for n, part in enumerate(np.array_split(splits["train"].images, TRAIN_FILES), 1):
        yield f"train-images-{n}", part.tobytes()
    yield "train-labels", splits["train"].labels.tobytes()
    yield "test-images", splits["test"].images.tobytes()
    yield "test-labels", splits["test"].labels.tobytes()


def in_file_order(hashes: Mapping[str, str], train: Labelled) -> Labelled:
    """Puts the five files of training pictures of CIFAR-10 into their order; leaves other data unchanged.

    Args:
        hashes: known SHA-256 of each.
        train: the pictures of all five.
    """
    parts = np.array_split(train.images, TRAIN_FILES)
    known = [hashes.get(f"train-images-{n}") for n in range(1, 1 + TRAIN_FILES)]
    actual = [hashlib.sha256(part.tobytes()).hexdigest() for part in parts]
    if set(known) != set(actual):
        return train
    order = [actual.index(str(digest)) for digest in known]
    labels = np.array_split(train.labels, TRAIN_FILES)
    return Labelled(np.concatenate([parts[n] for n in order]), np.concatenate([labels[n] for n in order]))
