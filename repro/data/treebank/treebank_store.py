"""From trees to the files of a store, in blocks: what is in memory does not grow with the treebank. Needs no torch.

A store of trees has the parts ``words``, the sentences; ``brackets``, each tree as a row of symbols; and, of the splits
that are evaluated, ``trees``, each with its parts of speech in one line of text, which is what a scorer reads.
"""

import hashlib
from contextlib import ExitStack
from typing import Any

from repro.data.store.data_set import TRAIN
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.store_writer import StoreWriter
from repro.data.tokenizers.parse_symbols import WordsAndSymbols
from repro.data.treebank.parse_trees import LEAF, stripped, symbols_of, words_of, written
from repro.data.treebank.treebank_files import Bank
from repro.data.treebank.treebank_sources import Treebank
from repro.errors import UserError

WORDS, BRACKETS, TREES = PARTS = ("words", "brackets", "trees")


def fill_treebank(data_set: Treebank, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Writes text, vocabulary and tokens of every split; see ``DataSet.fill``.

    Raises:
        UserError: beside what is said there, a tree is malformed, or a split is empty.
    """
    bank = data_set.bank(options)
    texts = {split: _write_text(split, bank, writer) for split in data_set.splits}
    symbols = [LEAF, *sorted(texts[TRAIN].pop("symbols"))]
    lines = writer.lines(f"{TRAIN}.{WORDS}")
    tokenizer = WordsAndSymbols.train(lines, symbols, data_set.learned(options))
    written = writer.write_tokenizer(tokenizer)
    counts = {split: writer.encode_split(split, (WORDS, BRACKETS), tokenizer) for split in data_set.splits}
    facts = {
        "sha256": {split: entry["sha256"] for split, entry in texts.items()},
        "without_words": {split: entry["without_words"] for split, entry in texts.items()},
        "deviations": _deviations(bank, counts),
    }
    return Manifest.of(
        data_set, variant, {**bank.origin, **facts}, counts, {**written, "symbols": len(symbols)}
    )


def _deviations(bank: Bank, counts: dict[str, dict[str, Any]]) -> list[str]:
    """Differences in length between a licensed treebank and the one of the papers."""
    return [
        f"{split} has {counts[split]['examples']:,} sentences, the treebank's sections {expected:,}"
        for split, expected in bank.known.items()
        if counts[split]["examples"] != expected
    ]


def _write_text(split: str, bank: Bank, writer: StoreWriter) -> dict[str, Any]:
    """Writes the text of every part of a split; counts trees without words, and collects the symbols of training."""
    from tqdm import tqdm

    parts = (WORDS, BRACKETS) if split == TRAIN else PARTS
    symbols: set[str] = set()
    digest, examples, without_words = hashlib.sha256(), 0, 0
    with ExitStack() as opened:
        files = {part: opened.enter_context(writer.stream(f"{split}.{part}.txt")) for part in parts}
        # a progress bar only on a terminal
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
    facts: dict[str, Any] = {"without_words": without_words, "sha256": digest.hexdigest()}
    return {**facts, "symbols": symbols - {LEAF}} if split == TRAIN else facts
