"""Text with labels from files: a label, a tab and the text in each line. Needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repro.data.data_set import SPLITS, TRAIN, DataSet, Options
from repro.data.packed import TextFile, need_packed
from repro.data.store import Manifest, StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

PAD, N_SYMBOLS = 0, 257  # a byte is its value plus 1
TEXT, LABELS = "text", "labels"


def labelled_lines(folder: Path, split: str) -> Iterator[tuple[str, str]]:
    """The labels and texts of ``<split>.tsv``, whose last line may be empty.

    Raises:
        UserError: no such file, or a line without a label or without a text; names the line.
    """
    file = TextFile(need_packed(folder, f"{split}.tsv", "each line is a label, a tab and the text"))
    for line in (lines := iter(file)):
        number = file.read
        if not line and next(lines, None) is None:
            return
        label, tab, text = line.partition("\t")
        if not (tab and label and text):
            raise UserError(f"{file.path}, line {number}: {line[:40]!r} is not a label, a tab and a text")
        yield label, text


def classes_of(folder: Path) -> list[str]:
    """The labels that occur in training, in the order of the alphabet.

    Raises:
        UserError: fewer than two, or more than a store can number.
    """
    classes = sorted({label for label, _ in labelled_lines(folder, TRAIN)})
    if not 2 <= len(classes) <= 2**16:
        raise UserError(f"--from {folder}: {TRAIN}.tsv has {len(classes)} labels, not 2 to 65536")
    return classes


@dataclass(frozen=True, kw_only=True)
class LabelledText(DataSet):
    """Texts as bytes with a label each.

    A row of a store has ``text``, the bytes plus 1, and ``labels``, the number of its class.

    Attributes:
        classes: the labels, in the order of their numbers.
    """

    parts: tuple[str, ...] = (TEXT, LABELS)
    levels: tuple[str, ...] = ("bytes",)
    classes: tuple[str, ...]

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        number = {label: i for i, label in enumerate(self.classes)}
        counts: dict[str, dict[str, Any]] = {}
        for split in SPLITS:
            texts = writer.column(split, TEXT, ids_of(N_SYMBOLS))
            labels = writer.column(split, LABELS, ColumnType("uint16"))
            for label, text in labelled_lines(options.folder, split):
                if label not in number:
                    raise UserError(f"{split}.tsv: label {label!r} does not occur in {TRAIN}.tsv")
                texts.add_rows([[byte + 1 for byte in text.encode()]])
                labels.add(np.array([number[label]]))
            if not labels.rows:
                raise UserError(f"--from {options.folder}: {split}.tsv is empty")
            counts[split] = {"examples": labels.rows, "tokens": {TEXT: texts.values}}
        symbols = {"kind": "bytes", "size": N_SYMBOLS, "classes": list(self.classes)}
        return self.manifest(variant, self.origin(), counts, symbols)
