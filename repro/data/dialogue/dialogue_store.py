"""From conversations about documents to the files of a store. Needs no torch.

A store of conversations has the parts ``documents``, the ids of every document, the same in each split; ``topics``, of
each conversation the place of its document among them; ``speakers``, of each conversation who speaks, 0 or 1 for every
utterance; and ``utterances``, the ids of each utterance, those of one conversation after those of another. It has no
text.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from repro.data.dialogue.dialogue_files import Conversation, read_conversations, read_documents
from repro.data.dialogue.dialogue_sources import PARTS
from repro.data.store.data_set import TRAIN, SubwordSet
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.store import token_dtype
from repro.data.store.store_writer import StoreWriter
from repro.data.text.text_sets import GPT2
from repro.data.tokenizers.gpt2_bpe import Gpt2Bpe, load_gpt2
from repro.data.tokenizers.tokenizer import Subwords, subwords


def fill_dialogues(data_set: SubwordSet, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Reads the published files, learns subwords if none are given, and writes ids; see ``DataSet.fill``.

    Subwords are learned from all documents and the utterances to train on.
    """
    folder = options.folder
    documents, digest = read_documents(folder)
    data_set.compare("documents", digest, f"--from {folder}, WikiData")
    splits = {split: read_conversations(folder, split, documents) for split in data_set.splits}
    for split, read in splits.items():
        data_set.compare(split, read.sha256, f"--from {folder}, conversations of {split}")
    utterances = (text for talk in splits[TRAIN].found for text in talk.utterances)
    tokenizer: Subwords | Gpt2Bpe
    if variant == GPT2 and options.tokenizer is not None:
        tokenizer = load_gpt2(options.tokenizer)
    else:
        tokenizer = subwords(
            options.tokenizer, chain(documents.values(), utterances), data_set.learned(options)
        )
    counts = {
        split: _write_split(writer, split, documents, read.found, tokenizer) for split, read in splits.items()
    }
    origin = data_set.origin(
        sha256={"documents": digest} | {split: read.sha256 for split, read in splits.items()},
        without_words={split: read.empty for split, read in splits.items()},
        raw_text="not kept",
    )
    return Manifest.of(data_set, variant, origin, counts, writer.write_tokenizer(tokenizer))


def _write_split(
    writer: StoreWriter,
    split: str,
    documents: dict[int, str],
    talks: list[Conversation],
    tokenizer: Subwords | Gpt2Bpe,
) -> dict[str, Any]:
    """Writes every part of a split; returns its counts for the manifest."""
    places = {number: place for place, number in enumerate(documents)}
    rows: tuple[Sequence[Sequence[int]], ...] = (
        tokenizer.encode_batch(list(documents.values())),
        [[places[talk.topic]] for talk in talks],
        [talk.speakers for talk in talks],
        tokenizer.encode_batch([text for talk in talks for text in talk.utterances]),
    )
    dtype, tokens = token_dtype(tokenizer.size), {}
    for part, mine in zip(PARTS, rows, strict=True):
        flat = np.fromiter(chain.from_iterable(mine), dtype)
        writer.write(f"{split}.{part}.tokens.bin", flat.tobytes())
        writer.write_offsets(f"{split}.{part}", [len(row) for row in mine])
        tokens[part] = len(flat)
    return {"examples": len(talks), "tokens": tokens}
