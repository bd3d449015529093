"""From a source of pictures to the files of a store. Needs no torch.

A store of pictures has two files for each split: ``<split>.images.u8``, the pixels (N, H, W, C), and
``<split>.labels.u8``, a class for each; where pictures have no classes, there is no such file. ``counts`` of its
manifest has the shape ``[H, W, C]`` beside the number of pictures, ``source`` whatever is not as in the original:
``lossy_test_images``, how many test pictures are known to be copies of lesser quality, and ``unpinned``, contents
whose hash nobody knew beforehand.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from repro.data import obtain
from repro.data.image_archives import read_archive
from repro.data.image_files import READERS, Bytes, Labelled, Splits, contents, in_file_order
from repro.data.image_sources import LOOKS
from repro.data.manifest import Manifest
from repro.data.source import Source
from repro.data.store import StoreWriter
from repro.errors import UserError


def fill_images(source: Source, variant: str, from_dir: Path | None, writer: StoreWriter) -> Manifest:
    """Obtains the pictures of a source and writes them.

    Args:
        source: of pictures.
        variant: name of the store.
        from_dir: folder with the original files; None asks the hub.
        writer: of the store.

    Raises:
        UserError: a file is missing, damaged, or not the known one; the hub cannot be reached.
    """
    if LOOKS[source.name].archives and from_dir is not None:
        origin, counts = _write_archives(source, Path(from_dir), writer)
    else:
        origin, counts = _write_splits(source, from_dir, writer)
    return Manifest.of(source, variant, origin, counts, {})


def _write_splits(
    source: Source, from_dir: Path | None, writer: StoreWriter
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Writes pictures and labels of every split; says where they are from and how many there are."""
    if from_dir is not None:
        where = f"--from {from_dir}"
        splits, origin = _from_files(source, Path(from_dir))
    else:
        where = f"{source.hub_id} on the hub"
        splits, origin = _from_hub(source)
    for split, one in splits.items():
        _check(source, f"{where}, {split}", one)
    origin.update(_compare(source, splits, where))
    counts: dict[str, dict[str, Any]] = {}
    for split, one in splits.items():
        with writer.stream(images_file(split)) as opened:
            opened.write(np.ascontiguousarray(one.images).data)
        writer.write(labels_file(split), one.labels.tobytes())
        counts[split] = {"examples": len(one.labels), "shape": list(one.images.shape[1:])}
    return origin, counts


def _write_archives(
    source: Source, folder: Path, writer: StoreWriter
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The same for archives without labels, of which no more than one picture is ever in memory."""
    from tqdm import tqdm

    origin, look = _origin(source, folder), LOOKS[source.name]
    counts: dict[str, dict[str, Any]] = {}
    unpinned = []
    for split in source.splits:
        file, n = images_file(split), 0
        with writer.stream(file) as opened:
            images = read_archive(source, folder, split)
            # a bar only where somebody looks at it
            for image in tqdm(images, split, look.examples[split], unit=" pictures", disable=None):
                opened.write(image.tobytes())
                n += 1
        key = f"{split}-images"
        found, known = writer.files[file]["sha256"], source.sha256.get(key)
        if known is None:
            unpinned.append(key)
        elif found != known:
            raise UserError(
                f"--from {folder}: sha256 of the content is {found:.16}…, that of {source.name} {key} is "
                f"{known:.16}…; use the original files"
            )
        counts[split] = {"examples": n, "shape": list(look.shape)}
    return {**origin, "unpinned": unpinned} if unpinned else origin, counts


def images_file(split: str) -> str:
    return f"{split}.images.u8"


def labels_file(split: str) -> str:
    return f"{split}.labels.u8"


def _from_files(source: Source, folder: Path) -> tuple[Splits, dict[str, Any]]:
    origin = _origin(source, folder)
    return READERS[source.name](folder), origin


def _origin(source: Source, folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    return {"kind": "files", "id": source.hub_id, "revision": source.revision}


def _from_hub(source: Source) -> tuple[Splits, dict[str, Any]]:
    found, origin = obtain.download(source)
    image, label = LOOKS[source.name].columns
    splits = {}
    for split, theirs in source.hub_splits.items():
        if theirs not in found:
            raise UserError(f"{source.hub_id} on the hub has no split {theirs}; {obtain.remedy(source)}")
        rows = found[theirs]
        labels = np.array(list(rows[label]), np.int64).clip(-1, 255).astype(np.uint8)
        splits[split] = Labelled(_pixels(source, rows[image]), labels)
    if source.name == "cifar10":  # the hub has the five files in the order in which they lay in an archive
        splits["train"] = in_file_order(source, splits["train"])
    return splits, origin


def _pixels(source: Source, column: Any) -> Bytes:
    """Pictures ``(N, H, W, C)`` of a column of the hub."""
    shape = LOOKS[source.name].shape
    found: list[Bytes] = []
    try:
        for picture in column:
            found.append(np.asarray(picture))  # noqa: PERF401  # a bad one is named by its number
    except ImportError:
        raise UserError(
            f"the package `Pillow` is not installed; install it, or {obtain.remedy(source)}"
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{source.hub_id} on the hub: picture {len(found)}: {error}") from None
    for n, one in enumerate(found):
        if one.dtype != np.uint8 or one.shape not in (shape, shape[:2] if shape[2] == 1 else shape):
            raise UserError(
                f"{source.hub_id} on the hub: picture {n} has {one.shape} {one.dtype}, not {shape}"
            )
    return np.stack(found).reshape(-1, *shape) if found else np.zeros((0, *shape), np.uint8)


def _check(source: Source, where: str, one: Labelled) -> None:
    if len(one.images) != len(one.labels) or not len(one.labels):
        raise UserError(f"{where}: {len(one.images):,} pictures and {len(one.labels):,} labels")
    n_classes = LOOKS[source.name].n_classes
    wrong = np.flatnonzero(one.labels >= n_classes)
    if len(wrong):
        said = f"label {one.labels[wrong[0]]} of picture {wrong[0]}"
        raise UserError(f"{where}: {said} is not below {n_classes}; use the original files")


def _compare(source: Source, splits: Splits, where: str) -> dict[str, Any]:
    """Compares every known hash; what of the pictures is not known to be the original."""
    lossy, unpinned = 0, []
    for key, content in contents(source, splits):
        if key in source.sha256:
            obtain.compare(source, key, content, where)
            continue
        bad = LOOKS[source.name].lossy.get(hashlib.sha256(content).hexdigest(), 0)
        lossy += bad
        unpinned += [] if bad else [key]
    found: dict[str, Any] = {"lossy_test_images": lossy} if lossy else {}
    return {**found, "unpinned": unpinned} if unpinned else found
