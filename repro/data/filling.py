"""What a store is filled with, by kind of source. Needs no torch."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from repro.data import corpus, obtain, parallel
from repro.data.manifest import Manifest
from repro.data.pair_store import fill_pairs
from repro.data.parallel_store import fill_parallel
from repro.data.registry import Source
from repro.data.store import StoreWriter
from repro.data.text_store import fill_text
from repro.data.tokenizers import Subwords
from repro.data.variants import Variant, prepare_command
from repro.errors import UserError


def filler(
    source: Source, variant: str, from_dir: Path | None, size: int | None, given: Subwords | None
) -> tuple[Callable[[StoreWriter], Manifest], list[str]]:
    """What fills a store, with its content obtained and checked where that is text, and which splits were not there.

    Args:
        source: of the store.
        variant: the store's name.
        from_dir: folder with the source's files; None asks the hub, or generates.
        size: training examples of a generated source; None is its default.
        given: a tokeniser to use instead of learning one.

    Raises:
        UserError: files are needed and none are given, or whatever the source's files lack.
    """
    if from_dir is None and source.obtained == "files":
        named = f" ({', '.join(source.files)})" if source.files else ""
        raise UserError(
            f"{source.name} cannot be downloaded here; get its files{named} and give their folder: "
            f"`{prepare_command(source.name, variant)}`"
        )
    if source.variant:
        return _of_kind(source, variant, from_dir), []
    learned = Variant.parse(variant)
    if source.text is not None:
        text = _text(source, variant, from_dir)
        return partial(fill_text, source, variant, text, given, learned.vocab_size if learned else None), []
    vocab_size = learned.vocab_size if learned else source.vocab_size
    if source.parallel is not None:
        bitext = parallel.from_files(source, from_dir) if from_dir is not None else parallel.from_hub(source)
        return partial(fill_parallel, source, variant, bitext, given, vocab_size), []
    if source.kind == "treebank":
        from repro.data.treebank_store import fill_treebank, treebank

        trees = treebank(source, from_dir, size)
        return partial(fill_treebank, source, variant, trees, given is not None, vocab_size), []
    raw = _pairs(source, from_dir, size)
    return partial(fill_pairs, source, variant, raw, given, vocab_size), raw.missing


def _of_kind(source: Source, variant: str, from_dir: Path | None) -> Callable[[StoreWriter], Manifest]:
    """What fills a store that holds neither sentence pairs nor text."""
    if source.kind == "images":
        from repro.data.image_store import fill_images

        return partial(fill_images, source, variant, from_dir)
    if source.kind == "weights":
        from repro.data.weights import fill_weights

        return partial(fill_weights, source, variant, from_dir)
    if source.kind == "trees":
        from repro.data.listops_store import fill_trees

        return partial(fill_trees, source, variant, from_dir)
    if source.kind == "speech":
        from repro.data.speech_store import fill_speech

        return partial(fill_speech, source, variant, from_dir)
    from repro.data.protein_store import fill_proteins

    return partial(fill_proteins, source, variant, from_dir)


def _pairs(source: Source, from_dir: Path | None, size: int | None) -> obtain.RawText:
    if source.obtained == "generated":
        return obtain.generated(source, size)
    return obtain.from_files(source, from_dir) if from_dir is not None else obtain.from_hub(source)


def _text(source: Source, variant: str, from_dir: Path | None) -> corpus.Corpus:
    if source.obtained == "generated":
        return corpus.from_library()
    if from_dir is not None:
        return corpus.from_files(source, from_dir, needs_words=variant == "words")
    return corpus.from_hub(source)
