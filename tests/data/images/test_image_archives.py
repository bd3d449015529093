"""Archives of PNG files become a store without labels: tars and folders, their order; and every refusal."""

import dataclasses
import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from repro.data import PatchData, registry
from repro.data.prepare import list_sources, open_store, prepare
from repro.data.sets.images.imagenet64 import read_archive
from repro.data.store import Store, verify
from repro.errors import UserError
from tests.data.picture_archives import (
    NAME,
    Archives,
    archived,
    few,
    files_of,
    filled,
    known,
    png,
    write_tar,
    write_unpacked,
)

PIXELS = archived()["train"]


@pytest.fixture
def folder(tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small tars."""
    few(monkeypatch)
    for split, images in archived().items():
        write_tar(tmp_path / "files", split, files_of(split, images))
    return tmp_path / "files"


def check_holds(store: Store, images: Archives) -> None:
    for split, some in images.items():
        assert np.array_equal(store.values(split, "images"), some)


def test_tars_become_a_store_in_the_order_of_names(folder: Path) -> None:
    store = filled(folder)
    check_holds(store, archived())
    assert store.manifest.counts == {
        "train": {"examples": 6, "shape": [64, 64, 3]},
        "val": {"examples": 3, "shape": [64, 64, 3]},
    }
    assert store.split("test") == "val"
    assert {split: list(names) for split, names in store.manifest.columns.items()} == {
        "train": ["images"], "val": ["images"],
    }, "no labels"  # fmt: skip
    assert store.manifest.source["unpinned"] == ["train-images", "val-images"]
    verify(store)


def test_unpacked_folders_make_the_same_store(folder: Path, tmp_path: Path) -> None:
    expected = filled(folder).manifest.files
    for split, images in archived().items():
        write_unpacked(tmp_path / "unpacked", files_of(split, images))
    assert filled(tmp_path / "unpacked").manifest.files == expected


def test_the_command_makes_it(folder: Path) -> None:
    with pytest.raises(UserError, match=r"\(train_64x64\.tar, valid"):
        prepare(NAME)
    said: list[str] = []
    prepare(NAME, from_dir=folder, say=said.append)
    check_holds(open_store(NAME, "pixels"), archived())
    assert said == ["made imagenet64/pixels: train 6, val 3"]
    (line,) = [one for one in list_sources() if one["name"] == NAME]
    assert (line["obtained"], line["revision"], line["stores"]) == ("--from", "-", ["pixels"])


def test_other_files_in_an_archive_are_passed_over_and_grey_is_a_colour(folder: Path) -> None:
    files = files_of("val", archived()["val"])
    name = next(iter(files))
    grey = PIXELS[0, :, :, 0]
    files |= {"valid_64x64/._00001.png": b"a resource fork", "readme.txt": b"text", name: png(grey)}
    write_tar(folder, "val", files)
    images = list(read_archive(known(), folder, "val"))
    assert np.array_equal(images[2], np.repeat(grey[:, :, None], 3, axis=2))
    assert np.array_equal(images[0], archived()["val"][0])


def test_pictures_are_read_one_by_one(folder: Path) -> None:
    """A bad last picture shows only when its turn comes."""
    files = files_of("train", PIXELS)
    files["train_64x64/00006.png"] = b"no picture"
    write_tar(folder, "train", files)
    reading = read_archive(known(), folder, "train")
    for image in PIXELS[:5]:
        assert np.array_equal(next(reading), image)
    with pytest.raises(UserError, match=r"00006\.png: no PNG"):
        next(reading)


def test_known_hashes_are_compared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = {
        f"{split}-images": hashlib.sha256(images.tobytes()).hexdigest()
        for split, images in archived().items()
    }
    monkeypatch.setitem(registry.DATA_SETS, NAME, dataclasses.replace(known(), sha256=hashes))
    assert "unpinned" not in filled(folder).manifest.source
    changed = archived()["val"].copy()
    changed[0, 0, 0, 0] ^= 1
    write_tar(folder, "val", files_of("val", changed))
    with pytest.raises(UserError, match=r"imagenet64 val-images is"):
        filled(folder)


def changed_to(content: bytes) -> dict[str, bytes]:
    return {**files_of("train", PIXELS), "train_64x64/00002.png": content}


Change = Callable[[Path], object]
REFUSED: list[tuple[Change, str]] = [
    (lambda f: (f / "train_64x64.tar").unlink(), r"neither train_64x64\.tar .* nor a folder train_64x64"),
    (lambda f: write_tar(f, "train", files_of("train", PIXELS[:5])), "5 pictures, imagenet64 has 6 in train"),
    (
        lambda f: write_tar(f, "train", changed_to(png(np.zeros((64, 32, 3), np.uint8)))),
        r"train_64x64\.tar, 00002\.png: a picture of 64 x 32, not 64 x 64",
    ),
    (
        lambda f: write_tar(f, "train", changed_to(png(PIXELS[0], "RGBA"))),
        r"00002\.png: a picture of mode RGBA, neither in colour nor grey",
    ),
    (
        lambda f: write_tar(f, "train", changed_to(png(PIXELS[0])[:-900])),
        r"00002\.png: no PNG that can be read",
    ),
    (lambda f: (f / "train_64x64.tar").write_bytes(b"no tar" * 200), r"cannot read .*train_64x64\.tar"),
    (
        lambda f: (f / "train_64x64.tar").write_bytes((f / "train_64x64.tar").read_bytes()[:20_000]),
        r"cannot read .*train_64x64\.tar: unexpected end of data",
    ),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_cannot_be_is_refused_in_one_line(
    folder: Path, data_folder: Path, change: Change, said: str
) -> None:
    change(folder)
    with pytest.raises(UserError, match=said) as caught:
        filled(folder)
    assert "\n" not in str(caught.value)
    assert not list(data_folder.glob("*/*")), "something was left behind"


def test_no_such_folder(tmp_path: Path, data_folder: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        prepare(NAME, tmp_path / "none")


def test_classifiers_are_refused() -> None:
    with pytest.raises(UserError, match="the pictures of imagenet64 have no classes to tell apart"):
        PatchData(NAME, 4)
