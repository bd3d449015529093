"""The data set CIFAR-10: as flat bytes, or as its original pickles. Needs no torch."""

import hashlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from typing import Any

import numpy as np

from repro.data.data_set import Hub
from repro.data.packed import find_packed
from repro.data.sets.images.picture_sets import Bytes, Labelled, LabelledPictures, Splits, read_original
from repro.errors import UserError

TRAIN_FILES = 5
_NUMBERS = range(1, 1 + TRAIN_FILES)
_UNPACKED = "cifar-10-batches-py"
_ARRAYS = {"_reconstruct": np.empty(0).__reduce__()[0], "ndarray": np.ndarray, "dtype": np.dtype}
Shape = tuple[int, int, int]


class Cifar10(LabelledPictures):
    """Flat bytes ``train-images-1.u8`` to ``5``, ``train-labels.u8`` and so on, or the original Python version."""

    def read(self, folder: Path) -> Splits:
        shape = self.shape
        if find_packed(folder, "train-images-1.u8"):
            train = np.concatenate([_read_flat(folder, f"train-images-{n}", shape) for n in _NUMBERS])
            test = _read_flat(folder, "test-images", shape)
            return {
                "train": Labelled(train, _read_labels(folder, "train-labels")),
                "test": Labelled(test, _read_labels(folder, "test-labels")),
            }
        below = folder / _UNPACKED
        folder = below if below.is_dir() else folder
        if not find_packed(folder, "data_batch_1"):
            raise UserError(
                f"--from {folder}: neither data_batch_1 (the original Python version, unpacked) nor train-images-1.u8"
            )
        parts = [_read_pickle(folder, f"data_batch_{n}", shape) for n in _NUMBERS]
        images, labels = (np.concatenate(several) for several in zip(*parts, strict=True))
        return {"train": Labelled(images, labels), "test": _read_pickle(folder, "test_batch", shape)}

    def contents(self, splits: Splits) -> Iterator[tuple[str, bytes]]:
        for n, part in enumerate(np.array_split(splits["train"].images, TRAIN_FILES), 1):
            yield f"train-images-{n}", part.tobytes()
        yield "train-labels", splits["train"].labels.tobytes()
        yield "test-images", splits["test"].images.tobytes()
        yield "test-labels", splits["test"].labels.tobytes()

    def arranged(self, splits: Splits) -> Splits:
        """Puts the five files of training pictures into their order; the hub has them as they lay in an archive."""
        train = splits["train"]
        parts = np.array_split(train.images, TRAIN_FILES)
        known = [self.sha256.get(f"train-images-{n}") for n in _NUMBERS]
        actual = [hashlib.sha256(part.tobytes()).hexdigest() for part in parts]
        if set(known) != set(actual):
            return splits
        order = [actual.index(str(digest)) for digest in known]
        labels = np.array_split(train.labels, TRAIN_FILES)
        images = np.concatenate([parts[n] for n in order])
        return {**splits, "train": Labelled(images, np.concatenate([labels[n] for n in order]))}


def _read_flat(folder: Path, stem: str, shape: Shape) -> Bytes:
    """Pictures of a file that holds only pixels, channels last."""
    path, content = read_original(folder, f"{stem}.u8")
    size = int(np.prod(shape))
    if not content or len(content) % size:
        dimensions = " x ".join(map(str, shape))
        raise UserError(f"{path}: {len(content):,} bytes are not pictures of {dimensions} = {size:,}")
    return np.frombuffer(content, np.uint8).reshape(-1, *shape)


def _read_labels(folder: Path, stem: str) -> Bytes:
    return np.frombuffer(read_original(folder, f"{stem}.u8")[1], np.uint8)


def _read_pickle(folder: Path, stem: str, shape: Shape) -> Labelled:
    """One file of the original Python version."""
    path, content = read_original(folder, stem)
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


CIFAR10 = Cifar10(
    name="cifar10",
    title="CIFAR-10: photographs of ten things, 32 x 32, in colour (Krizhevsky 2009)",
    licence="none stated by its maker; cite Krizhevsky 2009",
    size="170 MB (185 MB unpacked), 50,000 training pictures",
    shape=(32, 32, 3),
    n_classes=10,
    columns=("img", "label"),
    lossy={"4674ac8c77f372061aaf9216c8857c99599d5df0bb9f6b16a3de613ef8eb348a": 23},
    hub=Hub("uoft-cs/cifar10", splits={"train": "train", "test": "test"}),
    files=(*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"),
    sha256={
        "train-images-1": "fc115a3de050d667b88cbd5b0b9612ebf996c54230fe7758f3a14bb5af9a1c27",
        "train-images-2": "89e609b642f687bc796fa3bfa4211005582a0e8131d463d996d11ddb297d312e",
        "train-images-3": "93a365823e61729490a8801d80864ccd0ab1e8c98f19d71af65644d1c5f1486e",
        "train-images-4": "809eb95ecd057a36516318f5023ea619009dd70dd38193db9da43125a928e6fa",
        "train-images-5": "d05b7d66d216d6df882cc760cdc0ff2f1f0437abf699ed16005c021ef0add9cb",
        "train-labels": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
        "test-labels": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
    },
)
