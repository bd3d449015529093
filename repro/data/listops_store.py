"""From trees, generated or in the published files, to the files of a store. Needs no torch.

A store of trees has two parts: ``trees``, the tokens of :mod:`repro.data.trees` with closing brackets, and ``values``,
one for each tree.
"""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from repro.data import obtain
from repro.data.manifest import Manifest
from repro.data.source import Source
from repro.data.store import StoreWriter, token_dtype
from repro.data.tree_generator import GENERATOR_VERSION, TreeSet
from repro.data.trees import SYMBOLS, Trees, offsets_of, read_tree, value_of
from repro.data.variants import unsized
from repro.errors import UserError

FILES = {"train": "basic_train.tsv", "val": "basic_val.tsv", "test": "basic_test.tsv"}
_COLUMNS = ("Source", "Target")


def fill_trees(source: Source, variant: str, from_dir: Path | None, writer: StoreWriter) -> Manifest:
    """Generates trees or reads the published ones, and writes them.

    Args:
        source: of trees.
        variant: name of the store, which says how many trees to train on.
        from_dir: folder with the published files; None generates.
        writer: of the store.

    Raises:
        UserError: a file is missing or damaged; names file, line and what is wrong with it.
    """
    if from_dir is None:
        size = unsized(variant)[1]
        trees = TreeSet() if size is None else TreeSet(train=size)
        splits = {split: trees.split(split) for split in source.splits}
        origin: dict[str, Any] = {"kind": "generated", "id": source.name, "revision": str(GENERATOR_VERSION)}
        origin["settings"] = trees.settings
    else:
        splits, hashes = _from_files(source, Path(from_dir))
        origin = {"kind": "files", "id": source.hub_id, "revision": source.revision, "sha256": hashes}
    counts = {}
    for split, one in splits.items():
        writer.write(f"{split}.trees.tokens.bin", one.tokens.astype(token_dtype(len(SYMBOLS))).tobytes())
        writer.write(f"{split}.trees.offsets.bin", one.offsets.astype("<i8").tobytes())
        writer.write(f"{split}.values.tokens.bin", one.values.astype(token_dtype(len(SYMBOLS))).tobytes())
        counts[split] = {"examples": len(one.values), "tokens": {"trees": len(one.tokens)}}
    return Manifest.of(
        source, variant, origin, counts, {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)}
    )


def _from_files(source: Source, folder: Path) -> tuple[dict[str, Trees], dict[str, str]]:
    """Every split, and the SHA-256 of each file's content."""
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    found, hashes = {}, {}
    for split in source.splits:
        path = obtain.find_file(folder, FILES[split])
        if path is None:
            raise UserError(f"--from {folder}: no {FILES[split]}[.gz|.xz]; needed: {', '.join(source.files)}")
        content = obtain.read_file(path)
        obtain.compare(source, FILES[split], content, str(path))
        hashes[split] = hashlib.sha256(content).hexdigest()
        found[split] = read_trees(content, str(path))
    return found, hashes


def read_trees(content: bytes, where: str) -> Trees:
    """The trees of a published file: a line each, its text and its value between tabs, below a line of names.

    Args:
        content: of the file.
        where: its name, for people.

    Raises:
        UserError: the first line that is no tree, or whose value is not the tree's; says what is wrong.
    """
    lines = io.BytesIO(content)  # shares the content, which may have hundreds of megabytes
    names = next(lines, b"").decode(errors="replace").rstrip("\r\n").split("\t")
    if not set(_COLUMNS) <= set(names):
        raise UserError(
            f"{where}, line 1: needs the columns {' and '.join(_COLUMNS)}, has {', '.join(names)}"
        )
    source, target = (names.index(name) for name in _COLUMNS)
    tokens, lengths, values = [], [], []
    for number, line in enumerate(lines, 2):
        try:
            ids, value = _read_line(line.rstrip(b"\r\n").decode(), source, target, len(names))
        except ValueError as error:
            raise UserError(f"{where}, line {number}: {error}") from None
        tokens.append(np.array(ids, np.uint8))
        lengths.append(len(ids))
        values.append(value)
    if not values:
        raise UserError(f"{where}: no trees in it; use the original file")
    return Trees(np.concatenate(tokens), offsets_of(lengths), np.array(values, np.uint8))


def _read_line(line: str, source: int, target: int, n_columns: int) -> tuple[list[int], int]:
    columns = line.split("\t")
    if len(columns) != n_columns:
        raise ValueError(f"{len(columns)} columns, not {n_columns}")
    ids = read_tree(columns[source])
    value = value_of(ids)
    if columns[target] != str(value):
        raise ValueError(f"{_COLUMNS[1]} is {columns[target]!r}, the tree's value is {value}")
    return ids, value
