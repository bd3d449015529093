"""Kinds of text for language models, and how their text becomes rows of tokens: from files, the hub, or this Python.

Works piece by piece. The raw text is not copied: the manifest contains its SHA-256 and this fact.
"""

import hashlib
import io
import platform
import re
import sysconfig
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from repro.data.data_set import GPT2, SPLITS, TEST, TRAIN, VAL, DataSet, Options, subword_options
from repro.data.hub import download, on_hub
from repro.data.packed import AS, REMOVED, decoded, glob_packed, open_packed, plain, read_packed, sha256_of
from repro.data.store import Manifest, StoreWriter
from repro.data.table import BLOCK, ids_of
from repro.data.tokenizers.loading import AnyTokenizer
from repro.data.tokenizers.tokenizer import Gpt2Bpe
from repro.data.tokenizers.vocabulary import Bytes, Chars, Ids, Words, characters
from repro.errors import UserError

PIECE_BYTES = 2**23
HUB_COLUMN = "text"
NEWLINE = 10
_MIN_COUNT = {"words": 1, "words-min3": 3}
_TITLE = re.compile(rb" = [^=\n](.*[^=\n])? = ?\r*\n")
_NAMED = {TRAIN: ("train.txt",), VAL: ("val.txt", "valid.txt"), TEST: ("test.txt",)}  # splits of books
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
# Where the hash of a file's name falls among twenty decides its split, in every version of Python.
_HELD_OUT = {0: VAL, 1: TEST}


class Piece(NamedTuple):
    """Some bytes of a split.

    Attributes:
        text: ends at the end of a line.
        begins: whether a document begins with it.
    """

    text: bytes
    begins: bool = False


@dataclass(frozen=True)
class HubLines:
    """A column of the hub, each row a line of a file; an empty one is ``blank`` there."""

    column: Iterable[object]
    blank: str


Document = Path | bytes | HubLines
Corpus = Mapping[str, Sequence[Document]]  # the documents of each split


def pieces_of(documents: Sequence[Document], split: str | None = None) -> Iterator[Piece]:
    """The text of documents, one after another.

    Args:
        documents: of a split.
        split: its name, where the text must be UTF-8; None reads any bytes.

    Raises:
        UserError: a line is not UTF-8; names it and its file, or else the split.
    """
    for document in documents:
        if isinstance(document, HubLines):
            lines = (f"{str(row).removesuffix(chr(10)) or document.blank}\n" for row in document.column)
            while block := "".join(islice(lines, BLOCK)):
                yield Piece(block.encode())
            continue
        with open_packed(document) if isinstance(document, Path) else io.BytesIO(document) as file:
            lines_before, begins = 0, True
            while text := file.read(PIECE_BYTES) + file.readline():
                if split and not _is_utf8(text):
                    for number, line in enumerate(io.BytesIO(text), lines_before + 1):
                        decoded(line, f"{document if isinstance(document, Path) else split}, line {number}")
                lines_before += text.count(b"\n")
                yield Piece(text, begins)
                begins = False


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def articles(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Splits a text into its articles. An article begins at a line `` = Title = `` between empty lines."""
    lines = (line for piece in pieces for line in io.BytesIO(piece.text))
    before, line, article = b"", next(lines, b""), list[bytes]()
    while line:
        after = next(lines, b"")
        title = not before.strip() and not after.strip() and _TITLE.fullmatch(line)
        if title and any(text.strip() for text in article):
            yield Piece(b"".join(article), begins=True)
            article = []
        article.append(line)
        before, line = line, after
    yield Piece(b"".join(article), begins=True)


@dataclass(frozen=True, kw_only=True)
class TextSet(DataSet):
    """Text for language models, at the levels ``words``, ``words-min3`` (words seen at least three times in training,
    the others are the unknown word), ``bytes``, ``bytes-nonl`` (newlines left out), ``chars``, ``bpe`` and ``gpt2``
    (GPT-2's subwords under its own numbers, ends of lines left out).

    Attributes:
        folders: folders below the given one to look in as well.
        line_end: word for the end of a line.
        unknown: word for words out of the vocabulary.
        vocabulary: names of a file with the official words, which the level ``words`` needs.
        sentences: each line is a sentence without context; the store contains where each begins.
        seen_bytes: only bytes that occur in training are symbols; else all 256 are.
        strip_lines: blanks at the ends of lines are no characters.
        documents: the units whose beginnings the store contains: files, or the articles in them
            (:func:`articles`); None for a text without documents.
    """

    parts: tuple[str, ...] = ("text",)
    aliases: dict[str, str] = field(default_factory=lambda: {"valid": VAL})
    folders: tuple[str, ...] = ()
    line_end: str = "<eos>"
    unknown: str = "<unk>"
    vocabulary: tuple[str, ...] = ()
    sentences: bool = False
    seen_bytes: bool = False
    strip_lines: bool = False
    documents: Literal["files", "articles"] | None = None

    @abstractmethod
    def corpus(self, folder: Path | None) -> tuple[Corpus, dict[str, Any], str]:
        """The raw text, its origin for the manifest and for messages.

        Args:
            folder: its files; None uses the hub, or generates.

        Raises:
            UserError: a file is missing, cannot be read, or is not the known content; the hub cannot be reached.
        """

    def hashes(self, corpus: Corpus, source: str) -> dict[str, str]:
        """SHA-256 of each split, compared with the known ones."""
        digests = {}
        for split, documents in corpus.items():
            digests[split] = sha256_of(piece.text for piece in pieces_of(documents))
            self.compare(f"{split}.text", digests[split], f"{source}, {split}")
        return digests

    def find(self, folder: Path, names: tuple[str, ...], needed: bool = True) -> list[Path]:
        """The files of the first name that exists.

        Raises:
            UserError: there are none, and they are needed.
        """
        bases = (folder, *(folder / inner for inner in self.folders))
        tried = (glob_packed(base, name) for base in bases for name in names)
        paths = next(filter(None, tried), [])
        if needed and not paths:
            raise UserError(f"--from {folder}: no {' or '.join(names)}{AS}")
        return paths

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        """Writes tokeniser and tokens of every split. A row is a document, a sentence or a split.

        Raises:
            UserError: errors of :meth:`DataSet.fill`, or the text cannot be read at this level.
        """
        corpus, origin, source = self.corpus(options.from_dir)
        hashes = self.hashes(corpus, source)
        if not any(piece.text for piece in pieces_of(corpus[TRAIN])):
            raise UserError(f"{source}: {TRAIN} is empty; it needs text to learn from")
        tokenizer: AnyTokenizer
        if variant == GPT2 or subword_options(variant):
            train = self._prepared(variant, corpus, TRAIN)
            texts = (piece.text.decode().split("\n") for piece in train)
            tokenizer = self.subwords(variant, options, chain.from_iterable(texts))
        elif variant == "words" and self.vocabulary and options.from_dir is not None:
            words = self._official_words(options.from_dir)
            tokenizer = Words.from_symbols(words, line_end=self.line_end, unknown=self.unknown)
        else:
            tokenizer = self._vocabulary_of(variant, corpus)
        counts = {split: self._write(variant, corpus, split, tokenizer, writer) for split in corpus}
        row = "sentence" if self.sentences else "document" if self.documents else "split"
        origin = {**origin, "sha256": hashes, "raw_text": "not kept"}
        return self.manifest(variant, origin, counts, writer.write_tokenizer(tokenizer), row)

    def _prepared(self, level: str, corpus: Corpus, split: str) -> Iterator[Piece]:
        """Pieces of a split as a level reads them."""
        pieces = pieces_of(corpus[split], None if level.startswith("bytes") else split)
        found = REMOVED[split] = Counter()
        for text, begins in articles(pieces) if self.documents == "articles" else pieces:
            if not level.startswith(("bytes", "chars")):  # these keep every byte
                text = plain(text, begins, found)
            if level == "chars" and self.strip_lines:
                text = b"\n".join(line.strip() for line in text.split(b"\n"))
            elif level.startswith("words") and not text.endswith(b"\n"):
                text += b"\n"  # the end of the file ends its last line
            yield Piece(text, begins)

    def _official_words(self, folder: Path) -> list[str]:
        path = self.find(folder, self.vocabulary)[0]
        lines = read_packed(path).decode(errors="replace").splitlines()
        words = [line.split()[0] for line in lines if line.strip()]
        for needed in (self.line_end, self.unknown):
            if needed not in words:
                raise UserError(f"{path}: no {needed} among its {len(words)} words; use the original file")
        return list(dict.fromkeys(words))

    def _vocabulary_of(self, level: str, corpus: Corpus) -> Words | Bytes | Chars:
        """The vocabulary of a level, from the training split.

        Words: the line end first, then by falling frequency, equally frequent ones in the order in which they first
        occur. Bytes and characters: in their own order.

        Source: vocabulary of Transformer-XL's code.
        """
        train = (piece.text for piece in self._prepared(level, corpus, TRAIN))
        if level.startswith("words"):
            return self._counted_words(_MIN_COUNT[level], train)
        if level == "chars":
            codes = {int(code) for piece in train for code in np.unique(characters(piece))}
            return Chars.from_symbols([chr(code) for code in sorted(codes)])
        dropped = [NEWLINE] if level == "bytes-nonl" else []
        counts = np.full(256, not self.seen_bytes, np.int64)
        for piece in train if self.seen_bytes else ():
            counts += np.bincount(np.frombuffer(piece, np.uint8), minlength=256)
        symbols = np.flatnonzero(counts).tolist()
        return Bytes.from_symbols([byte for byte in symbols if byte not in dropped], dropped=dropped)

    def _counted_words(self, min_count: int, train: Iterator[bytes]) -> Words:
        counts = Counter(word for piece in train for word in piece.decode().split())
        words = [word for word, n in counts.most_common() if n >= min_count and word != self.line_end]
        if min_count > 1 and self.unknown not in words:
            words.insert(0, self.unknown)
        unknown = self.unknown if self.unknown in words else None
        return Words.from_symbols([self.line_end, *words], line_end=self.line_end, unknown=unknown)

    def _write(
        self, level: str, corpus: Corpus, split: str, tokenizer: AnyTokenizer, writer: StoreWriter
    ) -> dict[str, Any]:
        """Writes the tokens of a split; returns its counts for the manifest.

        Raises:
            UserError: a word, byte or character that training did not have; or no text.
        """
        column = writer.column(split, "text", ids_of(tokenizer.size))
        lines = unknown = length = 0  # the length of the row that has not ended yet
        if self.sentences:  # the mark before the first sentence, as before every other
            column.add(np.array([tokenizer.eos_id]), [1])
        for number, (text, begins) in enumerate(self._prepared(level, corpus, split)):
            if self.documents and begins and number:
                column.end_row(length)
                length = 0
            ids, missed = _encoded(text, tokenizer, split)
            if self.sentences:  # whole lines, each of which ends with the symbol
                column.add(ids, np.diff(np.flatnonzero(ids == tokenizer.eos_id), prepend=-1).tolist())
            else:
                column.add(ids, ())
                length += len(ids)
            lines, unknown = lines + text.count(b"\n"), unknown + missed
        if not self.sentences:
            column.end_row(length)
        if column.values < 2:
            raise UserError(f"the files of {split} have {column.values} tokens; there is nothing to predict")
        counted = {"examples": lines, "tokens": {"text": column.values}}
        return counted | ({"unknown": unknown} if tokenizer.unk_id is not None else {})

    def size_of(self, counts: dict[str, Any]) -> str:
        unknown = f" ({counts['unknown']:,} unknown)" if counts.get("unknown") else ""
        return f"{counts['tokens']['text']:,} tokens{unknown}"


def _encoded(piece: bytes, tokenizer: AnyTokenizer, split: str) -> tuple[Ids, int]:
    """Tokens of the next piece of a split, and the number of unknown ones."""
    if not isinstance(tokenizer, Words | Bytes | Chars):
        texts = piece.decode().removesuffix("\n").split("\n")
        ends = () if isinstance(tokenizer, Gpt2Bpe) else (tokenizer.eos_id,)
        coded = tokenizer.encode_batch(texts)
        return np.fromiter((i for ids in coded for i in (*ids, *ends)), np.int32), 0
    try:
        return tokenizer.known_ids(piece)
    except UserError as error:
        raise UserError(f"{split}: {error}, which is learned from {TRAIN}") from None


@dataclass(frozen=True, kw_only=True)
class SplitText(TextSet):
    """Text in files for each split.

    Attributes:
        names: names of the files of each split, without the suffix of a compression; may be patterns.
        shards: how many files of a pattern are taken, in the order of their names, and must be there; by split.
        hub_blank: what an empty line on the hub is in the original files.
    """

    names: Mapping[str, tuple[str, ...]]
    shards: dict[str, int] = field(default_factory=dict)
    hub_blank: str = ""

    def corpus(self, folder: Path | None) -> tuple[Corpus, dict[str, Any], str]:
        if folder is None:
            downloaded, origin = download(self)
            rows = {split: [HubLines(downloaded[split][HUB_COLUMN], self.hub_blank)] for split in self.splits}
            return rows, origin, on_hub(self)
        splits = {}
        for split in self.splits:
            expected = self.shards.get(split)
            splits[split] = self.find(folder, self.names[split])[:expected]
            if expected not in (None, n_files := len(splits[split])):
                raise UserError(f"--from {folder}: {n_files} of the {expected} files {self.names[split][0]}")
        return splits, self.origin(), f"--from {folder}"


@dataclass(frozen=True, kw_only=True)
class WholeText(TextSet):
    """Text in one file, cut at known bytes.

    Attributes:
        names: names of the file, without the suffix of a compression.
        cut: bytes of each split, in order.
        prefix: a longer file is cut off after the last split.
    """

    names: tuple[str, ...]
    cut: dict[str, int]
    prefix: bool = False

    def corpus(self, folder: Path | None) -> tuple[Corpus, dict[str, Any], str]:
        if folder is None:
            downloaded, origin = download(self)
            rows = (str(row) for split in self.splits for row in downloaded[split][HUB_COLUMN])
            content, source = "".join(rows).encode(), on_hub(self)
        else:
            path = self.find(folder, self.names)[0]
            content, source, origin = read_packed(path), str(path), self.origin()
        size = sum(self.cut.values())
        content = content[:size] if self.prefix else content
        if len(content) != size:
            raise UserError(
                f"{source} has {len(content):,} bytes, {self.name} has {size:,}; use the original file"
            )
        edges = pairwise([0, *accumulate(self.cut.values())])
        return {split: [content[a:b]] for split, (a, b) in zip(self.cut, edges, strict=True)}, origin, source

    def hashes(self, corpus: Corpus, source: str) -> dict[str, str]:
        digest = sha256_of(piece.text for documents in corpus.values() for piece in pieces_of(documents))
        return {"whole": self.compare("whole", digest, source)}


@dataclass(frozen=True, kw_only=True)
class Books(TextSet):
    """A folder of ``.txt`` files: all of train, val and test; or books, of which the last twentieths are held out.

    Three or more books are held out by file, one or two by line.
    """

    def corpus(self, folder: Path | None) -> tuple[Corpus, dict[str, Any], str]:
        assert folder is not None  # there is no other way, and `prepare` reports it
        return self._splits(folder), self.origin(), f"--from {folder}"

    def _splits(self, folder: Path) -> Corpus:
        named = {split: self.find(folder, names, needed=False) for split, names in _NAMED.items()}
        if present := ", ".join(path.name for paths in named.values() for path in paths):
            for split, paths in named.items():
                if not paths:
                    raise UserError(
                        f"--from {folder}: {present}, but no {' or '.join(_NAMED[split])}{AS}, for the split {split}; "
                        f"add it, or rename {present} if these are books"
                    )
            return named
        paths = self.find(folder, ("**/*.txt",))
        n_held = max(1, round(len(paths) / 20))
        if len(paths) >= 3:
            return {TRAIN: paths[: -2 * n_held], VAL: paths[-2 * n_held : -n_held], TEST: paths[-n_held:]}
        books = [read_packed(path) for path in paths]
        content = b"".join(books)
        edges = [0, *(content.find(b"\n", len(content) * n // 20) + 1 for n in (18, 19)), len(content)]
        if sorted(set(edges)) != edges:
            raise UserError(f"--from {folder}: too few lines to cut val and test from; give more text")
        ends = {*edges, *accumulate(map(len, books))}  # a split begins a document of its own
        return {
            split: [content[a:b] for a, b in pairwise(sorted(edge for edge in ends if begin <= edge <= end))]
            for split, (begin, end) in zip(SPLITS, pairwise(edges), strict=True)
        }


@dataclass(frozen=True, kw_only=True)
class StandardLibrary(TextSet):
    """The ``*.py`` files of the running Python's standard library, sorted by name, tests left out.

    A file's split depends on the hash of its name alone: about one in twenty is for validation, one for test.
    """

    generated = True

    def corpus(self, folder: Path | None) -> tuple[Corpus, dict[str, Any], str]:
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
        origin = self.generated_origin(f"Python {platform.python_version()}", files=len(names))
        return paths, origin, str(root)
