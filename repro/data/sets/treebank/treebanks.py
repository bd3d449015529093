"""Data sets of trees of sentences: the sections of a licensed treebank, trees one a line, or generated ones.

Trees are stripped to what parsers predict (see :mod:`repro.data.sets.treebank.parse_trees`). A store has one vocabulary
for sentences and trees: byte-level BPE learned from the sentences to train on, and a symbol of its own for each
bracket. Nothing is ever whole in memory. Needs no torch.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from repro.data.data_set import TRAIN, TokenSet
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, FORMS, TextFile, find_packed, glob_packed, plain_name
from repro.data.sets.treebank import sentence_grammar
from repro.data.sets.treebank.parse_trees import (
    LEAF,
    Phrase,
    checked_root,
    read_trees,
    stripped,
    symbols_of,
    words_of,
    written,
)
from repro.data.store import StoreWriter
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.errors import UserError

WORDS, BRACKETS, TREES = PARTS = ("words", "brackets", "trees")
SECTIONS = {"train": range(2, 22), "val": range(22, 23), "test": range(23, 24)}
SENTENCES = {"train": 39_832, "val": 1_700, "test": 2_416}  # of those sections, in the third release
_FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "combined/wsj", "treebank_3/parsed/mrg/wsj")
_ENDS = tuple(f".mrg{form}" for form in FORMS)


@dataclass
class Bank:
    """A treebank at hand.

    Attributes:
        splits: by name, what gives the trees of a split below ``TOP``, as they are.
        origin: how it was obtained, for the manifest; every file that was read is added to it.
        known: sentences that a split should have, where that is known.
    """

    splits: dict[str, Callable[[], Iterator[Phrase]]]
    origin: dict[str, Any]
    known: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Treebank(TokenSet):
    """A licensed treebank.

    A row of a store has ``words``, a sentence; ``brackets``, its tree as a row of symbols; and, in splits that are
    evaluated, ``trees``, the tree with its parts of speech in one line of text, which is what a scorer reads.

    Attributes:
        extra: pattern of files with trees of other makers, to train on beside the treebank's sections; or empty.
    """

    parts: tuple[str, ...] = PARTS
    extra: str = ""

    def refusals(self, options: Options) -> Iterator[tuple[bool, str]]:
        yield from super().refusals(options)
        own = f"{self.name} learns its vocabulary, with symbols for its brackets"
        yield options.tokenizer is not None, f"{own}; leave out --tokenizer"

    def bank(self, options: Options) -> Bank:
        """Finds the trees.

        Raises:
            UserError: a file or a section is missing.
        """
        return from_files(options.folder, self.extra, self.origin())

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        bank, symbols = self.bank(options), set[str]()
        texts = {split: _write_text(split, bank, writer, symbols) for split in self.splits}
        table = [LEAF, *sorted(symbols - {LEAF})]
        tokenizer = WordsAndSymbols.train(writer.lines(TRAIN, WORDS), table, self.learned(options))
        counts = {split: writer.encode_split(split, (WORDS, BRACKETS), tokenizer) for split in self.splits}
        deviations = [
            f"{split} has {counts[split]['examples']:,} sentences, the treebank's sections {expected:,}"
            for split, expected in bank.known.items()
            if counts[split]["examples"] != expected
        ]
        facts = {
            key: {split: entry[key] for split, entry in texts.items()} for key in next(iter(texts.values()))
        }
        described = {**writer.write_tokenizer(tokenizer), "symbols": len(table)}
        return self.manifest(variant, {**bank.origin, **facts, "deviations": deviations}, counts, described)


class GeneratedTreebank(Treebank):
    """Trees of a small grammar."""

    generated = True
    sizable = True

    def bank(self, options: Options) -> Bank:
        return Bank(
            sentence_grammar.splits(options.size),
            self.generated_origin(str(sentence_grammar.GENERATOR_VERSION)),
        )


def _write_text(split: str, bank: Bank, writer: StoreWriter, symbols: set[str]) -> dict[str, Any]:
    """Writes the text of every part of a split; counts trees without words, and collects the symbols of training."""
    from tqdm import tqdm

    columns = {part: writer.text(split, part) for part in (PARTS[:2] if split == TRAIN else PARTS)}
    digest, without_words = hashlib.sha256(), 0
    # a progress bar only on a terminal
    for raw in tqdm(bank.splits[split](), split, unit=" trees", unit_scale=True, disable=None):
        tree = stripped(raw)
        if tree is None:
            without_words += 1
            continue
        row, line = symbols_of(tree), written(tree)
        text = {WORDS: " ".join(word.text for word in words_of(tree)), BRACKETS: " ".join(row), TREES: line}
        for part, column in columns.items():
            column.add_line(text[part])
        digest.update(f"{line}\n".encode())
        if split == TRAIN:
            symbols.update(row)
    if not columns[WORDS].rows:
        raise UserError(f"{split} has no sentence in it; give files with trees")
    return {"without_words": without_words, "sha256": digest.hexdigest()}


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
    return chain(first(), second())


def _trees_of(paths: list[Path], root: Path, files: dict[str, dict[str, Any]]) -> Iterator[Phrase]:
    """The trees of ``.mrg`` files."""
    for path in paths:
        lines = TextFile(path)
        for line, tree in read_trees(lines, str(path)):
            yield checked_root(tree, f"{path}, line {line}", bare=False)
        files[path.relative_to(root).as_posix()] = lines.facts()


def _trees_by_line(paths: list[Path], files: dict[str, dict[str, Any]]) -> Iterator[Phrase]:
    """The trees of files with one in each line.

    Raises:
        UserError: a line without a tree or with several, or a malformed tree.
    """
    for path in paths:
        lines = TextFile(path)
        for number, line in enumerate(lines, 1):
            at = f"{path}, line {number}"
            trees = [tree for _, tree in read_trees([line], str(path), number)]
            if len(trees) != 1:
                raise UserError(f"{at}: {len(trees)} trees; each line needs one")
            yield checked_root(trees[0], at, bare=True)
        files[plain_name(path)] = lines.facts()


_LICENCE = "Linguistic Data Consortium, LDC99T42; bring a licensed copy, pass nothing on"
_BY_LINE = "train.trees, val.trees and test.trees, one tree a line"
_SECTIONS = "sections 02 to 23 of .mrg files"
_WSJ = Treebank(
    name="wsj-trees",
    title="Penn Treebank, Wall Street Journal (Marcus et al. 1993): sections 02-21, 22, 23, as trees",
    licence=_LICENCE,
    size="about 25 MB, 39,832 sentences to train on",
    vocab_size=16384,
    files=(_SECTIONS, f"or {_BY_LINE}"),
)
_WSJ_AND_MORE = Treebank(
    name="wsj-trees-semi",
    title="Penn Treebank, Wall Street Journal, with trees that other parsers made to train on; sections 22, 23",
    licence=f"{_LICENCE}; the other trees' own",
    size="about 10 GB (estimated) with the 17 million sentences of Vinyals et al. 2015",
    vocab_size=32768,
    extra="extra*.trees",
    files=(_SECTIONS, "extra*.trees", f"or {_BY_LINE}"),
)
_GRAMMAR = GeneratedTreebank(
    name="grammar-trees",
    title="English-like sentences with their trees, whose ambiguities the words decide, generated",
    licence="MIT (generated by this package)",
    size="4 MB at the default 20,000 training trees; any size",
    vocab_size=460,
)
TREEBANKS = (_WSJ, _WSJ_AND_MORE, _GRAMMAR)
