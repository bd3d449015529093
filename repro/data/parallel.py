"""A large corpus of sentence pairs: its files found, or the hub asked. Validation and test are read, train is streamed.

Held-out splits are small: they are read and compared with what is known before anything else is done. The training
split is an iterator over pairs and is never in memory.
"""

import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repro.data import obtain
from repro.data.parallel_lines import LineFile, in_pairs, is_marked_up, plain_name
from repro.data.source import Parallel, Source
from repro.errors import UserError

TRAIN, CUT = "train", "val"
_ROLES = ("src", "ref")
Document = dict[str, Path]


@dataclass
class Bitext:
    """A parallel corpus at hand.

    Attributes:
        held_out: ``{split: {part: lines}}`` of the splits that are evaluated, as they are.
        train: gives the raw training pairs, once; tells ``files`` of ``origin`` what it read.
        origin: how it was obtained, for the manifest.
        deviations: of what is at hand from the recipe.
    """

    held_out: dict[str, dict[str, list[str]]]
    train: Callable[[], Iterator[tuple[str, ...]]]
    origin: dict[str, Any]
    deviations: list[str] = field(default_factory=list)


# --- files --------------------------------------------------------------------------------------------------------


def from_files(source: Source, folder: Path) -> Bitext:
    """Finds the files of every split, and reads those of the held-out ones.

    Args:
        source: with ``parallel`` rules.
        folder: as given on the command line; the usual folders below are looked into as well.

    Raises:
        UserError: a file is missing, cannot be read, is not the known content, or sides differ in length.
    """
    folder, rules = Path(folder), _rules(source)
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    found: dict[str, list[Document]] = {}
    deviations: list[str] = []
    for split in source.splits:
        if split == CUT and rules.held_every and _ready(source, folder, split) is None:
            continue  # cut from training
        found[split] = _documents(source, folder, split, deviations)
    files: dict[str, dict[str, Any]] = {}
    origin = {"kind": "files", "id": source.hub_id, "revision": source.revision, "files": files}
    held = {s: _held_out(source, s, documents) for s, documents in found.items() if s != TRAIN}
    _check(source, held)
    return Bitext(held, lambda: _stream(found[TRAIN], rules, files), origin, deviations)


def _rules(source: Source) -> Parallel:
    assert source.parallel is not None
    return source.parallel


def _documents(source: Source, folder: Path, split: str, deviations: list[str]) -> list[Document]:
    """The files of a split: ready ones, else those of each of its documents."""
    ready = _ready(source, folder, split)
    if ready is not None:
        if split == TRAIN:
            deviations.append(f"training pairs as they were given, in {_label(ready)}")
        return [ready]
    rules, found = _rules(source), []
    for names in rules.documents[split]:
        document = _find(source, folder, names)
        if document is None:
            wanted = [names[0], *rules.ready.get(split, ())]
            shown = ", nor ".join(_name(name, source, source.parts[0]) for name in wanted)
            inside = f" or in {', '.join(rules.folders)}" if rules.folders else ""
            raise UserError(f"--from {folder}: no {shown}[.gz|.xz] there{inside}")
        first = _name(names[0], source, source.parts[0])
        if not any(plain_name(path) == first for path in document.values()) and split == TRAIN:
            deviations.append(f"{_label(document)} instead of {first.removesuffix(f'.{source.parts[0]}')}")
        found.append(document)
    return found


def _ready(source: Source, folder: Path, split: str) -> Document | None:
    return _find(source, folder, _rules(source).ready.get(split, ()))


def _find(source: Source, folder: Path, names: tuple[str, ...]) -> Document | None:
    """The files of one document under the first name that is there.

    Raises:
        UserError: one side is there, the other is not.
    """
    inside = [path for pattern in _rules(source).folders for path in sorted(folder.glob(pattern))]
    for name in names:
        stems = {part: _name(name, source, part) for part in source.parts}
        for base in (folder, *inside):
            paths = {part: obtain.find_file(base, stem) for part, stem in stems.items()}
            there = {part: path for part, path in paths.items() if path is not None}
            if there and len(there) < len(paths):
                absent = next(stems[part] for part in paths if part not in there)
                raise UserError(f"--from {folder}: {next(iter(there.values()))} is there, {absent} is not")
            if there:
                return there
    return None


def _name(template: str, source: Source, part: str) -> str:
    return template.format(part=part, role=_ROLES[source.parts.index(part)])


def _label(document: Document) -> str:
    """A document by its first file, without the language."""
    part, path = next(iter(document.items()))
    return plain_name(path).removesuffix(f".{part}")


def _held_out(source: Source, split: str, documents: list[Document]) -> dict[str, list[str]]:
    """The lines of an evaluated split, plain text as it is, compared with what is known."""
    lines: dict[str, list[str]] = {part: [] for part in source.parts}
    content = dict.fromkeys(source.parts, b"")
    for document in documents:
        for part, path in document.items():
            if is_marked_up(path):
                given = list(LineFile(path, _rules(source).straight))
                content[part] += "".join(f"{line}\n" for line in given).encode()
            else:
                raw = obtain.read_file(path)
                given = obtain.to_lines(raw, str(path))
                content[part] += raw
            lines[part] += given
    for part, found in content.items():
        obtain.compare(source, f"{split}.{part}", found, str(documents[0][part]))
    return lines


def _check(source: Source, held: dict[str, dict[str, list[str]]]) -> None:
    """Compares the sides of evaluated splits with each other and with the known numbers of lines."""
    obtain.check_lengths(held)
    for split, known in _rules(source).lines.items():
        for part, lines in held.get(split, {}).items():
            if len(lines) != known:
                raise UserError(
                    f"{source.name}: {split}.{part} has {len(lines):,} lines, the full set has {known:,}; use that one"
                )


def _stream(
    documents: list[Document], rules: Parallel, files: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, ...]]:
    for document in documents:
        sides = [LineFile(path, rules.straight) for path in document.values()]
        yield from in_pairs(sides)
        files.update({plain_name(side.path): side.told() for side in sides})


# --- the hub ------------------------------------------------------------------------------------------------------


def from_hub(source: Source) -> Bitext:
    """Asks the hub for rows as they come; the revision is settled first, so that the one recorded is the one read.

    Raises:
        UserError: the hub cannot be reached, lacks a split, or its content is not the known one; names ``--from``.
    """
    found, origin = obtain.download(source, streaming=True)
    absent = [split for split, theirs in source.hub_splits.items() if theirs not in found]
    if absent:
        raise UserError(f"{source.hub_id} on the hub has no split {absent[0]}; {obtain.remedy(source)}")
    held: dict[str, dict[str, list[str]]] = {}
    for split, theirs in source.hub_splits.items():
        if split == TRAIN:
            continue
        # they come from marked-up files, entities and blanks at the ends with them
        rows = [[html.unescape(side).strip() for side in pair] for pair in _rows(source, found[theirs])]
        held[split] = {part: [row[i] for row in rows] for i, part in enumerate(source.parts)}
        for part, lines in held[split].items():
            _check_row_lines(source, f"{split}.{part}", lines)
    _check(source, held)
    return Bitext(held, lambda: _rows(source, found[source.hub_splits[TRAIN]]), origin)


def _check_row_lines(source: Source, key: str, lines: list[str]) -> None:
    where = f"{source.hub_id} on the hub"
    if any("\n" in line for line in lines):
        raise UserError(f"{where}: a line of {key} holds a line break; {obtain.remedy(source)}")
    obtain.compare(source, key, "".join(f"{line}\n" for line in lines).encode(), where)


def _rows(source: Source, rows: Any) -> Iterator[tuple[str, ...]]:
    """Pairs from rows that come over the net one after another."""
    column, parts = _rules(source).hub_column, source.parts
    coming = iter(rows)
    while True:
        try:
            row = next(coming)
            pair = tuple([str(row[column][part]) for part in parts])
        except StopIteration:
            return
        except (
            Exception
        ) as error:  # the library raises many kinds: the net is gone, a damaged file, other columns
            raise obtain.unreachable(source, error) from None
        yield pair
