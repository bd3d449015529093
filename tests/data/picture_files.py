"""Small pictures, and the files that people have them in."""

import dataclasses
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

from repro.data import registry
from repro.data.data_set import Options
from repro.data.prepare import open_store
from repro.data.registry import DATA_SETS
from repro.data.sets.images.picture_sets import Bytes, Labelled, PictureSet, Splits
from repro.data.store import Store, make_store

SIZES = {"train": 15, "test": 4}


def known(name: str) -> PictureSet:
    """The registry's entry."""
    result = DATA_SETS[name]
    assert isinstance(result, PictureSet)
    return result


def pictures(name: str) -> Splits:
    """Random pictures in the shape of a data set, the same at each call."""
    rng = np.random.default_rng(3)
    return {
        split: Labelled(
            rng.integers(0, 256, (n, *known(name).shape), np.uint8), rng.integers(0, 10, n).astype(np.uint8)
        )
        for split, n in SIZES.items()
    }


def idx(items: Bytes, magic: int) -> bytes:
    """An idx file, written out by hand."""
    return struct.pack(f">{1 + items.ndim}i", magic, *items.shape) + items.tobytes()


def write_mnist(folder: Path, splits: Splits) -> None:
    folder.mkdir(exist_ok=True)
    for split, stem in (("train", "train"), ("test", "t10k")):
        (folder / f"{stem}-images-idx3-ubyte").write_bytes(idx(splits[split].images[..., 0], 2051))
        (folder / f"{stem}-labels-idx1-ubyte").write_bytes(idx(splits[split].labels, 2049))


def write_flat(folder: Path, splits: Splits) -> None:
    """CIFAR-10 as flat bytes, five files of training pictures."""
    folder.mkdir(exist_ok=True)
    train, test = splits["train"], splits["test"]
    for n in range(5):
        (folder / f"train-images-{n + 1}.u8").write_bytes(train.images[3 * n : 3 * n + 3].tobytes())
    (folder / "train-labels.u8").write_bytes(train.labels.tobytes())
    (folder / "test-images.u8").write_bytes(test.images.tobytes())
    (folder / "test-labels.u8").write_bytes(test.labels.tobytes())


def batch_of(images: Bytes, labels: Bytes) -> dict[str, object]:
    """Returns the content of a pickle of the original Python version: a picture's red values, then green, then blue."""
    rows = [np.concatenate([one[:, :, channel].ravel() for channel in range(3)]) for one in images]
    return {"batch_label": "some", "labels": [int(one) for one in labels], "data": np.stack(rows)}


def write_pickles(folder: Path, splits: Splits, protocol: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    train, test = splits["train"], splits["test"]
    for n in range(5):
        part = batch_of(train.images[3 * n : 3 * n + 3], train.labels[3 * n : 3 * n + 3])
        (folder / f"data_batch_{n + 1}").write_bytes(pickle.dumps(part, protocol=protocol))
    (folder / "test_batch").write_bytes(pickle.dumps(batch_of(*test), protocol=protocol))


WRITERS = {"mnist": write_mnist, "cifar10": write_flat}


def unpinned(monkeypatch: pytest.MonkeyPatch, name: str, **changed: object) -> PictureSet:
    """The registry's entry, knowing no hashes or the given ones."""
    changed_set = dataclasses.replace(known(name), **{"sha256": {}, **changed})  # type: ignore[arg-type]
    monkeypatch.setitem(registry.DATA_SETS, name, changed_set)
    return changed_set


def filled(data_set: PictureSet, folder: Path | None) -> Store:
    """The store of a data set."""
    options = Options(from_dir=folder)
    make_store(
        data_set.name, "pixels", lambda writer: data_set.fill(writer, "pixels", options), lambda: False
    )
    return open_store(data_set.name, "pixels")


def small_store(monkeypatch: pytest.MonkeyPatch, name: str, folder: Path) -> Splits:
    """Makes a store of small splits and says what is in it."""
    splits = pictures(name)
    WRITERS[name](folder, splits)
    filled(unpinned(monkeypatch, name), folder)
    return splits
