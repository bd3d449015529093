"""From a data set of pictures to the files of a store. Needs no torch.

A store of pictures has two files for each split: ``<split>.images.u8``, the pixels (N, H, W, C), and
``<split>.labels.u8``, a class for each; where pictures have no classes, there is no such file. ``counts`` of its
manifest has the shape ``[H, W, C]`` beside the number of pictures, ``source`` whatever is not as in the original:
``lossy_test_images``, how many test pictures are known to be copies of lesser quality, and ``unpinned``, contents
whose hash nobody knew beforehand.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from repro.data.images.image_archives import read_archive
from repro.data.images.image_files import Bytes, Labelled, Splits
from repro.data.images.image_sources import LabelledPictures, PictureArchives
from repro.data.store.hub import download, on_hub, remedy
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.packed import sha256_of
from repro.data.store.store_writer import StoreWriter
from repro.errors import UserError


def fill_pictures(
    data_set: LabelledPictures, writer: StoreWriter, variant: str, options: Options
) -> Manifest:
    """Writes pictures and labels of every split; see ``DataSet.fill``."""
    if options.from_dir is None:
        where = on_hub(data_set)
        splits, origin = _from_hub(data_set)
    else:
        where, origin = f"--from {options.from_dir}", data_set.origin()
        splits = data_set.read(options.from_dir)
    for split, pictures in splits.items():
        _check(f"{where}, {split}", pictures, data_set.n_classes)
    origin.update(_compare(data_set, splits, where))
    counts: dict[str, dict[str, Any]] = {}
    for split, pictures in splits.items():
        with writer.stream(images_file(split)) as opened:
            opened.write(np.ascontiguousarray(pictures.images).data)
        writer.write(labels_file(split), pictures.labels.tobytes())
        counts[split] = {"examples": len(pictures.labels), "shape": list(pictures.images.shape[1:])}
    return Manifest.of(data_set, variant, origin, counts, {})


def fill_archives(data_set: PictureArchives, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Writes the pictures of archives, of which no more than one is ever in memory; see ``DataSet.fill``."""
    from tqdm import tqdm

    counts: dict[str, dict[str, Any]] = {}
    unpinned = []
    for split in data_set.splits:
        file, n = images_file(split), 0
        with writer.stream(file) as opened:
            images = read_archive(data_set, options.folder, split)
            # a progress bar only on a terminal
            for image in tqdm(images, split, data_set.examples[split], unit=" pictures", disable=None):
                opened.write(image.tobytes())
                n += 1
        key = f"{split}-images"
        data_set.compare(key, writer.files[file]["sha256"], f"--from {options.folder}")
        unpinned += [] if key in data_set.sha256 else [key]
        counts[split] = {"examples": n, "shape": list(data_set.shape)}
    origin = data_set.origin(unpinned=unpinned) if unpinned else data_set.origin()
    return Manifest.of(data_set, variant, origin, counts, {})


def images_file(split: str) -> str:
    return f"{split}.images.u8"


def labels_file(split: str) -> str:
    return f"{split}.labels.u8"


def _from_hub(data_set: LabelledPictures) -> tuple[Splits, dict[str, Any]]:
    downloaded, origin = download(data_set)
    image, label = data_set.columns
    splits = {}
    for split, rows in downloaded.items():
        labels = np.array(list(rows[label]), np.int64).clip(-1, 255).astype(np.uint8)
        splits[split] = Labelled(_pixels(data_set, rows[image]), labels)
    return data_set.arranged(splits), origin


def _pixels(data_set: LabelledPictures, column: Iterable[object]) -> Bytes:
    """Pictures ``(N, H, W, C)`` of a column of the hub."""
    shape, where = data_set.shape, on_hub(data_set)
    pictures: list[Bytes] = []
    try:
        for picture in column:
            pictures.append(np.asarray(picture))  # noqa: PERF401  # a bad one is named by its number
    except ImportError:
        raise UserError(f"the package `Pillow` is not installed; install it, or {remedy(data_set)}") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{where}: picture {len(pictures)}: {error}") from None
    for n, array in enumerate(pictures):
        if array.dtype != np.uint8 or array.shape not in (shape, shape[:2] if shape[2] == 1 else shape):
            raise UserError(f"{where}: picture {n} has {array.shape} {array.dtype}, not {shape}")
    return np.stack(pictures).reshape(-1, *shape) if pictures else np.zeros((0, *shape), np.uint8)


def _check(where: str, pictures: Labelled, n_classes: int) -> None:
    if len(pictures.images) != len(pictures.labels) or not len(pictures.labels):
        raise UserError(f"{where}: {len(pictures.images):,} pictures and {len(pictures.labels):,} labels")
    wrong = np.flatnonzero(pictures.labels >= n_classes)
    if len(wrong):
        example = f"label {pictures.labels[wrong[0]]} of picture {wrong[0]}"
        raise UserError(f"{where}: {example} is not below {n_classes}; use the original files")


def _compare(data_set: LabelledPictures, splits: Splits, where: str) -> dict[str, Any]:
    """Compares every known hash; returns the facts about pictures that are not known to be the original."""
    lossy, unpinned = 0, []
    for key, content in data_set.contents(splits):
        digest = sha256_of([content])
        if key in data_set.sha256:
            data_set.compare(key, digest, where)
        elif digest in data_set.lossy:
            lossy += data_set.lossy[digest]
        else:
            unpinned.append(key)
    facts: dict[str, Any] = {"lossy_test_images": lossy} if lossy else {}
    return {**facts, "unpinned": unpinned} if unpinned else facts
