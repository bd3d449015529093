"""The data set MNIST: handwritten digits in idx files. Needs no torch."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from repro.data.data_set import Hub
from repro.data.sets.images.picture_sets import Bytes, Labelled, LabelledPictures, Splits, read_original
from repro.errors import UserError

_IDX = {"train": "train", "test": "t10k"}  # how MNIST's files call the splits


class Mnist(LabelledPictures):
    """MNIST's four original files."""

    def read(self, folder: Path) -> Splits:
        splits = {}
        for split, stem in _IDX.items():
            images = _read_idx(folder, f"{stem}-images-idx3-ubyte", self.shape[:2])
            labels = _read_idx(folder, f"{stem}-labels-idx1-ubyte", ())
            splits[split] = Labelled(images.reshape(-1, *self.shape), labels)
        return splits

    def contents(self, splits: Splits) -> Iterator[tuple[str, bytes]]:
        for split, stem in _IDX.items():
            yield f"{stem}-images-idx3-ubyte", _idx_content(splits[split].images[..., 0])
            yield f"{stem}-labels-idx1-ubyte", _idx_content(splits[split].labels)


def _read_idx(folder: Path, stem: str, item_shape: tuple[int, ...]) -> Bytes:
    """Items ``(N, *item_shape)``."""
    path, content = read_original(folder, stem)
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


MNIST = Mnist(
    name="mnist",
    title="MNIST: handwritten digits, 28 x 28, grey (LeCun, Cortes, Burges)",
    licence="Creative Commons Attribution-ShareAlike 3.0, as commonly stated for it",
    size="12 MB (55 MB unpacked), 60,000 training pictures",
    shape=(28, 28, 1),
    n_classes=10,
    columns=("image", "label"),
    hub=Hub("ylecun/mnist", splits={"train": "train", "test": "test"}),
    files=(
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ),
    sha256={
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
