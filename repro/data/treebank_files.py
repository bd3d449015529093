"""The files of a licensed treebank: the Wall Street Journal's sections, or one tree a line. Never whole in memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from repro.data import obtain
from repro.data.parallel_lines import PACKED, LineFile, plain_name
from repro.data.parse_trees import Phrase, checked_root, read_trees
from repro.data.source import Source
from repro.errors import UserError

SECTIONS = {"train": range(2, 22), "val": range(22, 23), "test": range(23, 24)}
SENTENCES = {"train": 39_832, "val": 1_700, "test": 2_416}  # of those sections, in the third release
EXTRA = "extra*.trees"  # trees of other makers, to train on beside the sections
_FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "combined/wsj", "treebank_3/parsed/mrg/wsj")
_ENDS = (".mrg", *(f".mrg{packed}" for packed in PACKED))


@dataclass
class Treebank:
    """A treebank at hand.

    Attributes:
        splits: by name, what gives the trees of a split below ``TOP``, as they are.
        origin: how it was obtained, for the manifest; told of every file read.
        known: sentences that a split should have, where that is known.
    """

    splits: dict[str, Callable[[], Iterator[Phrase]]]
    origin: dict[str, Any]
    known: dict[str, int] = field(default_factory=dict)


def from_files(source: Source, folder: Path) -> Treebank:
    """Finds the files of every split; reads none yet.

    Args:
        source: of trees; one whose files name ``extra*.trees`` needs at least one of those beside the sections.
        folder: with ``train.trees``, ``val.trees`` and ``test.trees``, one tree a line, or with the folders ``02`` to
            ``23`` of ``.mrg`` files, in it or where the treebank's releases have them.

    Raises:
        UserError: a file or a section is missing.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    files: dict[str, dict[str, Any]] = {}
    known = {split: n for split, n in SENTENCES.items() if split != "train" or EXTRA not in source.files}
    bank = Treebank({}, {"kind": "files", "id": None, "revision": None, "files": files}, known)
    ready = {split: obtain.find_file(folder, f"{split}.trees") for split in source.splits}
    if any(ready.values()):
        for split, path in ready.items():
            if path is None:
                raise UserError(f"--from {folder}: no {split}.trees[.gz|.xz] beside the other splits' trees")
            bank.splits[split] = partial(_trees_by_line, [path], files)
        return bank
    root = _sections_in(folder)
    paths = {split: [path for n in SECTIONS[split] for path in _section(root, n)] for split in source.splits}
    bank.splits.update({split: partial(_trees_of, found, root, files) for split, found in paths.items()})
    if EXTRA in source.files:
        extra = _extra(folder)
        bank.splits["train"] = partial(_both, bank.splits["train"], partial(_trees_by_line, extra, files))
    return bank


def _sections_in(folder: Path) -> Path:
    """Where the sections lie."""
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


def _extra(folder: Path) -> list[Path]:
    paths = sorted(path for end in ("", *PACKED) for path in folder.glob(EXTRA + end))
    if not paths:
        raise UserError(
            f"--from {folder}: no {EXTRA}[.gz|.xz] there, whose trees are trained on beside the sections'"
        )
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
        UserError: a line holds none, or more; beside what is wrong with one.
    """
    for path in paths:
        lines = LineFile(path)
        for number, line in enumerate(lines, 1):
            at = f"{path}, line {number}"
            found = [tree for _, tree in read_trees([line], str(path), number)]
            if len(found) != 1:
                raise UserError(f"{at}: {len(found)} trees; each line needs one")
            yield checked_root(found[0], at, bare=True)
        files[plain_name(path)] = lines.told()
