"""From the raw lines of sentence pairs to the files of a store: one vocabulary for all sides, tokens, a manifest."""

from typing import Any

from repro.data import obtain
from repro.data.manifest import Manifest
from repro.data.source import Source
from repro.data.store import StoreWriter
from repro.data.tokenizers import ByteBpe, Subwords


def fill_pairs(
    source: Source,
    variant: str,
    raw: obtain.RawText,
    given: Subwords | None,
    vocab_size: int,
    writer: StoreWriter,
) -> Manifest:
    """Writes tokeniser, text and tokens; returns the manifest.

    Args:
        source: of sentence pairs.
        variant: name of the store.
        raw: its lines.
        given: a tokeniser to use instead of learning one.
        vocab_size: of the one to learn.
        writer: of the store.
    """
    tokenizer = given
    if tokenizer is None:  # one vocabulary for all sides, from the training split only
        training = (line for part in source.parts for line in raw.lines["train"][part])
        tokenizer = ByteBpe.train(training, vocab_size)
    file = f"tokenizer{tokenizer.suffix}"
    tokenizer.save(writer.folder / file)
    writer.note(file)
    counts: dict[str, dict[str, Any]] = {}
    for split, parts in raw.lines.items():
        tokens = {
            part: writer.write_part(f"{split}.{part}", lines, tokenizer.encode_batch(lines), tokenizer.size)
            for part, lines in parts.items()
        }
        counts[split] = {"examples": len(parts[source.parts[0]]), "tokens": tokens}
    return Manifest.of(
        source,
        variant,
        raw.origin,
        counts,
        {"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256},
        raw.missing,
    )
