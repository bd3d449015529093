"""Data sets of trees of sentences: the sections of a licensed treebank, trees one a line, or generated ones.

Trees are stripped to what parsers predict (see :mod:`repro.trees`). A store has one vocabulary
for sentences and trees: byte-level BPE learned from the sentences to train on, and a symbol of its own for each
bracket. Nothing is ever whole in memory. Needs no torch.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from repro.data.data_set import TRAIN, DataSet, Options
from repro.data.packed import AS, TextFile, find_packed, glob_packed, need_packed, plain_name
from repro.data.sets.treebank import sentence_grammar
from repro.data.store import Manifest, StoreWriter
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.errors import UserError
from repro.trees import LEAF, Parse, read_parses, stripped, symbols_of, write_parse

WORDS, BRACKETS, TREES = PARTS = ("words", "brackets", "trees")
SECTIONS = {"train": range(2, 22), "val": range(22, 23), "test": range(23, 24)}
SENTENCES = {"train": 39_832, "val": 1_700, "test": 2_416}  # of those sections, in the third release
_FOLDERS = ("", "wsj", "mrg/wsj", "parsed/mrg/wsj", "combined/wsj", "treebank_3/parsed/mrg/wsj")
Splits = Mapping[str, Callable[[], Iterator[Parse]]]


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
        """Gives the trees of each split as they are; adds every file that was read to their origin.

        Raises:
            UserError: a file or a section is missing.
        """
        facts: dict[str, dict[str, Any]] = {}
        files = find_files(options.folder, self.extra)
        return {split: partial(_trees, paths, facts) for split, paths in files.items()}, self.origin(
            files=facts
        )

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


def _write_text(split: str, trees: Iterator[Parse], writer: StoreWriter, symbols: set[str]) -> dict[str, Any]:
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
        row, line = symbols_of(tree), write_parse(tree)
        text = {WORDS: " ".join(tree.words), BRACKETS: " ".join(row), TREES: line}
        for part, column in columns.items():
            column.add_line(text[part])
        digest.update(f"{line}\n".encode())
        if split == TRAIN:
            symbols.update(row)
    if not columns[WORDS].rows:
        raise UserError(f"{split} has no sentence in it; give files with trees")
    return {"without_words": without_words, "sha256": digest.hexdigest()}


def find_files(folder: Path, extra: str) -> dict[str, dict[str, Path]]:
    """The files of each split, by their names for the manifest.

    Args:
        folder: with ``train.trees``, ``val.trees`` and ``test.trees``, or with the folders ``02`` to ``23`` of ``.mrg``
            files, in it or where the treebank's releases have them.
        extra: pattern of files with trees to train on beside the sections, one of which must be there; or empty.

    Raises:
        UserError: a file or a section is missing.
    """
    if any(find_packed(folder, f"{split}.trees") for split in SECTIONS):
        names = {split: f"{split}.trees" for split in SECTIONS}
        remedy = "it goes with the other splits' trees"
        return {split: {name: need_packed(folder, name, remedy)} for split, name in names.items()}
    inside = [folder / inner for inner in _FOLDERS]
    root = next((base for base in inside if any((base / f"{n:02}").is_dir() for n in range(25))), None)
    if root is None:
        raise UserError(
            f"--from {folder}: neither train.trees, val.trees and test.trees nor sections 02 to 23 of .mrg files in "
            f"it, in {', in '.join(_FOLDERS[1:])}"
        )
    files: dict[str, dict[str, Path]] = {split: {} for split in SECTIONS}
    for split, numbers in SECTIONS.items():
        for section in (f"{n:02}" for n in numbers):
            paths = glob_packed(root / section, "*.[mM][rR][gG]")
            if not paths:
                raise UserError(
                    f"--from {folder}: no .mrg files in section {root / section}; sections 02 to 23 are needed"
                )
            files[split] |= {f"{section}/{plain_name(path)}": path for path in paths}
    if extra:
        more = glob_packed(folder, extra)
        if not more:
            raise UserError(
                f"--from {folder}: no {extra}{AS}, whose trees are trained on beside the sections'"
            )
        files[TRAIN] |= {plain_name(path): path for path in more}
    return files


def _trees(paths: dict[str, Path], facts: dict[str, dict[str, Any]]) -> Iterator[Parse]:
    """The trees of files; adds the facts of every file that was read."""
    for name, path in paths.items():
        lines = TextFile(path)
        yield from read_parses(lines, str(path))
        facts[name] = lines.facts()
