"""Kinds of text for language models: from files, from the hub, or from the running Python."""

import hashlib
import platform
import sysconfig
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.data.data_set import GPT2, SPLITS, TEST, TRAIN, VAL, TokenSet
from repro.data.hub import download, on_hub
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, glob_packed, read_packed, sha256_of
from repro.data.sets.text.corpus import (
    Corpus,
    Pieces,
    Reading,
    cut_at,
    cut_at_lines,
    files_of,
    need_files,
    pieces_of,
    row_pieces,
)
from repro.data.variants import is_subwords
from repro.errors import UserError

if TYPE_CHECKING:
    from repro.data.store import StoreWriter
    from repro.data.tokenizers.loading import AnyTokenizer

HUB_COLUMN = "text"
_NAMED = {TRAIN: ("train.txt",), VAL: ("val.txt", "valid.txt"), TEST: ("test.txt",)}  # splits of books
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
# Where the hash of a file's name falls among twenty decides its split, in every version of Python.
_HELD_OUT = {0: VAL, 1: TEST}


@dataclass(frozen=True, kw_only=True)
class TextSet(TokenSet):
    """Text for language models, at the levels ``words``, ``words-min3`` (words seen at least three times in training,
    the others are the unknown word), ``bytes``, ``bytes-nonl`` (newlines left out), ``chars``, ``bpe`` and ``gpt2``
    (GPT-2's subwords under its own numbers, ends of lines left out).

    Attributes:
        reading: how it becomes tokens.
    """

    parts: tuple[str, ...] = ("text",)
    aliases: dict[str, str] = field(default_factory=lambda: {"valid": VAL})
    reading: Reading = field(default_factory=Reading)

    @abstractmethod
    def corpus(self, variant: str, folder: Path | None) -> Corpus:
        """The raw text, its known hashes compared.

        Args:
            variant: the store it is for.
            folder: with its files; None asks the hub, or generates.

        Raises:
            UserError: a file is missing, cannot be read, or is not the known content; the hub cannot be reached.
        """

    def fill(self, writer: "StoreWriter", variant: str, options: Options) -> Manifest:
        """Writes tokeniser and tokens of every split. A row is a document, a sentence or a split.

        Raises:
            UserError: beside what is said there, the text cannot be read at this level.
        """
        from repro.data.sets.text.encoding import Encoder, make_vocabulary

        reading, corpus = self.reading, self.corpus(variant, options.from_dir)
        tokenizer: AnyTokenizer
        if variant == GPT2 or is_subwords(variant):
            train = (piece.text.decode(errors="replace").split("\n") for piece in corpus.splits[TRAIN]())
            tokenizer = self.subwords(variant, options, chain.from_iterable(train))
        else:
            tokenizer = make_vocabulary(reading, variant, corpus)
        encoder = Encoder(reading, variant, tokenizer)
        counts = {split: encoder.write(split, pieces(), writer) for split, pieces in corpus.splits.items()}
        row = "sentence" if reading.sentences else "document" if reading.documents else "split"
        origin = {**corpus.origin, "raw_text": "not kept"}
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer), row)

    def size_of(self, counts: dict[str, Any]) -> str:
        unknown = f" ({counts['unknown']:,} unknown)" if counts.get("unknown") else ""
        return f"{counts['tokens']['text']:,} tokens{unknown}"

    def hashed(self, splits: dict[str, Pieces], origin: dict[str, Any], where: str) -> Corpus:
        """A corpus of these splits, their hashes compared."""
        hashes = {split: sha256_of(piece.text for piece in pieces()) for split, pieces in splits.items()}
        for split, digest in hashes.items():
            self.compare(f"{split}.text", digest, f"{where}, {split}")
        return Corpus(splits, {**origin, "sha256": hashes})


@dataclass(frozen=True, kw_only=True)
class SplitText(TextSet):
    """Text in files for each split.

    Attributes:
        names: names that people have for the files of each split, without what they are packed with; may be patterns.
        shards: how many files a pattern must find, by split.
        first: how many of these are taken, in the order of their names; all where it says nothing.
        folders: folders below the given one to look in as well.
        vocabulary: names of a file with the official words, which the level ``words`` needs.
        hub_blank: what an empty line on the hub is in the original files.
    """

    names: Mapping[str, tuple[str, ...]]
    shards: dict[str, int] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    hub_blank: str = ""

    def needed_files(self) -> tuple[str, ...]:
        return tuple(self.names[split][0] for split in self.splits)

    def corpus(self, variant: str, folder: Path | None) -> Corpus:
        if folder is None:
            downloaded, origin = download(self)
            rows = {
                split: partial(row_pieces, downloaded[split][HUB_COLUMN], self.hub_blank)
                for split in self.splits
            }
            return self.hashed({**rows}, origin, on_hub(self))
        splits = {split: partial(pieces_of, self._shards(folder, split)) for split in self.splits}
        corpus = self.hashed({**splits}, self.origin(), f"--from {folder}")
        if variant == "words" and self.vocabulary:
            corpus.words = self._official_words(folder)
        return corpus

    def _shards(self, folder: Path, split: str) -> list[Path]:
        paths, expected = need_files(folder, self.folders, self.names[split]), self.shards.get(split)
        paths = paths[: self.first.get(split)]
        if expected not in (None, len(paths)):
            raise UserError(f"--from {folder}: {len(paths)} of the {expected} files {self.names[split][0]}")
        return paths

    def _official_words(self, folder: Path) -> list[str]:
        path = need_files(folder, self.folders, self.vocabulary)[0]
        lines = read_packed(path).decode(errors="replace").splitlines()
        words = [line.split()[0] for line in lines if line.strip()]
        for needed in (self.reading.line_end, self.reading.unknown):
            if needed not in words:
                raise UserError(f"{path}: no {needed} among its {len(words)} words; use the original file")
        return list(dict.fromkeys(words))


@dataclass(frozen=True, kw_only=True)
class WholeText(TextSet):
    """Text in one file, cut at known bytes.

    Attributes:
        names: that people have for the file, without what it is packed with.
        cut: bytes of each split, in order.
        folders: folders below the given one to look in as well.
        prefix: a longer file is cut off after the last split.
    """

    names: tuple[str, ...]
    cut: dict[str, int]
    folders: tuple[str, ...] = ()
    prefix: bool = False

    def needed_files(self) -> tuple[str, ...]:
        return self.names[:1]

    def corpus(self, variant: str, folder: Path | None) -> Corpus:
        if folder is None:
            downloaded, origin = download(self)
            content = "".join(row for split in self.splits for row in downloaded[split][HUB_COLUMN]).encode()
            return self._cut(content, on_hub(self), origin)
        path = need_files(folder, self.folders, self.names)[0]
        return self._cut(read_packed(path), str(path), self.origin())

    def _cut(self, content: bytes, where: str, origin: dict[str, Any]) -> Corpus:
        size = sum(self.cut.values())
        if self.prefix:
            content = content[:size]
        if len(content) != size:
            raise UserError(
                f"{where} has {len(content):,} bytes, {self.name} has {size:,}; use the original file"
            )
        digest = sha256_of([content])
        self.compare("whole", digest, where)
        return Corpus(cut_at(content, self.cut), {**origin, "sha256": {"whole": digest}})


@dataclass(frozen=True, kw_only=True)
class Books(TextSet):
    """A folder of ``.txt`` files: all of train, val and test; or books, of which the last twentieths are held out.

    Three or more books are held out by file, one or two by line.
    """

    def corpus(self, variant: str, folder: Path | None) -> Corpus:
        assert folder is not None  # there is no other way, and `prepare` reports it
        return self.hashed(_books(folder), self.origin(), f"--from {folder}")


def _books(folder: Path) -> dict[str, Pieces]:
    named = {split: files_of(folder, (), names) for split, names in _NAMED.items()}
    if any(named.values()):
        _require_all(folder, named)
        return {split: partial(pieces_of, paths) for split, paths in named.items()}
    paths = glob_packed(folder, "**/*.txt")
    if not paths:
        raise UserError(f"--from {folder}: no .txt files in it{AS}")
    n_held = max(1, round(len(paths) / 20))
    if len(paths) >= 3:
        shares = {TRAIN: paths[: -2 * n_held], VAL: paths[-2 * n_held : -n_held], TEST: paths[-n_held:]}
        return {split: partial(pieces_of, mine) for split, mine in shares.items()}
    books = [read_packed(path) for path in paths]
    content = b"".join(books)
    edges = [0, *(content.find(b"\n", len(content) * n // 20) + 1 for n in (18, 19)), len(content)]
    if sorted(set(edges)) != edges:
        raise UserError(f"--from {folder}: too few lines to cut val and test from; give more text")
    return dict(zip(SPLITS, cut_at_lines(books, edges), strict=True))


def _require_all(folder: Path, named: dict[str, list[Path]]) -> None:
    """Refuses some files with names of splits where others are missing: the rest would be taken for books."""
    found = ", ".join(path.name for paths in named.values() for path in paths)
    for split, paths in named.items():
        if not paths:
            raise UserError(
                f"--from {folder}: {found}, but no {' or '.join(_NAMED[split])}{AS}, for the split {split}; add it, "
                f"or rename {found} if these are books"
            )


@dataclass(frozen=True, kw_only=True)
class StandardLibrary(TextSet):
    """The ``*.py`` files of the running Python's standard library, sorted by name, tests left out.

    A file's split depends on the hash of its name alone: about one in twenty is for validation, one for test.
    """

    generated = True

    def corpus(self, variant: str, folder: Path | None) -> Corpus:
        root = Path(sysconfig.get_paths()["stdlib"])
        names = sorted(
            path.relative_to(root).as_posix()
            for path in root.rglob("*.py")
            if not _LEFT_OUT.intersection(path.relative_to(root).parts[:-1])
        )
        paths: dict[str, list[Path]] = {split: [] for split in self.splits}
        for name in names:
            place = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 20
            paths[_HELD_OUT.get(place, TRAIN)].append(root / name)
        if not all(paths.values()):
            raise UserError(f"this Python keeps only {len(names)} files of its standard library; use another")
        origin = self.generated_origin(f"Python {platform.python_version()}", files=len(names))
        return self.hashed(
            {split: partial(pieces_of, mine) for split, mine in paths.items()}, origin, str(root)
        )
