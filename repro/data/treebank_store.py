"""From trees to the files of a store, in blocks: what is in memory does not grow with the treebank. Needs no torch.

A store of trees has the parts ``words``, the sentences; ``brackets``, each tree as a row of symbols; and, of the splits
that are evaluated, ``trees``, each with its parts of speech in one line of text, which is what a scorer reads.
"""

import hashlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from repro.data import sentence_grammar
from repro.data.manifest import Manifest
from repro.data.parse_symbols import WordsAndSymbols
from repro.data.parse_trees import LEAF, stripped, symbols_of, words_of, written
from repro.data.source import Source
from repro.data.store import StoreWriter
from repro.data.treebank_files import Treebank, from_files
from repro.errors import UserError

WORDS, BRACKETS, TREES = PARTS = ("words", "brackets", "trees")
TRAIN = "train"
_TOKENIZER = "tokenizer.json"


def treebank(source: Source, from_dir: Path | None, size: int | None) -> Treebank:
    """The trees of a source: from files, or generated.

    Args:
        source: of trees.
        from_dir: folder with its files; None generates.
        size: training trees of a generated source; None is its default.

    Raises:
        UserError: a file or a section is missing.
    """
    if from_dir is not None:
        return from_files(source, from_dir)
    origin = {"kind": "generated", "id": source.name, "revision": str(sentence_grammar.GENERATOR_VERSION)}
    return Treebank(sentence_grammar.splits(size), origin)


def fill_treebank(
    source: Source, variant: str, bank: Treebank, tokenizer_given: bool, vocab_size: int, writer: StoreWriter
) -> Manifest:
    """Writes text, vocabulary and tokens of every split; returns the manifest.

    Args:
        source: of trees.
        variant: name of the store.
        bank: its trees.
        tokenizer_given: whether somebody wants to use a tokeniser of their own, which has no symbols for brackets.
        vocab_size: of the vocabulary to learn.
        writer: of the store.

    Raises:
        UserError: a tokeniser was given, a tree is malformed, or nothing is left of a split.
    """
    if tokenizer_given:
        raise UserError(
            f"{source.name} learns its vocabulary, with symbols for its brackets; leave out --tokenizer"
        )
    told = {split: _write_text(split, bank, writer) for split in source.splits}
    symbols = [LEAF, *sorted(told[TRAIN].pop("symbols"))]
    tokenizer = WordsAndSymbols.train(writer.lines(f"{TRAIN}.{WORDS}"), symbols, vocab_size)
    tokenizer.save(writer.folder / _TOKENIZER)
    writer.note(_TOKENIZER)
    counts = {
        split: {
            "examples": told[split]["examples"],
            "tokens": {
                part: writer.encode_part(f"{split}.{part}", tokenizer.encode_batch, tokenizer.size)[1]
                for part in (WORDS, BRACKETS)
            },
        }
        for split in source.splits
    }
    facts = {
        "sha256": {split: found["sha256"] for split, found in told.items()},
        "without_words": {split: found["without_words"] for split, found in told.items()},
        "deviations": _deviations(bank, counts),
    }
    return Manifest.of(
        source,
        variant,
        {**bank.origin, **facts},
        counts,
        {
            "kind": tokenizer.kind,
            "size": tokenizer.size,
            "symbols": len(symbols),
            "file": _TOKENIZER,
            "sha256": tokenizer.sha256,
        },
    )


def _deviations(bank: Treebank, counts: dict[str, dict[str, Any]]) -> list[str]:
    """Where a licensed treebank is not as long as the one that papers have."""
    return [
        f"{split} has {counts[split]['examples']:,} sentences, the treebank's sections {wanted:,}"
        for split, wanted in bank.known.items()
        if counts[split]["examples"] != wanted
    ]


def _write_text(split: str, bank: Treebank, writer: StoreWriter) -> dict[str, Any]:
    """Writes the text of every part of a split; tells how many sentences there are, and of training which symbols."""
    from tqdm import tqdm

    parts = (WORDS, BRACKETS) if split == TRAIN else PARTS
    symbols: set[str] = set()
    digest, examples, without_words = hashlib.sha256(), 0, 0
    with ExitStack() as opened:
        files = {part: opened.enter_context(writer.stream(f"{split}.{part}.txt")) for part in parts}
        # a bar only where somebody looks at it
        for raw in tqdm(bank.splits[split](), split, unit=" trees", unit_scale=True, disable=None):
            tree = stripped(raw)
            if tree is None:
                without_words += 1
                continue
            row, line = symbols_of(tree), written(tree)
            text = {
                WORDS: " ".join(word.text for word in words_of(tree)),
                BRACKETS: " ".join(row),
                TREES: line,
            }
            for part, file in files.items():
                file.write(f"{text[part]}\n".encode())
            digest.update(f"{line}\n".encode())
            examples += 1
            if split == TRAIN:
                symbols.update(row)
    if not examples:
        raise UserError(f"{split} has no sentence in it; give files with trees")
    told: dict[str, Any] = {
        "examples": examples,
        "without_words": without_words,
        "sha256": digest.hexdigest(),
    }
    return {**told, "symbols": symbols - {LEAF}} if split == TRAIN else told
