"""Data sets of sentence pairs: from files, the hub or generated; read and cleaned one pair after another, never whole.

Splits that are evaluated are small. They are read and compared with what is known before anything else is done. The
training split is an iterator over pairs and is never in memory.

Source: ``clean-corpus-n.perl`` of Moses, as ``prepare-iwslt14.sh`` and ``prepare-wmt14en2fr.sh`` of fairseq call it;
``prepare-iwslt14.sh`` for segments and tags.
Deviation: lengths are words and punctuation marks of the raw text; those scripts count tokens of Moses' tokeniser, or
subwords.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from repro.data.data_set import TEST, TRAIN, VAL, TokenSet
from repro.data.hub import download, on_hub, remedy
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import (
    AS,
    TextFile,
    decoded,
    find_packed,
    need_packed,
    plain_name,
    read_packed,
    sha256_of,
)
from repro.data.sets.translation import numbers
from repro.data.store import StoreWriter
from repro.data.tokenizers.loading import AnyTokenizer
from repro.data.tokenizers.merges import MergedWords, joined, read_merges
from repro.errors import UserError

TRAIN_SIZE = 40_000
HELD_OUT_SIZES = {VAL: 500, TEST: 1000}
GIVEN = "given"
_ROLES = ("src", "ref")
_MARKED_UP = (".sgm", ".xml")
_SEGMENT = re.compile(r"<seg\b[^>]*>(.*)</seg>")
_CURLY = "\N{RIGHT SINGLE QUOTATION MARK}"
_TALK_LINES = ("<url>", "<talkid>", "<keywords>")
_TALK_TAGS = re.compile("</?(?:title|description)>")
_WORD = re.compile(r"\w+|[^\w\s]")
Pairs = Iterator[tuple[str, ...]]
Document = dict[str, Path]


@dataclass(frozen=True)
class Cleaning:
    """Rules for the training pairs to keep. Every run of blanks inside a line becomes one space, also Unicode's.

    Attributes:
        max_words: longer pairs (words and punctuation marks, on either side) are dropped; 0: none are.
        ratio: pairs with more words on one side, by this factor, are dropped; 0: none are.
        lower: all text is lower-cased, that of validation and test as well.
    """

    max_words: int = 0
    ratio: float = 0.0
    lower: bool = False

    def objection(self, pair: tuple[str, ...]) -> str:
        """The first rule against a pair: ``empty`` (a side has nothing but blanks), ``long``, ``ratio``; or empty."""
        if not all(pair):
            return "empty"
        counts = [len(_WORD.findall(side)) for side in pair]
        if self.max_words and max(counts) > self.max_words:
            return "long"
        return "ratio" if self.ratio and max(counts) > self.ratio * min(counts) else ""


class Cleaner:
    """Drops pairs by rules and counts them by reason.

    Args:
        rules: of the corpus.

    Attributes:
        read: pairs looked at.
        squeezed: kept pairs whose blanks were changed.
        dropped: pairs by the first rule against them.
    """

    def __init__(self, rules: Cleaning) -> None:
        self.rules = rules
        self.read = 0
        self.squeezed = 0
        self.dropped = {"empty": 0, "long": 0, "ratio": 0}

    @property
    def kept(self) -> int:
        """Pairs that were kept."""
        return self.read - sum(self.dropped.values())

    def clean(self, pairs: Iterable[tuple[str, ...]]) -> Pairs:
        """The kept pairs, with single spaces, in lower case if the rules require it."""
        for pair in pairs:
            self.read += 1
            squeezed = tuple([" ".join(side.split()) for side in pair])
            if reason := self.rules.objection(squeezed):
                self.dropped[reason] += 1
                continue
            self.squeezed += squeezed != pair
            yield tuple([side.lower() for side in squeezed]) if self.rules.lower else squeezed

    def counts(self) -> dict[str, Any]:
        """Numbers of pairs read, kept and dropped, and the rules, for the manifest."""
        rules = self.rules
        return {
            "read": self.read,
            "kept": self.kept,
            "dropped": dict(self.dropped),
            "squeezed": self.squeezed,
            "rules": {"max_words": rules.max_words, "ratio": rules.ratio, "lower_case": rules.lower},
        }


def summary(counts: dict[str, Any]) -> str:
    """The counts of :meth:`Cleaner.counts` in one line."""
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in counts["dropped"].items())
    return f"kept {counts['kept']:,} of {counts['read']:,} training pairs (dropped: {dropped})"


@dataclass
class Bitext:
    """Sentence pairs at hand.

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
class SentencePairs(TokenSet):
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
                cased = map(str.lower, lines) if self.cleaning and self.cleaning.lower else lines
                writer.text(split, part).add_lines(cased)
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
            UserError: one is not the known content, sides differ in length, are empty, or are not the full set.
        """
        hashes = {}
        for split, parts in bitext.lines.items():
            counts = {part: len(lines) for part, lines in parts.items()}
            expected = self.lines.get(split, max(counts.values()))
            if set(counts.values()) != {expected} or not expected:
                found = ", ".join(f"{split}.{part} has {n:,} lines" for part, n in counts.items())
                full = f"; the full set has {expected:,}" if split in self.lines else ""
                raise UserError(f"{bitext.where}: {found}; each side needs one line per pair{full}")
            for part, lines in parts.items():
                key = f"{split}.{part}"
                hashes[key] = sha256_of(f"{line}\n".encode() for line in lines)
                self.compare(key, hashes[key], f"{bitext.where}, {key}", self.stripped.get(key))
        return {} if self.cleaning else {"sha256": hashes}

    def _write_train(self, pairs: Pairs, no_val: bool, writer: StoreWriter) -> dict[str, Any]:
        """Writes the clean training pairs, every n-th to validation where that is cut from them; returns the counts."""
        from tqdm import tqdm

        every, cleaner = self.held_every if no_val else 0, Cleaner(self.cleaning or Cleaning())
        columns = {
            split: [writer.text(split, part) for part in self.parts]
            for split in ((TRAIN, VAL) if every else (TRAIN,))
        }
        # a progress bar only on a terminal
        for pair in cleaner.clean(tqdm(pairs, TRAIN, unit=" pairs", unit_scale=True, disable=None)):
            split = VAL if every and cleaner.kept % every == 0 else TRAIN
            for column, line in zip(columns[split], pair, strict=True):
                column.add_line(line)
        counts = cleaner.counts()
        if cleaner.kept < max(1, every):
            raise UserError(f"{self.name}: too little is left to train on: {summary(counts)}")
        return {**counts, "held_every": every, "held": cleaner.kept // every} if every else counts

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
                    deviations.append(f"training pairs as they were given, in {_label(ready)}")
            elif split != VAL or not self.held_every:  # else it is cut from training
                documents[split] = self._documents(folder, split, deviations)
        files: dict[str, dict[str, Any]] = {}
        streams = {
            split: partial(read_pairs, found, self.straight, files if split == TRAIN else {})
            for split, found in documents.items()
            if found
        }
        origin = self.origin(files=files) if self.cleaning else self.origin()
        return self._read(streams, origin, f"--from {folder}", deviations)

    def _read(
        self,
        streams: Mapping[str, Callable[[], Pairs]],
        origin: dict[str, Any],
        where: str,
        deviations: list[str],
    ) -> Bitext:
        """Reads splits whole, the training split only where it is not cleaned."""
        train = streams[TRAIN] if self.cleaning else None
        lines = {}
        for split in (name for name in streams if name != TRAIN or train is None):
            pairs = list(streams[split]())
            lines[split] = {part: [pair[i] for pair in pairs] for i, part in enumerate(self.parts)}
        return Bitext(lines, origin, where, train, deviations)

    def _documents(self, folder: Path, split: str, deviations: list[str]) -> list[Document]:
        """The files of a split, none where it may be missing."""
        documents = []
        for names in self.names.get(split, ((f"{split}.{{part}}",),)):
            document = self._find(folder, names)
            if document is None and split in self.optional:
                return []
            if document is None:
                shown = ", nor ".join(self._name(name, 0) for name in (names[0], *self.ready.get(split, ())))
                inside = f" or in {', '.join(self.folders)}" if self.folders else ""
                raise UserError(f"--from {folder}: no {shown}{AS}, there{inside}")
            first = self._name(names[0], 0)
            if not any(plain_name(path) == first for path in document.values()) and split == TRAIN:
                deviations.append(f"{_label(document)} instead of {first.removesuffix(f'.{self.parts[0]}')}")
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


def _label(document: Document) -> str:
    """A document by its first file, without the language."""
    part, path = next(iter(document.items()))
    return plain_name(path).removesuffix(f".{part}")


def read_pairs(documents: list[Document], straight: bool, files: dict[str, dict[str, Any]]) -> Pairs:
    """The pairs of some documents; adds the facts of every file to ``files``.

    Raises:
        UserError: a side has more lines than the other, cannot be read, or is marked up and has no segment.
    """
    for document in documents:
        sides = [TextFile(path) for path in document.values()]
        count = 0
        for row in zip_longest(*(kept_lines(side, straight) for side in sides)):
            if None in row:
                ended = sides[row.index(None)].path
                raise UserError(
                    f"{ended} has {count:,} lines, fewer than the other side; each needs one line per pair"
                )
            count += 1
            yield row
        if not count and _is_marked_up(sides[0].path):
            raise UserError(f"{sides[0].path} has no segments (<seg ...>...</seg>); use the original file")
        files.update({plain_name(side.path): {**side.facts(), "lines": count} for side in sides})


def _is_marked_up(path: Path) -> bool:
    return Path(plain_name(path)).suffix in _MARKED_UP


def kept_lines(file: TextFile, straight: bool) -> Iterator[str]:
    """The lines of a side.

    Of marked-up files these are the contents of segments, entities read, blanks at the ends stripped; of
    ``train.tags.*`` not those that tell of a talk, but its title and description without their tags.
    """
    marked, talks = _is_marked_up(file.path), file.path.name.startswith("train.tags.")
    for line in file:
        if marked:
            if match := _SEGMENT.search(line):
                text = html.unescape(match[1]).strip()
                yield text.replace(_CURLY, "'") if straight else text
        elif not talks:
            yield line
        elif not any(tag in line for tag in _TALK_LINES):
            yield _TALK_TAGS.sub("", line)


@dataclass(frozen=True, kw_only=True)
class GivenSubwords(SentencePairs):
    """Sentence pairs that are published cut into blank-separated subwords, with the merges that cut them.

    There is one store. Its lines are words; its tokens are the given subwords.

    Attributes:
        prefix: beginning of the names of files where several pairs of languages share a folder.
        merges: possible names of the file of merges.
    """

    levels: tuple[str, ...] = (GIVEN,)
    prefix: str
    merges: tuple[str, ...]

    def variant(self, options: Options) -> str:
        return GIVEN

    def options_of(self, variant: str) -> Options:
        return Options()

    def needed_files(self) -> tuple[str, ...]:
        return (*(f"{split}.{part}" for split in self.required for part in self.parts), self.merges[-1])

    def bitext(self, options: Options) -> Bitext:
        names = {split: ((f"{self.prefix}{split}.{{part}}", f"{split}.{{part}}"),) for split in self.splits}
        return replace(self, names=names)._from_files(options.folder)

    def given_tokenizer(self, bitext: Bitext, options: Options) -> AnyTokenizer:
        """Subwords as they are given; turns the lines into words.

        Raises:
            UserError: no merges, or they do not make the given subwords.
        """
        found = (find_packed(options.folder, name) for name in self.merges)
        path = next(filter(None, found), None) or need_packed(
            options.folder, self.merges[-1], "it holds the merges of the subwords"
        )
        content = read_packed(path)
        digest = bitext.origin["sha256"]["merges"] = sha256_of([content])
        self.compare("merges", digest, str(path))
        try:
            merges = read_merges(decoded(content, str(path)))
        except ValueError as error:
            raise UserError(f"{path}: {error}; get the file again") from None
        training = (line for part in self.parts for line in bitext.lines[TRAIN][part])
        tokenizer = MergedWords.from_text(training, merges)
        for split, parts in bitext.lines.items():
            for part, lines in parts.items():
                words = [joined(line) for line in lines]
                if [tokenizer.given_ids(line) for line in lines] != tokenizer.encode_batch(words):
                    raise UserError(
                        f"{path} does not make the subwords of {split}.{part}; use the file that did"
                    )
                parts[part] = words
        return tokenizer


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
