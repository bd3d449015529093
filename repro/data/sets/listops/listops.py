"""The data set ListOps: trees that are generated, or those of the published files. Needs no torch."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from repro.data.data_set import DataSet, Options
from repro.data.packed import TextFile, need_packed
from repro.data.sets.listops.trees import GENERATOR_VERSION, SYMBOLS, Trees, TreeSet, tree_ids, trees_of
from repro.data.store import MANIFEST, Manifest, StoreWriter, store_path
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

_COLUMNS = ("Source", "Target")
DIGITS = tuple("0123456789")


class ListOps(DataSet):
    """Trees of operators over digits: generated, or the published files, one for each split.

    A row of a store has ``trees``, the tokens of a tree with closing brackets, and ``values``, its value.
    """

    generated = True
    sizable = True

    @property
    def obtained(self) -> str:
        return "generated or --from"

    def refusals(self, options: Options) -> Iterator[tuple[bool, str]]:
        yield from super().refusals(replace(options, from_dir=None))
        files, path = options.from_dir, store_path(self.name, self.default_variant)
        if files is not None:
            wrong = options.size is not None
            yield wrong, f"the files in {files} have their own size; leave out --size {options.size}"
            manifest = path / MANIFEST
            wrong = manifest.exists() and b'"kind": "generated"' in manifest.read_bytes()
            yield (
                wrong,
                f"{path} is already prepared, from generated data; delete it to put {files} in its place",
            )

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        if options.from_dir is None:
            made = TreeSet() if options.size is None else TreeSet(train=options.size)
            splits = {split: made.split(split) for split in self.splits}
            origin = self.generated_origin(str(GENERATOR_VERSION), settings=made.settings)
        else:
            splits, hashes = self._from_files(options.from_dir)
            origin = self.origin(sha256=hashes)
        counts = {}
        for split, trees in splits.items():
            writer.column(split, "trees", ids_of(len(SYMBOLS))).add(trees.tokens, np.diff(trees.offsets))
            writer.column(split, "values", ColumnType("uint16")).add(trees.values)
            counts[split] = {"examples": len(trees.values), "tokens": {"trees": len(trees.tokens)}}
        symbols = {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)}
        return self.manifest(variant, origin, counts, symbols)

    def _from_files(self, folder: Path) -> tuple[dict[str, Trees], dict[str, str]]:
        """Every split, and the SHA-256 of each file's content."""
        splits, hashes = {}, {}
        for split, name in zip(self.splits, self.files, strict=True):
            file = TextFile(need_packed(folder, name, f"needed: {', '.join(self.files)}"))
            splits[split] = read_trees(file)
            hashes[split] = self.compare(name, file.facts()["sha256"], str(file.path))
        return splits, hashes


def read_trees(file: TextFile) -> Trees:
    """The trees of a published file: a line each, its text and its value between tabs, below a line of names.

    The round brackets of the published files are redundant and are dropped.

    Raises:
        UserError: a line is not a tree with a value; the message names the first one and its fault.
    """
    lines = iter(file)
    names = next(lines, "").split("\t")
    if not set(_COLUMNS) <= set(names):
        raise UserError(
            f"{file.path}, line 1: needs the columns {' and '.join(_COLUMNS)}, has {', '.join(names)}"
        )
    rows, values = [], []
    for line in lines:
        row = dict(zip(names, line.split("\t"), strict=False))
        ids, value = tree_ids(row.get("Source", "")), row.get("Target", "")
        if not ids or value not in DIGITS:
            raise UserError(
                f"{file.path}, line {file.read}: {line!r:.80} is not a tree and its value; get the file again"
            )
        rows.append(np.array(ids, np.uint8))
        values.append(int(value))
    if not values:
        raise UserError(f"{file.path}: no trees in it; use the original file")
    return trees_of(rows, values)
