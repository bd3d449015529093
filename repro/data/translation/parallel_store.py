"""From a large parallel corpus to the files of a store, in blocks: what is in memory does not grow with the corpus.

The clean training pairs go to disk first, in the store's own text files. The vocabulary is learned from those (its
counts of distinct words are the only thing that grows, with the language rather than with the corpus), then each file
is encoded block by block. No result depends on the size of a block.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

from repro.data.store.data_set import TRAIN, VAL
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.store_writer import StoreWriter
from repro.data.tokenizers.tokenizer import subwords
from repro.data.translation.parallel import Bitext, ParallelCorpus
from repro.data.translation.parallel_cleaning import Cleaner, told_in_words
from repro.errors import UserError


def fill_parallel(data_set: ParallelCorpus, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Writes text, tokeniser and tokens of every split; the manifest records what cleaning dropped.

    See ``DataSet.fill``.

    Raises:
        UserError: beside what is said there, nothing is left of the training split.
    """
    bitext = data_set.bitext(options)
    cleaning = _write_train(data_set, bitext, writer)
    for split, parts in bitext.held_out.items():
        for part, lines in parts.items():
            cased = (line.lower() for line in lines) if data_set.cleaning.lower else lines
            writer.write_lines(f"{split}.{part}", cased)
    tokenizer = subwords(options.tokenizer, _vocabulary_text(data_set, writer), data_set.learned(options))
    deviations = [*data_set.deviations, *bitext.deviations]
    return Manifest.of(
        data_set,
        variant,
        {**bitext.origin, "cleaning": cleaning, "deviations": deviations},
        {split: writer.encode_split(split, data_set.parts, tokenizer) for split in data_set.splits},
        writer.write_tokenizer(tokenizer),
    )


def _write_train(data_set: ParallelCorpus, bitext: Bitext, writer: StoreWriter) -> dict[str, Any]:
    """Writes the clean training pairs, every n-th to validation where that is cut from them; returns the counts."""
    from tqdm import tqdm

    every = 0 if VAL in bitext.held_out else data_set.held_every
    cleaner, kept = Cleaner(data_set.cleaning), 0
    with ExitStack() as opened:
        files = {
            split: [opened.enter_context(writer.stream(f"{split}.{part}.txt")) for part in data_set.parts]
            for split in ((TRAIN, VAL) if every else (TRAIN,))
        }
        # a progress bar only on a terminal
        for pair in cleaner.clean(tqdm(bitext.train(), TRAIN, unit=" pairs", unit_scale=True, disable=None)):
            kept += 1
            split = VAL if every and kept % every == 0 else TRAIN
            for file, line in zip(files[split], pair, strict=True):
                file.write(f"{line}\n".encode())
    counts = cleaner.told()
    if kept < max(1, every):
        raise UserError(f"{data_set.name}: too little is left to train on: {told_in_words(counts)}")
    return counts if not every else {**counts, "held_every": every, "held": kept // every}


def _vocabulary_text(data_set: ParallelCorpus, writer: StoreWriter) -> Iterator[str]:
    """Training text of all sides, one after another, every n-th line of it."""
    for part in data_set.parts:
        yield from islice(writer.lines(f"{TRAIN}.{part}"), 0, None, data_set.vocabulary_every)
