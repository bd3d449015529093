"""Data sets of sentence pairs: from files, the hub or generated.

Splits that are evaluated are small. They are read and compared with what is known before anything else is done. A
training split that is cleaned is an iterator over pairs and is never in memory; another is read whole, 0.8 kB a pair.
"""

import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from repro.data.data_set import TEST, TRAIN, VAL, DataSet, Options
from repro.data.hub import download, on_hub, remedy
from repro.data.packed import AS, find_packed, plain_name, sha256_of
from repro.data.sets.translation import numbers
from repro.data.sets.translation.cleaning import Cleaning, Pairs, clean, new_counts, summary
from repro.data.sets.translation.pair_files import Document, label, read_pairs
from repro.data.store import Manifest, StoreWriter
from repro.data.tokenizers.loading import AnyTokenizer
from repro.errors import UserError

TRAIN_SIZE = 40_000
HELD_OUT_SIZES = {VAL: 500, TEST: 1000}
_ROLES = ("src", "ref")


@dataclass
class Bitext:
    """The available sentence pairs.

    Attributes:
        lines: ``{split: {part: lines}}`` of the splits that are read whole.
        origin: how it was obtained, for the manifest.
        where: the same, for messages.
        train: gives the raw training pairs, once, where they are to be cleaned; adds what it read to ``files`` of
            ``origin``.
        deviations: of what is at hand from the recipe.
    """

    lines: dict[str, dict[str, list[str]]]
    origin: dict[str, Any]
    where: str
    train: Callable[[], Pairs] | None = None
    deviations: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class SentencePairs(DataSet):
    """Sentence pairs. In names of files ``{part}`` stands for the language, ``{role}`` for ``src`` or ``ref``.

    Attributes:
        names: for each split the documents it consists of, and for each document the names of its files, the recipe's
            own first; another one in its place is a deviation. ``.sgm`` and ``.xml`` are read as segments,
            ``train.tags.*`` as talks with tags. Where a split is not named, it is in ``<split>.{part}``.
        ready: names of files that are a whole split already, which go first.
        folders: patterns of folders below the given one to look in as well.
        straight: in segments, a curly apostrophe is read as a straight one.
        lines: known numbers of pairs, by split.
        cleaning: which training pairs are kept; None keeps the text as it is, and the manifest has the hash of each
            split.
        held_every: every n-th clean training pair is for validation, where there are no files for it.
        vocabulary_every: the vocabulary is learned from every n-th training pair.
        deviations: from the recipe, for the manifest.
        stripped: SHA-256 with blanks stripped from the ends of lines, where that differs. Some copies on the hub are
            stored so; both forms are accepted.
    """

    names: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    ready: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    straight: bool = False
    lines: dict[str, int] = field(default_factory=dict)
    cleaning: Cleaning | None = None
    held_every: int = 0
    vocabulary_every: int = 1
    deviations: tuple[str, ...] = ()
    stripped: dict[str, str] = field(default_factory=dict)

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Writes the clean training pairs first; what is in memory does not grow with their number.

        The vocabulary is learned from the written text (its counts of distinct words grow with the language rather than
        with the corpus), which is then encoded block by block. No result depends on the size of a block.
        """
        bitext = self.bitext(options)
        origin = bitext.origin
        origin |= self._compared(bitext)
        tokenizer = self.given_tokenizer(bitext, options)
        if bitext.train is not None:
            origin["cleaning"] = self._write_train(bitext.train(), VAL not in bitext.lines, writer)
            origin["deviations"] = [*self.deviations, *bitext.deviations]
        for split, parts in bitext.lines.items():
            for part, lines in parts.items():
                column = writer.text(split, part)
                for line in map(str.lower, lines) if self.cleaning and self.cleaning.lower else lines:
                    column.add_line(line)
        every = self.vocabulary_every
        training = (line for part in self.parts for line in islice(writer.lines(TRAIN, part), 0, None, every))
        tokenizer = tokenizer or self.subwords(variant, options, training)
        counts = {split: writer.encode_split(split, self.parts, tokenizer) for split in writer.splits}
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer))

    def given_tokenizer(self, bitext: Bitext, options: Options) -> AnyTokenizer | None:
        """The tokeniser that came with the text; None where one is learned."""
        return None

    def _compared(self, bitext: Bitext) -> dict[str, Any]:
        """Compares the SHA-256 of lines with their ends with the known ones; returns them where no text is cleaned.

        Raises:
            UserError: one is not the known content, is empty, or is not the full set.
        """
        hashes = {}
        for split, parts in bitext.lines.items():
            count = len(parts[self.parts[0]])
            expected = self.lines.get(split, max(1, count))
            if count != expected:
                raise UserError(f"{bitext.where}: {split} has {count:,} pairs, {expected:,} are needed")
            for part, lines in parts.items():
                key = f"{split}.{part}"
                hashes[key] = sha256_of(f"{line}\n".encode() for line in lines)
                self.compare(key, hashes[key], f"{bitext.where}, {key}", self.stripped.get(key))
        return {} if self.cleaning else {"sha256": hashes}

    def _write_train(self, pairs: Pairs, no_val: bool, writer: StoreWriter) -> dict[str, Any]:
        """Writes the clean training pairs, every n-th to validation where that is cut from them; returns the counts."""
        from tqdm import tqdm

        every, rules = self.held_every if no_val else 0, self.cleaning or Cleaning()
        counts = new_counts(rules)
        splits = (TRAIN, VAL) if every else (TRAIN,)
        columns = {split: [writer.text(split, part) for part in self.parts] for split in splits}
        # a progress bar only on a terminal
        progress = tqdm(pairs, TRAIN, unit=" pairs", unit_scale=True, disable=None)
        for pair in clean(progress, rules, counts):
            split = VAL if every and counts["kept"] % every == 0 else TRAIN
            for column, line in zip(columns[split], pair, strict=True):
                column.add_line(line)
        if counts["kept"] < max(1, every):
            raise UserError(f"{self.name}: too little is left to train on: {summary(counts)}")
        return {**counts, "held_every": every, "held": counts["kept"] // every} if every else counts

    def report(self, manifest: Manifest) -> list[str]:
        first, *missing = super().report(manifest)
        if self.cleaning is None:
            return [first, *missing]
        deviations = "; ".join(manifest.source["deviations"])
        cleaned = summary(manifest.source["cleaning"])
        return [first, cleaned, f"other than in the recipe: {deviations}", *missing]

    def bitext(self, options: Options) -> Bitext:
        """Finds the pairs and reads the splits that are evaluated.

        Raises:
            UserError: a file is missing or cannot be read; the hub cannot be reached.
        """
        return self._from_hub() if options.from_dir is None else self._from_files(options.from_dir)

    # --- files

    def _from_files(self, folder: Path) -> Bitext:
        """Reads the files of a folder, also from its usual subfolders."""
        documents: dict[str, list[Document]] = {}
        deviations: list[str] = []
        for split in self.splits:
            ready = self._find(folder, self.ready.get(split, ()))
            if ready is not None:
                documents[split] = [ready]
                if split == TRAIN:
                    deviations.append(f"training pairs as they were given, in {label(ready)}")
            elif split != VAL or not self.held_every:  # else it is cut from training
                documents[split] = self._documents(folder, split, deviations)
        files: dict[str, dict[str, Any]] = {}
        streams = {
            split: partial(
                read_pairs, pieces, self.straight, files if split == TRAIN else {}, self.cleaning is not None
            )
            for split, pieces in documents.items()
            if pieces
        }
        origin = self.origin(files=files) if self.cleaning else self.origin()
        return self._read(streams, origin, f"--from {folder}", deviations)

    def _read(
        self,
        streams: Mapping[str, Callable[[], Pairs]],
        origin: dict[str, Any],
        source: str,
        deviations: list[str],
    ) -> Bitext:
        """Reads splits whole, the training split only where it is not cleaned."""
        train = streams[TRAIN] if self.cleaning else None
        lines = {}
        for split in (name for name in streams if name != TRAIN or train is None):
            pairs = list(streams[split]())
            lines[split] = {part: [pair[i] for pair in pairs] for i, part in enumerate(self.parts)}
        return Bitext(lines, origin, source, train, deviations)

    def _documents(self, folder: Path, split: str, deviations: list[str]) -> list[Document]:
        """The files of a split, none where it may be missing."""
        documents = []
        for names in self.names.get(split, ((f"{split}.{{part}}",),)):
            document = self._find(folder, names)
            if document is None and split in self.optional:
                return []
            if document is None:
                tried = ", nor ".join(self._name(name, 0) for name in (names[0], *self.ready.get(split, ())))
                inside = f" or in {', '.join(self.folders)}" if self.folders else ""
                raise UserError(f"--from {folder}: no {tried}{AS}, there{inside}")
            first = self._name(names[0], 0)
            if not any(plain_name(path) == first for path in document.values()) and split == TRAIN:
                deviations.append(f"{label(document)} instead of {first.removesuffix(f'.{self.parts[0]}')}")
            documents.append(document)
        return documents

    def _find(self, folder: Path, names: tuple[str, ...]) -> Document | None:
        """The files of one document under the first name that exists.

        Raises:
            UserError: one side is there, the other is not.
        """
        inside = [path for pattern in self.folders for path in sorted(folder.glob(pattern))]
        for name in names:
            for base in (folder, *inside):
                stems = [self._name(name, i) for i in range(len(self.parts))]
                paths = [find_packed(base, stem) for stem in stems]
                if all(paths):
                    return {part: path for part, path in zip(self.parts, paths, strict=True) if path}
                if any(paths):
                    raise UserError(
                        f"--from {folder}: no {stems[paths.index(None)]}{AS} beside {next(filter(None, paths))}"
                    )
        return None

    def _name(self, template: str, side: int) -> str:
        return template.format(part=self.parts[side], role=_ROLES[side])

    # --- the hub

    def _from_hub(self) -> Bitext:
        downloaded, origin = download(self)
        streams = {split: partial(self._rows, rows, split) for split, rows in downloaded.items()}
        return self._read(streams, origin, on_hub(self), [])

    def _rows(self, rows: Iterable[Mapping[str, Any]], split: str) -> Pairs:
        """The pairs of a split on the hub.

        Raises:
            UserError: a line holds a line break.
        """
        marked = self.cleaning is not None and split != TRAIN
        for row in rows:
            sides = row.get("translation", row)
            pair = tuple([str(sides[part]).removesuffix("\n") for part in self.parts])
            if marked:  # they come from marked-up files, entities and blanks at the ends with them
                pair = tuple([html.unescape(side).strip() for side in pair])
            if "\n" in "".join(pair) and (marked or self.cleaning is None):
                raise UserError(f"{on_hub(self)}: a line of {split} holds a line break; {remedy(self)}")
            yield pair


@dataclass(frozen=True, kw_only=True)
class GeneratedNumbers(SentencePairs):
    """Spelled-out numbers, generated."""

    generated = True
    sizable = True

    def bitext(self, options: Options) -> Bitext:
        streams = {
            split: partial(iter, numbers.generate(split, size))
            for split, size in {TRAIN: options.size or TRAIN_SIZE, **HELD_OUT_SIZES}.items()
        }
        origin = self.generated_origin(str(numbers.GENERATOR_VERSION))
        return self._read(streams, origin, self.name, [])
