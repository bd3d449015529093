"""The files of a licensed treebank: the Wall Street Journal's sections, or one tree a line. Never whole in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from repro.data.store.packed import AS, FORMS, find_packed, glob_packed, plain_name
from repro.data.translation.parallel_lines import LineFile
from repro.data.treebank.parse_trees import Phrase, checked_root, read_trees
from repro.errors import UserError

SECTIONS = {"train": range(2, 22), "val": range(22, 23), "test": range(23, 24)}
SENTENCES = {"train": 39_832, "val": 1_700, "test": 2_416}  # of those sections, in the third release
_FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "combined/wsj", "treebank_3/parsed/mrg/wsj")
_ENDS = tuple(f".mrg{form}" for form in FORMS)


@dataclass
class Bank:
    """A treebank at hand.

    Attributes:
        splits: by name, what gives the trees of a split below ``TOP``, as they are.
        origin: how it was obtained, for the manifest; told of every file read.
        known: sentences that a split should have, where that is known.
    """

    splits: dict[str, Callable[[], Iterator[Phrase]]]
    origin: dict[str, Any]
    known: dict[str, int] = field(default_factory=dict)


def from_files(folder: Path, extra: str, origin: dict[str, Any]) -> Bank:
    """Finds the files of every split; reads none yet.

    Args:
        folder: with ``train.trees``, ``val.trees`` and ``test.trees``, one tree a line, or with the folders ``02`` to
            ``23`` of ``.mrg`` files, in it or where the treebank's releases have them.
        extra: pattern of files with trees to train on beside the sections, one of which must be there; or empty.
        origin: of what comes from files.

    Raises:
        UserError: a file or a section is missing.
    """
    files: dict[str, dict[str, Any]] = {}
    bank = Bank({}, {**origin, "files": files}, {**SENTENCES})
    if extra:
        del bank.known["train"]
    ready = {split: find_packed(folder, f"{split}.trees") for split in SECTIONS}
    if any(ready.values()):
        for split, path in ready.items():
            if path is None:
                raise UserError(f"--from {folder}: no {split}.trees{AS} beside the other splits' trees")
            bank.splits[split] = partial(_trees_by_line, [path], files)
        return bank
    root = _sections_in(folder)
    for split, numbers in SECTIONS.items():
        bank.splits[split] = partial(
            _trees_of, [path for n in numbers for path in _section(root, n)], root, files
        )
    if extra:
        paths = glob_packed(folder, extra)
        if not paths:
            raise UserError(
                f"--from {folder}: no {extra}{AS}, whose trees are trained on beside the sections'"
            )
        bank.splits["train"] = partial(_both, bank.splits["train"], partial(_trees_by_line, paths, files))
    return bank


def _sections_in(folder: Path) -> Path:
    """The folder of the sections."""
    for inner in _FOLDERS:
        if any((folder / inner / f"{n:02}").is_dir() for n in range(25)):
            return folder / inner
    raise UserError(
        f"--from {folder}: neither train.trees, val.trees and test.trees nor sections 02 to 23 of .mrg files in it, in "
        f"{', in '.join(filter(None, _FOLDERS))}"
    )


def _section(root: Path, number: int) -> list[Path]:
    folder = root / f"{number:02}"
    if not folder.is_dir():
        raise UserError(
            f"--from: no section {folder}; sections 02 to 23 are needed, each a folder of .mrg files"
        )
    paths = sorted(path for path in folder.iterdir() if path.name.lower().endswith(_ENDS))
    if not paths:
        raise UserError(f"--from: no .mrg files in section {folder}")
    return paths


def _both(first: Callable[[], Iterator[Phrase]], second: Callable[[], Iterator[Phrase]]) -> Iterator[Phrase]:
    yield from first()
    yield from second()


def _trees_of(paths: list[Path], root: Path, files: dict[str, dict[str, Any]]) -> Iterator[Phrase]:
    """The trees of ``.mrg`` files."""
    for path in paths:
        lines = LineFile(path)
        for line, tree in read_trees(lines, str(path)):
            yield checked_root(tree, f"{path}, line {line}", bare=False)
        files[path.relative_to(root).as_posix()] = lines.told()


def _trees_by_line(paths: list[Path], files: dict[str, dict[str, Any]]) -> Iterator[Phrase]:
    """The trees of files with one in each line.

    Raises:
        UserError: a line without a tree or with several, or a malformed tree.
    """
    for path in paths:
        lines = LineFile(path)
        for number, line in enumerate(lines, 1):
            at = f"{path}, line {number}"
            trees = [tree for _, tree in read_trees([line], str(path), number)]
            if len(trees) != 1:
                raise UserError(f"{at}: {len(trees)} trees; each line needs one")
            yield checked_root(trees[0], at, bare=True)
        files[plain_name(path)] = lines.told()
