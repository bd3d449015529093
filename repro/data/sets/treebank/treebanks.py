"""Data sets of trees of sentences: the sections of a licensed treebank, trees one a line, or generated ones.

Trees are stripped to what parsers predict (see :mod:`repro.data.sets.treebank.parse_trees`). A store has one vocabulary
for sentences and trees: byte-level BPE learned from the sentences to train on, and a symbol of its own for each
bracket. Nothing is ever whole in memory. Needs no torch.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from repro.data.data_set import TRAIN, DataSet
from repro.data.manifest import Manifest
from repro.data.options import Options
from repro.data.packed import AS, TextFile, find_packed, glob_packed, need_packed, plain_name
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
Splits = Mapping[str, Callable[[], Iterator[Phrase]]]


@dataclass(frozen=True, kw_only=True)
class Treebank(DataSet):
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

    def trees(self, options: Options) -> tuple[Splits, dict[str, Any]]:
        """Gives the trees of each split below ``TOP``, as they are; adds every file that was read to their origin.

        Raises:
            UserError: a file or a section is missing.
        """
        files: dict[str, dict[str, Any]] = {}
        return find_trees(options.folder, self.extra, files), self.origin(files=files)

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        symbols = set[str]()
        splits, origin = self.trees(options)
        texts = {split: _write_text(split, splits[split](), writer, symbols) for split in self.splits}
        table = [LEAF, *sorted(symbols - {LEAF})]
        tokenizer = WordsAndSymbols.train(writer.lines(TRAIN, WORDS), table, self.learned(options))
        counts = {split: writer.encode_split(split, (WORDS, BRACKETS), tokenizer) for split in self.splits}
        deviations = [
            f"{split} has {counts[split]['examples']:,} sentences, the treebank's sections {expected:,}"
            for split, expected in ({} if self.generated else SENTENCES).items()
            if counts[split]["examples"] != expected and not (self.extra and split == TRAIN)
        ]
        facts = {key: {split: entry[key] for split, entry in texts.items()} for key in texts[TRAIN]}
        described = {**writer.write_tokenizer(tokenizer), "symbols": len(table)}
        return self.manifest(variant, {**origin, **facts, "deviations": deviations}, counts, described)


class GeneratedTreebank(Treebank):
    """Trees of a small grammar."""

    generated = True
    sizable = True

    def trees(self, options: Options) -> tuple[Splits, dict[str, Any]]:
        origin = self.generated_origin(str(sentence_grammar.GENERATOR_VERSION))
        return sentence_grammar.splits(options.size), origin


def _write_text(
    split: str, trees: Iterator[Phrase], writer: StoreWriter, symbols: set[str]
) -> dict[str, Any]:
    """Writes the text of every part of a split; counts trees without words, and collects the symbols of training."""
    from tqdm import tqdm

    columns = {part: writer.text(split, part) for part in (PARTS[:2] if split == TRAIN else PARTS)}
    digest, without_words = hashlib.sha256(), 0
    # a progress bar only on a terminal
    for raw in tqdm(trees, split, unit=" trees", unit_scale=True, disable=None):
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


def find_trees(folder: Path, extra: str, files: dict[str, dict[str, Any]]) -> Splits:
    """Finds the files of every split; reads none yet.

    Args:
        folder: with ``train.trees``, ``val.trees`` and ``test.trees``, one tree a line, or with the folders ``02`` to
            ``23`` of ``.mrg`` files, in it or where the treebank's releases have them.
        extra: pattern of files with trees to train on beside the sections, one of which must be there; or empty.
        files: gets the facts of every file that was read.

    Raises:
        UserError: a file or a section is missing.
    """
    ready = {split: find_packed(folder, f"{split}.trees") for split in SECTIONS}
    if any(ready.values()):
        paths = {
            split: need_packed(folder, f"{split}.trees", "it goes with the other splits' trees")
            for split in ready
        }
        return {split: partial(_trees_by_line, [path], files) for split, path in paths.items()}
    inside = [folder / inner for inner in _FOLDERS]
    root = next((base for base in inside if any((base / f"{n:02}").is_dir() for n in range(25))), None)
    if root is None:
        raise UserError(
            f"--from {folder}: neither train.trees, val.trees and test.trees nor sections 02 to 23 of .mrg files in "
            f"it, in {', in '.join(_FOLDERS[1:])}"
        )
    splits: dict[str, Callable[[], Iterator[Phrase]]] = {}
    for split, numbers in SECTIONS.items():
        sections = [root / f"{n:02}" for n in numbers]
        named = {section: glob_packed(section, "*.[mM][rR][gG]") for section in sections}
        if missing := [section for section, paths in named.items() if not paths]:
            raise UserError(
                f"--from {folder}: no .mrg files in section {missing[0]}; sections 02 to 23 are needed"
            )
        splits[split] = partial(_trees_of, [path for paths in named.values() for path in paths], root, files)
    if extra:
        more = glob_packed(folder, extra)
        if not more:
            raise UserError(
                f"--from {folder}: no {extra}{AS}, whose trees are trained on beside the sections'"
            )
        sections_of_train, lines = splits[TRAIN], partial(_trees_by_line, more, files)
        splits[TRAIN] = lambda: chain(sections_of_train(), lines())
    return splits


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
            place = f"{path}, line {number}"
            trees = [tree for _, tree in read_trees([line], str(path), number)]
            if len(trees) != 1:
                raise UserError(f"{place}: {len(trees)} trees; each line needs one")
            yield checked_root(trees[0], place, bare=True)
        files[plain_name(path)] = lines.facts()
