"""The data set ListOps: trees that are generated, or those of the published files. Needs no torch."""

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from repro.data.data_set import SPLITS, OneStore
from repro.data.manifest import MANIFEST, Manifest, store_path
from repro.data.options import Options
from repro.data.packed import need_packed, read_packed, sha256_of
from repro.data.sets.listops.tree_generator import GENERATOR_VERSION, TreeSet
from repro.data.sets.listops.trees import SYMBOLS, Trees, offsets_of, read_tree, value_of
from repro.data.store import StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

_COLUMNS = ("Source", "Target")


class ListOps(OneStore):
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
        for split, file in zip(self.splits, self.files, strict=True):
            path = need_packed(folder, file, f"needed: {', '.join(self.files)}")
            content = read_packed(path)
            hashes[split] = sha256_of([content])
            self.compare(file, hashes[split], str(path))
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


LISTOPS = (
    ListOps(
        name="listops",
        title="ListOps of the Long Range Arena: trees of operators over digits "
        "(Nangia and Bowman 2018, Tay et al. 2021)",
        licence="MIT (generated by this package); the published files: Apache 2.0, as their generator",
        size="205 MB at the default 96,000 training trees, in half a minute; any size",
        parts=("trees", "values"),
        levels=("lra",),
        files=tuple(f"basic_{split}.tsv" for split in SPLITS),
    ),
)
