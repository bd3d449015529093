"""From trees, generated or in the published files, to the files of a store. Needs no torch.

A store of trees has two parts: ``trees``, the tokens of :mod:`repro.data.listops.trees` with closing brackets, and
``values``, one for each tree.
"""

import io
from pathlib import Path

import numpy as np

from repro.data.listops.tree_generator import GENERATOR_VERSION, TreeSet
from repro.data.listops.trees import SYMBOLS, Trees, offsets_of, read_tree, value_of
from repro.data.store.data_set import DataSet
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.packed import need_packed, read_packed, sha256_of
from repro.data.store.store import token_dtype
from repro.data.store.store_writer import StoreWriter
from repro.errors import UserError

_COLUMNS = ("Source", "Target")


def fill_trees(data_set: DataSet, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Generates trees or reads the published ones, and writes them; see ``DataSet.fill``."""
    if options.from_dir is None:
        trees = TreeSet() if options.size is None else TreeSet(train=options.size)
        splits = {split: trees.split(split) for split in data_set.splits}
        origin = data_set.generated_origin(str(GENERATOR_VERSION), settings=trees.settings)
    else:
        splits, hashes = _from_files(data_set, options.from_dir)
        origin = data_set.origin(sha256=hashes)
    counts, dtype = {}, token_dtype(len(SYMBOLS))
    for split, split_trees in splits.items():
        writer.write(f"{split}.trees.tokens.bin", split_trees.tokens.astype(dtype).tobytes())
        writer.write(f"{split}.trees.offsets.bin", split_trees.offsets.astype("<i8").tobytes())
        writer.write(f"{split}.values.tokens.bin", split_trees.values.astype(dtype).tobytes())
        counts[split] = {"examples": len(split_trees.values), "tokens": {"trees": len(split_trees.tokens)}}
    symbols = {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)}
    return Manifest.of(data_set, variant, origin, counts, symbols)


def _from_files(data_set: DataSet, folder: Path) -> tuple[dict[str, Trees], dict[str, str]]:
    """Every split, and the SHA-256 of each file's content."""
    splits, hashes = {}, {}
    for split, file in zip(data_set.splits, data_set.files, strict=True):
        path = need_packed(folder, file, f"needed: {', '.join(data_set.files)}")
        content = read_packed(path)
        hashes[split] = sha256_of([content])
        data_set.compare(file, hashes[split], str(path))
        splits[split] = read_trees(content, str(path))
    return splits, hashes


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
