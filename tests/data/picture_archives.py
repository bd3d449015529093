"""Small archives of colour pictures as PNG files: tars in any order, and the same unpacked."""

import dataclasses
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from repro.data import registry
from repro.data.options import Options
from repro.data.prepare import open_store
from repro.data.registry import DATA_SETS
from repro.data.sets.images.imagenet64 import PictureArchives
from repro.data.sets.images.picture_sets import Bytes
from repro.data.store import Store, make_store

NAME = "imagenet64"
ARCHIVES = {"train": "train_64x64", "val": "valid_64x64"}
SIZES = {"train": 6, "val": 3}
Archives = dict[str, Bytes]


def archived() -> Archives:
    """Random pictures of every split, the same at each call."""
    rng = np.random.default_rng(5)
    return {split: rng.integers(0, 256, (n, 64, 64, 3), np.uint8) for split, n in SIZES.items()}


def png(pixels: Bytes, mode: str | None = None) -> bytes:
    """A PNG file of ``(H, W, C)`` or ``(H, W)``."""
    written, image = io.BytesIO(), Image.fromarray(pixels)
    (image.convert(mode) if mode else image).save(written, "png")
    return written.getvalue()


def files_of(split: str, images: Bytes) -> dict[str, bytes]:
    """Names and contents, the last picture first as in the published archives, which are in no order."""
    stem = ARCHIVES[split]
    return {f"{stem}/{n:05d}.png": png(images[n - 1]) for n in range(len(images), 0, -1)}


def write_tar(folder: Path, split: str, files: dict[str, bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{ARCHIVES[split]}.tar"
    with tarfile.open(path, "w") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return path


def write_unpacked(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The data set has as few pictures as there are here."""
    monkeypatch.setitem(registry.DATA_SETS, NAME, dataclasses.replace(known(), examples=SIZES))


def known() -> PictureArchives:
    """The registry's entry."""
    found = DATA_SETS[NAME]
    assert isinstance(found, PictureArchives)
    return found


def filled(folder: Path) -> Store:
    """The store of the archives in a folder."""
    options = Options(from_dir=folder)
    make_store(NAME, "pixels", lambda writer: known().fill(writer, "pixels", options), lambda: False)
    return open_store(NAME, "pixels")


def small_archives(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Archives:
    """Makes a store of small splits and says what is in it."""
    few(monkeypatch)
    images = archived()
    for split, some in images.items():
        write_tar(folder, split, files_of(split, some))
    filled(folder)
    return images
