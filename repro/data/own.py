"""Data sets of one's own: a name and a kind, kept in ``<data>/<name>/data_set.json`` beside the stores. Needs no torch.

===========  =========================================================================================================
Kind         Files in the folder
===========  =========================================================================================================
pairs        ``train.XX``, ``val.XX`` and ``test.XX`` for two languages, a sentence a line
text         ``train.txt``, ``val.txt`` and ``test.txt``; or documents, of which the last twentieths are held out
labels       ``train.tsv``, ``val.tsv`` and ``test.tsv``: a label, a tab and a text in each line
pictures     ``train/CLASS/*`` and ``test/CLASS/*``, all of one size, 8 bits a channel
===========  =========================================================================================================
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.data_set import TEST, TRAIN, VAL, DataSet
from repro.data.packed import glob_packed, is_hidden, sha256_of, sha256_of_file
from repro.data.sets.images.picture_sets import Bytes, Labelled, PictureSet, Splits
from repro.data.sets.labelled.labelled_text import LabelledText, classes_of
from repro.data.sets.text.text_sets import Books
from repro.data.sets.translation.pairs import SentencePairs
from repro.errors import UserError
from repro.files import write_atomic
from repro.paths import data_dir

# The files that belong to a data set of each kind.
PATTERNS = {"pairs": "*.*", "text": "**/*.txt*", "labels": "*.tsv*", "pictures": "*/*/*"}
FILE = "data_set.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_COMMON: dict[str, Any] = {"title": "your own", "licence": "that of your files", "size": "any"}


def own_data_sets() -> dict[str, DataSet]:
    """The data sets of the data folder that were prepared with ``--kind``, by name."""
    names = sorted(path.parent.name for path in data_dir().glob(f"*/{FILE}"))
    return {name: make_data_set(name, facts) for name in names if (facts := kept_facts(name))}


def own_data_set(name: str) -> DataSet | None:
    """The data set of that name that was prepared with ``--kind``; None where there is none."""
    facts = kept_facts(name)
    return make_data_set(name, facts) if facts else None


def kept_facts(name: str) -> dict[str, Any] | None:
    """The facts of a data set of one's own; None of another.

    Raises:
        UserError: their file is damaged.
    """
    path = data_dir() / name / FILE
    if not path.is_file():
        return None
    try:
        facts = dict(json.loads(path.read_bytes()))
        make_data_set(name, facts)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({error!r}); delete its folder, and prepare it again") from None
    return facts


def facts_of(name: str, kind: str, folder: Path | None) -> dict[str, Any]:
    """The kind of a data set and facts of its files: the languages of pairs, the classes of labels, the classes and
    shape of pictures.

    Raises:
        UserError: no such kind, a name that cannot be one, no folder, files that are not of the kind, or another data
            set of that name.
    """
    if kind not in PATTERNS:
        raise UserError(f"--kind {kind}: it is one of {', '.join(PATTERNS)}")
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} cannot name a data set; use small letters, digits and . _ -, like my-pairs"
        )
    if folder is None or not folder.is_dir():
        raise UserError(f"--from {folder or 'DIR'}: no such folder; --kind {kind} needs one with your files")
    found = {
        "pairs": _languages,
        "text": lambda _: {},
        "labels": lambda files: {"classes": classes_of(files)},
        "pictures": _pictures,
    }
    facts = {"kind": kind, "files": hash_of(folder, PATTERNS[kind]), **found[kind](folder)}
    if kept_facts(name) not in (None, facts):
        raise UserError(
            f"{data_dir() / name} was made of other files; choose another name, or delete the folder"
        )
    return facts


def write_facts(name: str, facts: dict[str, Any]) -> None:
    """Keeps a data set of one's own, for later commands."""
    write_atomic(data_dir() / name / FILE, json.dumps(facts, indent=1).encode())


def hash_of(folder: Path, pattern: str) -> str:
    """SHA-256 over the names and contents of files, hidden ones left out."""
    paths = sorted(p for p in folder.glob(pattern) if p.is_file() and not is_hidden(p, folder))
    return sha256_of(f"{p.relative_to(folder)} {sha256_of_file(p)}\n".encode() for p in paths)


def make_data_set(name: str, facts: dict[str, Any]) -> DataSet:
    """The data set of some facts; see :func:`facts_of`."""
    if facts["kind"] == "pairs":
        names = {VAL: (("val.{part}", "valid.{part}"),)}
        return SentencePairs(name=name, parts=tuple(facts["languages"]), names=names, **_COMMON)
    if facts["kind"] == "text":
        levels = ("bytes", "chars", "words", "words-min3", "bpe", "gpt2")
        return Books(name=name, documents="files", levels=levels, **_COMMON)
    if facts["kind"] == "labels":
        return LabelledText(name=name, classes=tuple(facts["classes"]), **_COMMON)
    return PictureFolders(
        name=name, shape=tuple(facts["shape"]), classes=tuple(facts["classes"]), n_classes=len(facts["classes"]),
        columns=("image", "label"), **_COMMON,
    )  # fmt: skip


def _languages(folder: Path) -> dict[str, Any]:
    """The languages of ``train.XX``, in the order of the alphabet."""
    found = sorted({path.name.split(".")[1] for path in folder.glob(f"{TRAIN}.*")})
    if len(found) != 2:
        there = ", ".join(found) or "none"
        raise UserError(
            f"--from {folder}: pairs are train.XX and train.YY for two languages; there are: {there}"
        )
    return {"languages": found}


def _pictures(folder: Path) -> dict[str, Any]:
    """The names of the classes, and the shape ``(H, W, C)`` of the first picture."""
    classes = sorted(_folders(folder / TRAIN))
    if not 2 <= len(classes) <= 255:
        raise UserError(f"--from {folder}: {len(classes)} folders {TRAIN}/CLASS with pictures, not 2 to 255")
    for name in classes:
        if not glob_packed(folder / TRAIN / name, "*"):
            raise UserError(f"--from {folder}: no picture in {TRAIN}/{name}; remove the folder")
    first = glob_packed(folder / TRAIN / classes[0], "*")[0]
    return {"classes": classes, "shape": [*_pixels(first).shape]}


def _folders(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*") if path.is_dir() and not path.name.startswith(".")}


@dataclass(frozen=True, kw_only=True)
class PictureFolders(PictureSet):
    """Pictures in folders by split and class.

    Attributes:
        classes: names of the folders in each split, in the order of the labels.
    """

    classes: tuple[str, ...]

    def read(self, folder: Path) -> Splits:
        return {split: self._labelled(folder / split) for split in self.splits}

    def _labelled(self, folder: Path) -> Labelled:
        if not folder.is_dir():
            raise UserError(f"no folder {folder}; pictures are in {TRAIN}/CLASS/* and {TEST}/CLASS/*")
        if extra := sorted(_folders(folder) - {*self.classes}):
            raise UserError(f"{folder}: class {extra[0]!r} is not among those of {TRAIN}")
        pictures, labels = [], []
        for label, name in enumerate(self.classes):
            for path in glob_packed(folder / name, "*"):
                pictures.append(_pixels(path))
                labels.append(label)
                if pictures[-1].shape != self.shape:
                    raise UserError(
                        f"{path} is {pictures[-1].shape}, others are {self.shape}; make all of one size and colours"
                    )
        images = np.array(pictures, np.uint8).reshape(-1, *self.shape)
        return Labelled(images, np.array(labels, np.uint8))


def _pixels(path: Path) -> Bytes:
    """The values ``(H, W, C)`` of a picture: one channel for 8 bits of grey, else three.

    Raises:
        UserError: it is not a picture, or has more than 8 bits a channel.
    """
    from PIL import Image

    try:
        with Image.open(path) as image:
            if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK"):
                raise UserError(f"{path} has mode {image.mode}; save it with 8 bits a channel")
            array = np.asarray(image if image.mode == "L" else image.convert("RGB"), np.uint8)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise UserError(f"{path} is not a picture: {error}") from None
    return array.reshape(*array.shape[:2], -1)
