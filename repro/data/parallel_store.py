"""From a large parallel corpus to the files of a store, in blocks: what is in memory does not grow with the corpus.

The clean training pairs go to disk first, in the store's own text files. The vocabulary is learned from those (its
counts of distinct words are the only thing that grows, with the language rather than with the corpus), then each file
is encoded block by block. No result depends on the size of a block.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from repro.data.manifest import Manifest
from repro.data.parallel import CUT, TRAIN, Bitext
from repro.data.parallel_cleaning import Cleaner, told_in_words
from repro.data.source import Parallel, Source
from repro.data.store import StoreWriter
from repro.data.tokenizers import ByteBpe, Subwords
from repro.errors import UserError


def fill_parallel(
    source: Source,
    variant: str,
    bitext: Bitext,
    given: Subwords | None,
    vocab_size: int,
    writer: StoreWriter,
) -> Manifest:
    """Writes text, tokeniser and tokens of every split; returns the manifest, which tells what cleaning dropped.

    Args:
        source: with ``parallel`` rules.
        variant: name of the store.
        bitext: the corpus.
        given: a tokeniser to use instead of learning one.
        vocab_size: of the one to learn.
        writer: of the store.

    Raises:
        UserError: nothing is left of the training split, or its files are not what they should be.
    """
    rules = source.parallel
    assert rules is not None
    cleaning = _write_train(source, rules, bitext, writer)
    _write_held_out(rules, bitext, writer)
    tokenizer = given or ByteBpe.train(_vocabulary_text(source, rules, writer), vocab_size)
    file = f"tokenizer{tokenizer.suffix}"
    tokenizer.save(writer.folder / file)
    writer.note(file)
    deviations = [*rules.deviations, *bitext.deviations]
    return Manifest.of(
        source,
        variant,
        {**bitext.origin, "cleaning": cleaning, "deviations": deviations},
        {split: _write_tokens(source, split, tokenizer, writer) for split in source.splits},
        {"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256},
    )


def _write_train(source: Source, rules: Parallel, bitext: Bitext, writer: StoreWriter) -> dict[str, Any]:
    """Writes the clean training pairs, every n-th to validation where that is cut from them; tells what was dropped."""
    from tqdm import tqdm

    every = 0 if CUT in bitext.held_out else rules.held_every
    cleaner, kept = Cleaner(rules), 0
    with ExitStack() as opened:
        files = {
            split: [opened.enter_context(writer.stream(f"{split}.{part}.txt")) for part in source.parts]
            for split in ((TRAIN, CUT) if every else (TRAIN,))
        }
        # a bar only where somebody looks at it
        for pair in cleaner.clean(tqdm(bitext.train(), TRAIN, unit=" pairs", unit_scale=True, disable=None)):
            kept += 1
            split = CUT if every and kept % every == 0 else TRAIN
            for file, line in zip(files[split], pair, strict=True):
                file.write(f"{line}\n".encode())
    told = cleaner.told()
    if kept < max(1, every):
        raise UserError(f"{source.name}: too little is left to train on: {told_in_words(told)}")
    return told if not every else {**told, "held_every": every, "held": kept // every}


def _write_held_out(rules: Parallel, bitext: Bitext, writer: StoreWriter) -> None:
    for split, parts in bitext.held_out.items():
        for part, lines in parts.items():
            cased = (line.lower() for line in lines) if rules.lower else lines
            writer.write(f"{split}.{part}.txt", "".join(f"{line}\n" for line in cased).encode())


def _vocabulary_text(source: Source, rules: Parallel, writer: StoreWriter) -> Iterator[str]:
    """Training text of all sides, one after another, every n-th line of it."""
    for part in source.parts:
        for n, line in enumerate(writer.lines(f"{TRAIN}.{part}")):
            if n % rules.vocabulary_every == 0:
                yield line


def _write_tokens(source: Source, split: str, tokenizer: Subwords, writer: StoreWriter) -> dict[str, Any]:
    coded = {
        part: writer.encode_part(f"{split}.{part}", tokenizer.encode_batch, tokenizer.size)
        for part in source.parts
    }
    return {
        "examples": coded[source.parts[0]][0],
        "tokens": {part: tokens for part, (_, tokens) in coded.items()},
    }
