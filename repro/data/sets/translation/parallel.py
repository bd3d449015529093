"""A large corpus of sentence pairs, from files or the hub. Validation and test are read whole, train is streamed.

Held-out splits are small: they are read and compared with what is known before anything else is done. The training
split is an iterator over pairs and is never in memory.
"""

import html
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data.data_set import TRAIN, VAL, TokenSet
from repro.data.hub import download, on_hub, row_lines, unreachable
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, find_packed, plain_name, read_packed, sha256_of
from repro.data.sets.translation.cleaning import Cleaner, Cleaning, summary
from repro.data.sets.translation.line_files import LineFile, in_pairs, is_marked_up
from repro.data.sets.translation.pairs import check_lengths, to_lines
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter

HUB_COLUMN = "translation"
_ROLES = ("src", "ref")
Document = dict[str, Path]
Lines = dict[str, dict[str, list[str]]]


@dataclass
class Bitext:
    """A parallel corpus at hand.

    Attributes:
        held_out: ``{split: {part: lines}}`` of the splits that are evaluated, as they are.
        train: gives the raw training pairs, once; adds what it read to ``files`` of ``origin``.
        origin: how it was obtained, for the manifest.
        deviations: of what is at hand from the recipe.
    """

    held_out: Lines
    train: Callable[[], Iterator[tuple[str, ...]]]
    origin: dict[str, Any]
    deviations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Documents:
    """The files of a parallel corpus. In names, ``{part}`` stands for the language, ``{role}`` for ``src`` or ``ref``.

    Attributes:
        names: for each split the documents it consists of, and for each document the names of its files, the recipe's
            own first; another one in its place is a deviation. ``.sgm`` and ``.xml`` are read as segments,
            ``train.tags.*`` as talks with tags.
        ready: names of files that are a whole split already, which go first.
        folders: patterns of folders below the given one to look in as well.
        straight: in segments, a curly apostrophe is read as a straight one.
        lines: known numbers of pairs, by split.
    """

    names: dict[str, tuple[tuple[str, ...], ...]]
    ready: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    straight: bool = False
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ParallelCorpus(TokenSet):
    """A large corpus of sentence pairs, read and cleaned one pair after another, never whole.

    Attributes:
        documents: its files.
        cleaning: which training pairs are kept.
        held_every: every n-th clean training pair is for validation, where there are no files for it.
        vocabulary_every: the vocabulary is learned from every n-th training pair.
        deviations: from the recipe, for the manifest.
    """

    documents: Documents
    cleaning: Cleaning
    held_every: int = 0
    vocabulary_every: int = 1
    deviations: tuple[str, ...] = ()

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        """Writes the clean training pairs first; what is in memory does not grow with their number.

        The vocabulary is learned from the written text (its counts of distinct words grow with the language rather than
        with the corpus), which is then encoded block by block. No result depends on the size of a block.
        """
        bitext = self.bitext(options)
        cleaning = self._write_train(bitext, writer)
        for split, parts in bitext.held_out.items():
            for part, lines in parts.items():
                cased = (line.lower() for line in lines) if self.cleaning.lower else lines
                writer.text(split, part).add_lines(cased)
        every = self.vocabulary_every
        training = (line for part in self.parts for line in islice(writer.lines(TRAIN, part), 0, None, every))
        tokenizer = self.subwords(variant, options, training)
        deviations = [*self.deviations, *bitext.deviations]
        return self.manifest(
            variant,
            {**bitext.origin, "cleaning": cleaning, "deviations": deviations},
            {split: writer.encode_split(split, self.parts, tokenizer) for split in self.splits},
            writer.write_tokenizer(tokenizer),
        )

    def _write_train(self, bitext: Bitext, writer: "StoreWriter") -> dict[str, Any]:
        """Writes the clean training pairs, every n-th to validation where that is cut from them; returns the counts."""
        from tqdm import tqdm

        every = 0 if VAL in bitext.held_out else self.held_every
        cleaner, kept = Cleaner(self.cleaning), 0
        columns = {
            split: [writer.text(split, part) for part in self.parts]
            for split in ((TRAIN, VAL) if every else (TRAIN,))
        }
        # a progress bar only on a terminal
        for pair in cleaner.clean(tqdm(bitext.train(), TRAIN, unit=" pairs", unit_scale=True, disable=None)):
            kept += 1
            split = VAL if every and kept % every == 0 else TRAIN
            for column, line in zip(columns[split], pair, strict=True):
                column.add_line(line)
        counts = cleaner.counts()
        if kept < max(1, every):
            raise UserError(f"{self.name}: too little is left to train on: {summary(counts)}")
        return counts if not every else {**counts, "held_every": every, "held": kept // every}

    def report(self, manifest: Manifest) -> list[str]:
        cleaned, deviations = manifest.source["cleaning"], manifest.source["deviations"]
        first, *missing = super().report(manifest)
        return [first, summary(cleaned), f"other than in the recipe: {'; '.join(deviations)}", *missing]

    def bitext(self, options: Options) -> Bitext:
        """Finds the corpus and reads its held-out splits.

        Raises:
            UserError: a file is missing, cannot be read, is not the known content, or sides differ in length; the hub
                cannot be reached.
        """
        bitext = self._from_hub() if options.from_dir is None else self._from_files(options.from_dir)
        check_lengths(bitext.held_out)
        for split, expected in self.documents.lines.items():
            for part, lines in bitext.held_out.get(split, {}).items():
                if len(lines) != expected:
                    problem = f"{split}.{part} has {len(lines):,} lines, the full set has {expected:,}"
                    raise UserError(f"{self.name}: {problem}; use that one")
        return bitext

    # --- files

    def _from_files(self, folder: Path) -> Bitext:
        """Reads the files of a folder, also from its usual subfolders."""
        documents: dict[str, list[Document]] = {}
        deviations: list[str] = []
        for split in self.splits:
            if split == VAL and self.held_every and self._ready(folder, split) is None:
                continue  # cut from training
            documents[split] = self._documents(folder, split, deviations)
        files: dict[str, dict[str, Any]] = {}
        held_out = {split: self._held_out(split, documents[split]) for split in documents if split != TRAIN}
        train = partial(_stream, documents[TRAIN], self.documents.straight, files)
        return Bitext(held_out, train, self.origin(files=files), deviations)

    def _documents(self, folder: Path, split: str, deviations: list[str]) -> list[Document]:
        """The files of a split: ready ones, else those of each of its documents."""
        ready = self._ready(folder, split)
        if ready is not None:
            if split == TRAIN:
                deviations.append(f"training pairs as they were given, in {_label(ready)}")
            return [ready]
        documents = []
        for names in self.documents.names[split]:
            document = self._find(folder, names)
            if document is None:
                raise self._absent(folder, split, names)
            first = self._name(names[0], self.parts[0])
            if not any(plain_name(path) == first for path in document.values()) and split == TRAIN:
                deviations.append(f"{_label(document)} instead of {first.removesuffix(f'.{self.parts[0]}')}")
            documents.append(document)
        return documents

    def _absent(self, folder: Path, split: str, names: tuple[str, ...]) -> UserError:
        stems = [names[0], *self.documents.ready.get(split, ())]
        shown = ", nor ".join(self._name(name, self.parts[0]) for name in stems)
        inside = f" or in {', '.join(self.documents.folders)}" if self.documents.folders else ""
        return UserError(f"--from {folder}: no {shown}{AS}, there{inside}")

    def _ready(self, folder: Path, split: str) -> Document | None:
        return self._find(folder, self.documents.ready.get(split, ()))

    def _find(self, folder: Path, names: tuple[str, ...]) -> Document | None:
        """The files of one document under the first name that exists.

        Raises:
            UserError: one side is there, the other is not.
        """
        inside = [path for pattern in self.documents.folders for path in sorted(folder.glob(pattern))]
        for name in names:
            stems = {part: self._name(name, part) for part in self.parts}
            for base in (folder, *inside):
                paths = {part: find_packed(base, stem) for part, stem in stems.items()}
                present = {part: path for part, path in paths.items() if path is not None}
                if present and len(present) < len(paths):
                    absent = next(stems[part] for part in paths if part not in present)
                    raise UserError(
                        f"--from {folder}: {next(iter(present.values()))} is there, {absent} is not"
                    )
                if present:
                    return present
        return None

    def _name(self, template: str, part: str) -> str:
        return template.format(part=part, role=_ROLES[self.parts.index(part)])

    def _held_out(self, split: str, documents: list[Document]) -> dict[str, list[str]]:
        """The lines of an evaluated split, with their hash compared; plain text is not changed."""
        lines: dict[str, list[str]] = {}
        for part in self.parts:
            paths = [document[part] for document in documents]
            contents = [self._content(path) for path in paths]
            self.compare(f"{split}.{part}", sha256_of(contents), str(paths[0]))
            read = zip(contents, paths, strict=True)
            lines[part] = [line for content, path in read for line in to_lines(content, str(path))]
        return lines

    def _content(self, path: Path) -> bytes:
        if not is_marked_up(path):
            return read_packed(path)
        return "".join(f"{line}\n" for line in LineFile(path, self.documents.straight)).encode()

    # --- the hub

    def _from_hub(self) -> Bitext:
        """Rows as they come; the revision is settled first, so that the one recorded is the one read."""
        downloaded, origin = download(self, streaming=True)
        held_out: Lines = {}
        for split in (split for split in downloaded if split != TRAIN):
            # they come from marked-up files, entities and blanks at the ends with them
            rows = [[html.unescape(side).strip() for side in pair] for pair in self._rows(downloaded[split])]
            held_out[split] = {}
            for i, part in enumerate(self.parts):
                held_out[split][part] = row_lines(self, f"{split}.{part}", (row[i] for row in rows))
                digest = sha256_of(f"{line}\n".encode() for line in held_out[split][part])
                self.compare(f"{split}.{part}", digest, on_hub(self))
        return Bitext(held_out, lambda: self._rows(downloaded[TRAIN]), origin)

    def _rows(self, rows: Iterable[Mapping[str, Mapping[str, object]]]) -> Iterator[tuple[str, ...]]:
        """Pairs from rows that come over the net one after another."""
        coming = iter(rows)
        while True:
            try:
                row = next(coming)
                pair = tuple([str(row[HUB_COLUMN][part]) for part in self.parts])
            except StopIteration:
                return
            except Exception as error:  # the library raises many kinds: no net, a damaged file, other columns
                raise unreachable(self, error) from None
            yield pair


def _label(document: Document) -> str:
    """A document by its first file, without the language."""
    part, path = next(iter(document.items()))
    return plain_name(path).removesuffix(f".{part}")


def _stream(
    documents: list[Document], straight: bool, files: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, ...]]:
    for document in documents:
        sides = [LineFile(path, straight) for path in document.values()]
        yield from in_pairs(sides)
        files.update({plain_name(side.path): side.facts() for side in sides})
