"""Stores of pictures: from the files of MNIST and CIFAR-10, from the hub (a stand-in); and every refusal."""

import gzip
import hashlib
import lzma
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from repro.data.sets.images.picture_sets import Splits
from repro.data.store import Store, verify
from repro.errors import UserError
from tests.data.picture_files import (
    batch_of,
    filled,
    idx,
    pictures,
    unpinned,
    write_flat,
    write_mnist,
    write_pickles,
)
from tests.data.picture_files import known as entry

MNIST = ("train-images", "train-labels", "test-images", "test-labels")
FILES = tuple(f"{stem}-{kind}-ubyte" for stem in ("train", "t10k") for kind in ("images-idx3", "labels-idx1"))


@pytest.fixture
def mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small idx files, of which no hash is known."""
    unpinned(monkeypatch, "mnist")
    write_mnist(tmp_path / "files", pictures("mnist"))
    return tmp_path / "files"


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with small flat files, of which no hash is known."""
    unpinned(monkeypatch, "cifar10")
    write_flat(tmp_path / "files", pictures("cifar10"))
    return tmp_path / "files"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def known(folder: Path) -> dict[str, str]:
    return {path.name.removesuffix(".u8"): sha256(path.read_bytes()) for path in folder.iterdir()}


def known_pixels(splits: Splits) -> dict[str, str]:
    contents = {
        f"{split}-{part}": getattr(one, part) for split, one in splits.items() for part in one._fields
    }
    return {key: sha256(content.tobytes()) for key, content in contents.items()}


def check_holds(store: Store, splits: Splits) -> None:
    for split, (images, labels) in splits.items():
        assert np.array_equal(store.values(split, "images"), images)
        assert np.array_equal(store.values(split, "labels"), labels)
        assert store.manifest.counts[split] == {"examples": len(labels), "shape": list(images.shape[1:])}
    assert set(store.manifest.counts) == set(splits)
    verify(store)


@pytest.mark.parametrize(("pack", "end"), [(bytes, ""), (gzip.compress, ".gz"), (lzma.compress, ".xz")])
def test_idx_files_become_a_store(data_folder: Path, mnist: Path, pack: Any, end: str) -> None:
    for path in list(mnist.iterdir()):
        content = path.read_bytes()
        path.unlink()
        (mnist / f"{path.name}{end}").write_bytes(pack(content))
    store = filled(entry("mnist"), mnist)
    check_holds(store, pictures("mnist"))
    manifest = store.manifest
    assert (manifest.parts, manifest.tokenizer, manifest.missing_splits) == (["images", "labels"], {}, [])
    origin = {"kind": "files", "id": "ylecun/mnist", "revision": None}
    assert manifest.source == {**origin, "unpinned": list(MNIST)}


def test_known_hashes_are_compared(data_folder: Path, mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = unpinned(monkeypatch, "mnist", sha256=known_pixels(pictures("mnist")))
    assert "unpinned" not in filled(source, mnist).manifest.source
    for key, name in zip(MNIST, FILES, strict=True):
        path = mnist / name
        content = path.read_bytes()
        changed = bytearray(content)
        changed[-1] = (changed[-1] + 1) % 10
        path.write_bytes(changed)
        with pytest.raises(UserError, match=rf"mnist {key} is"):
            filled(source, mnist)
        path.write_bytes(content)


IMAGES = pictures("mnist")["train"].images[..., 0]
LABELS = pictures("mnist")["train"].labels


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        (FILES[2], None, rf"no {FILES[2]}, plain or"),
        (FILES[0], idx(LABELS, 2049), r"header \(2049, .* has the header \(2051, 'N', 28, 28\)"),
        (FILES[1], idx(IMAGES, 2051), r"header \(2051, .* has the header \(2049, 'N'\)"),
        (FILES[0], b"\0\0", r"header \(0, 0, 0, 0\)"),
        (FILES[0], b"", r"header \(0, 0, 0, 0\)"),
        (FILES[0], idx(IMAGES, 2051)[:10], r"header \(2051, 15, [0-9]+, 0\)"),
        (FILES[0], idx(np.zeros((15, 32, 32), np.uint8), 2051), r"header \(2051, 15, 32, 32\)"),
        (FILES[0], idx(IMAGES, 2051)[:-1], r"11,775 bytes with the header"),
        (FILES[0], idx(IMAGES, 2051) + b"\0", r"11,777 bytes with the header"),
        (FILES[0], idx(IMAGES[:-1], 2051), r"train: 14 pictures and 15 labels"),
        (FILES[1], idx(LABELS[:-2], 2049), r"train: 15 pictures and 13 labels"),
        (f"{FILES[0]}.gz", gzip.compress(idx(IMAGES, 2051), mtime=0)[:-20], rf"cannot read .*{FILES[0]}\.gz"),
        (f"{FILES[0]}.gz", b"no gzip", rf"cannot read .*{FILES[0]}\.gz"),
        (f"{FILES[0]}.xz", lzma.compress(idx(IMAGES, 2051))[:-20], rf"cannot read .*{FILES[0]}\.xz"),
    ],
)
def test_bad_idx_files_are_named(
    data_folder: Path, mnist: Path, name: str, written: bytes | None, message: str
) -> None:
    (mnist / name.removesuffix(".gz").removesuffix(".xz")).unlink()
    if written is not None:
        (mnist / name).write_bytes(written)
    with pytest.raises(UserError, match=message) as caught:
        filled(entry("mnist"), mnist)
    assert "\n" not in str(caught.value)
    assert not list(data_folder.glob("*/*")), "something was left behind"


def test_splits_without_a_picture_are_refused(data_folder: Path, mnist: Path) -> None:
    (mnist / FILES[2]).write_bytes(idx(IMAGES[:0], 2051))
    (mnist / FILES[3]).write_bytes(idx(LABELS[:0], 2049))
    with pytest.raises(UserError, match=r"test: 0.*0 labels"):
        filled(entry("mnist"), mnist)


# --- CIFAR-10 -------------------------------------------------------------------------------------------------------


def test_flat_files_become_a_store(data_folder: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = cifar / "train-images-2.u8"
    (cifar / "train-images-2.u8.xz").write_bytes(lzma.compress(packed.read_bytes()))
    hashes = known(cifar)
    packed.unlink()
    del hashes["test-images"], hashes["train-images-2.u8.xz"]
    source = unpinned(monkeypatch, "cifar10", sha256=hashes)
    store = filled(source, cifar)
    check_holds(store, pictures("cifar10"))
    assert store.manifest.source["unpinned"] == ["test-images"]
    assert "lossy_test_images" not in store.manifest.source
    a, b = (cifar / f"train-images-{n}.u8" for n in (3, 4))
    content = a.read_bytes(), b.read_bytes()
    a.write_bytes(content[1])
    b.write_bytes(content[0])
    with pytest.raises(UserError, match="cifar10 train-images-3 is"):
        filled(source, cifar)


def test_the_copy_with_lossy_test_pictures_says_so(
    data_folder: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = sha256((cifar / "test-images.u8").read_bytes())
    copy = unpinned(monkeypatch, "cifar10", lossy={digest: 2})
    origin = filled(copy, cifar).manifest.source
    assert origin["lossy_test_images"] == 2
    assert "test-images" not in origin["unpinned"]


@pytest.mark.parametrize("below", ["", "cifar-10-batches-py"])
def test_the_original_pickles_make_the_same_store(
    data_folder: Path, cifar: Path, tmp_path: Path, below: str
) -> None:
    expected = filled(entry("cifar10"), cifar).manifest.files
    write_pickles(tmp_path / "pickles" / below, pictures("cifar10"))
    assert filled(entry("cifar10"), tmp_path / "pickles").manifest.files == expected


@pytest.mark.parametrize("in_bytes", [False, True])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_pickles_that_were_written_again_make_the_same_store(
    data_folder: Path, cifar: Path, tmp_path: Path, protocol: int, in_bytes: bool
) -> None:
    expected = filled(entry("cifar10"), cifar).manifest.files
    write_pickles(tmp_path / "pickles", pictures("cifar10"), protocol)
    for path in (tmp_path / "pickles").iterdir() if in_bytes else ():  # as read with encoding="bytes"
        batch = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps({key.encode(): value for key, value in batch.items()}, protocol))
    assert filled(entry("cifar10"), tmp_path / "pickles").manifest.files == expected


def test_a_pickle_of_python_2_is_read(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The original files: protocol 2, strings of bytes, arrays of ``numpy.core.multiarray``."""
    source = unpinned(monkeypatch, "cifar10")
    splits = pictures("cifar10")
    write_pickles(tmp_path, splits)
    rows = batch_of(*splits["test"])["data"]
    assert isinstance(rows, np.ndarray)
    content, labels = rows.tobytes(), b"".join(b"K" + bytes([one]) for one in splits["test"].labels)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t(K\x01K\x04M\x00\x0c"
        b"\x86cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89T" + len(content).to_bytes(4, "little") + content + b"tb"
    )
    name = b"U\x0bbatch_labelq\x02U\x14testing batch 1 of 1q\x03"
    two = b"(" + labels[:4] + b"e(" + labels[4:] + b"e"  # a long list is filled in several goes
    written = b"\x80\x02}q\x01(" + name + b"U\x06labelsq\x04]q\x05" + two + b"U\x04dataq\x06" + array
    written += b"U\x09filenamesq\x0c]q\r(U\x05a.pngU\x05b.pngeu."
    (tmp_path / "test_batch").write_bytes(written)
    check_holds(filled(source, tmp_path), splits)


class Evil:
    def __reduce__(self) -> Any:
        return print, ("a pickle printed this",)


GOOD = batch_of(*pictures("cifar10")["test"])


def test_a_pickle_runs_nothing(
    data_folder: Path, cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_pickles(tmp_path / "pickles", pictures("cifar10"))
    written = pickle.dumps({**GOOD, "more": Evil()}, protocol=3)
    (tmp_path / "pickles" / "test_batch").write_bytes(written)
    with pytest.raises(UserError, match=r"builtins\.print"):
        filled(entry("cifar10"), tmp_path / "pickles")
    assert "printed" not in capsys.readouterr().out
    pickle.loads(written)
    assert "printed" in capsys.readouterr().out, "loading it would not show"


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({"data": GOOD["data"]}, "test_batch: 'labels'"),
        ({"labels": GOOD["labels"]}, "test_batch: 'data'"),
        ([1, 2], "test_batch: 'list' object has no attribute"),
        ({**GOOD, "data": np.zeros((4, 3071), np.uint8)}, "test_batch: cannot reshape"),
        ({**GOOD, "labels": [1, 2, 3, "four"]}, "test_batch: invalid literal"),
        ({**GOOD, "labels": [1, 2, 3]}, "test: 4 pictures and 3 labels"),
    ],
)
def test_bad_pickles_are_refused(
    data_folder: Path, cifar: Path, tmp_path: Path, held: Any, message: str
) -> None:
    write_pickles(tmp_path / "pickles", pictures("cifar10"))
    (tmp_path / "pickles" / "test_batch").write_bytes(pickle.dumps(held, protocol=3))
    with pytest.raises(UserError, match=message) as caught:
        filled(entry("cifar10"), tmp_path / "pickles")
    assert "\n" not in str(caught.value)
    assert not list(data_folder.glob("*/*")), "something was left behind"


def test_damaged_and_missing_cifar_files(data_folder: Path, cifar: Path, tmp_path: Path) -> None:
    def refused(folder: Path, said: str) -> None:
        with pytest.raises(UserError, match=said):
            filled(entry("cifar10"), folder)

    path = cifar / "train-images-3.u8"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    refused(cifar, r"train-images-3\.u8: 9,215 bytes are not pictures of \(32, 32, 3\)")
    path.write_bytes(b"")
    refused(cifar, "train: 12 pictures and 15 labels")
    path.unlink()
    refused(cifar, r"no train-images-3\.u8, plain or")
    (cifar / "train-images-1.u8").unlink()
    refused(cifar, "neither data_batch_1 .* nor train-images-1.u8")
    write_pickles(tmp_path / "pickles", pictures("cifar10"))
    cut = tmp_path / "pickles" / "data_batch_4"
    content = cut.read_bytes()
    for damaged in (content[:-400], content[:40], b"no pickle at all", b""):
        cut.write_bytes(damaged)
        refused(tmp_path / "pickles", "cannot read .*data_batch_4: .*; get the original file")


# --- the hub --------------------------------------------------------------------------------------------------------


def hub(monkeypatch: pytest.MonkeyPatch, name: str, splits: Splits) -> dict[str, dict[str, Any]]:
    """Stands in for the library; what it gives may be changed."""
    image, label = entry(name).columns
    rows = {
        split: {image: list(one.images.squeeze()), label: [int(n) for n in one.labels]}
        for split, one in splits.items()
    }
    stand_in = SimpleNamespace(load_dataset=lambda *which, revision: rows)
    monkeypatch.setitem(sys.modules, "datasets", stand_in)
    return rows


def test_the_hub_makes_the_same_store_as_files(
    data_folder: Path, mnist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = unpinned(monkeypatch, "mnist", sha256=known_pixels(pictures("mnist")))
    expected = filled(source, mnist).manifest.files
    rows = hub(monkeypatch, "mnist", pictures("mnist"))
    store = filled(source, None)
    assert store.manifest.files == expected
    assert store.manifest.source == {"kind": "hub", "id": "ylecun/mnist", "revision": None}
    rows["test"]["label"][0] = (rows["test"]["label"][0] + 1) % 10
    with pytest.raises(UserError, match=r"ylecun/mnist.*mnist test-labels"):
        filled(source, None)


def test_the_hub_may_have_the_training_files_in_another_order(
    data_folder: Path, cifar: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = unpinned(monkeypatch, "cifar10", sha256=known(cifar))
    expected = filled(source, cifar).manifest.files
    splits = pictures("cifar10")
    order = np.concatenate([np.arange(3 * n, 3 * n + 3) for n in (3, 2, 1, 4, 0)])
    train = splits["train"]
    splits["train"] = train._replace(images=train.images[order], labels=train.labels[order])
    hub(monkeypatch, "cifar10", splits)
    assert filled(source, None).manifest.files == expected
    order[[0, 5]] = order[[5, 0]]
    splits["train"] = train._replace(images=train.images[order], labels=train.labels[order])
    hub(monkeypatch, "cifar10", splits)
    with pytest.raises(UserError, match=r"uoft-cs/cifar10.*cifar10 train-images-"):
        filled(source, None)


def broken_column(error: Exception) -> Any:
    yield np.zeros((28, 28), np.uint8)
    raise error


def test_bad_pictures_on_the_hub(data_folder: Path, mnist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(said: str) -> None:
        with pytest.raises(UserError, match=said):
            filled(entry("mnist"), None)

    rows = hub(monkeypatch, "mnist", pictures("mnist"))
    good = rows["train"]["image"]
    rows["train"]["image"] = [*good[:2], np.zeros((28, 28, 3), np.uint8)]
    refused(r"picture 3: .* inhomogeneous .*--from DIR")
    rows["train"]["image"] = broken_column(ImportError("Pillow is needed"))
    refused("picture 1: Pillow is needed; .*--from DIR")
    rows["train"]["image"] = broken_column(OSError("cannot identify"))
    refused("picture 1: cannot identify")
    rows["train"]["image"] = good
    del rows["test"]
    refused("has no split test; .*--from DIR")


def test_the_known_sources_are_complete() -> None:
    for name, keys in (("mnist", set(MNIST)), ("cifar10", {"train-labels", "test-labels"})):
        result = entry(name)
        assert set(result.sha256) >= keys
        assert (result.levels, result.revision) == (("pixels",), "unpinned")
    assert sum(key.startswith("train-images-") for key in entry("cifar10").sha256) == 5
