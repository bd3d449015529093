"""From a source to a store: list, prepare, verify. Needs no torch.

``prepare`` obtains the raw text, compares its hashes, learns or reads a tokeniser, and makes the store.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data import store
from repro.data.filling import filler
from repro.data.parallel_cleaning import told_in_words
from repro.data.registry import SOURCES, Source, find_source
from repro.data.tokenizers import ByteBpe, SentencePiece, Subwords, load_tokenizer
from repro.data.variants import Variant, given_variant, is_subwords, prepare_command, sized, unsized
from repro.errors import UserError

__all__ = ["Source", "SourceInfo", "ensure_generated", "find_source", "list_sources", "prepare", "verify"]


@dataclass(frozen=True)
class SourceInfo:
    """One line of ``repro data list``.

    Attributes:
        name: of the source.
        title: what it is.
        licence: its terms.
        size: approximate size.
        splits: its splits.
        languages: its parts.
        levels: what a token may be: ``bpe`` for sentence pairs, for text its levels; else the name of the only store.
        obtained: ``hub or --from``, ``--from``, ``generated``, or ``generated or --from``.
        hub_id: data set on the hub, or None.
        revision: pinned revision, ``unpinned``, or ``-`` where there is nothing to pin.
        stores: variants that are prepared here.
    """

    name: str
    title: str
    licence: str
    size: str
    splits: tuple[str, ...]
    languages: tuple[str, ...]
    levels: tuple[str, ...]
    obtained: str
    hub_id: str | None
    revision: str
    stores: tuple[str, ...]


def list_sources() -> list[SourceInfo]:
    """Every source with the stores that are prepared in the data folder."""
    return [
        SourceInfo(
            s.name, s.title, s.licence, s.size, s.splits, s.parts,
            s.text.levels if s.text else (s.variant or "bpe",), _way(s), s.hub_id,
            s.revision or ("unpinned" if s.hub_id else "-"), tuple(store.variants(s.name)),
        )
        for s in SOURCES.values()
    ]  # fmt: skip


def _way(source: Source) -> str:
    if source.obtained == "generated":
        return "generated or --from" if source.files else "generated"
    return {"hub": "hub or --from", "files": "--from"}[source.obtained]


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def prepare(
    name: str,
    from_dir: Path | None = None,
    vocab_size: int | None = None,
    size: int | None = None,
    tokenizer: Path | None = None,
    say: Callable[[str], None] = _say,
    level: str | None = None,
) -> Path:
    """Makes a store; keeps an existing one that is whole.

    Args:
        name: of the source.
        from_dir: folder with the source's files, plain, ``.gz`` or ``.xz``; without it the hub is asked.
        vocab_size: of the vocabulary to learn, specials included; None is the source's default.
        size: training pairs of a generated source; None is its default.
        tokenizer: a tokeniser file to use instead of learning one.
        say: takes one line of news.
        level: what a token of a text is, ``words``; None is the source's default.

    Returns:
        The store's folder.

    Raises:
        UserError: unknown source, contradicting options, or whatever the source's files lack.
    """
    source = find_source(name)
    _check_options(source, from_dir, vocab_size, size, tokenizer)
    if level is not None:
        _check_level(source, level, vocab_size, tokenizer)
    given = _given(tokenizer) if tokenizer is not None else None
    if given is not None:
        variant = given_variant(given.kind, given.size, given.sha256)
    else:
        variant = _variant(source, level, vocab_size, size)
    problem = _problem(name, variant)
    if problem is None:
        say(f"kept {name}/{variant}: it is there and whole")
        return store.store_path(name, variant)
    fill, missing = filler(source, variant, from_dir, size, given)
    path = store.make_store(name, variant, fill, lambda: _problem(name, variant) is None)
    manifest = store.open_store(name, variant).manifest
    say(f"made {name}/{variant}: " + ", ".join(_told(split, n) for split, n in manifest.counts.items()))
    if "cleaning" in manifest.source:
        say(told_in_words(manifest.source["cleaning"]))
        say(f"other than in the recipe: {'; '.join(manifest.source['deviations'])}")
    if missing:
        say(f"not at hand, left out: {', '.join(missing)}")
    return path


def _told(split: str, counts: dict[str, Any]) -> str:
    tokens = counts.get("tokens", {})
    unknown = f" ({counts['unknown']:,} unknown)" if counts.get("unknown") else ""
    return (
        f"{split} {tokens['text']:,} tokens{unknown}"
        if "text" in tokens
        else f"{split} {counts['examples']:,}"
    )


def default_variant(source: Source) -> str:
    """The store that a source's name alone stands for."""
    return source.variant or (source.text.levels[0] if source.text else Variant(source.vocab_size).name)


def _variant(source: Source, level: str | None, vocab_size: int | None, size: int | None) -> str:
    if source.variant:
        return sized(source.variant, size)
    if source.text is None or level == "bpe" or vocab_size is not None:
        return Variant(vocab_size or source.vocab_size, size).name
    return level or default_variant(source)


def check_variant(source: Source, variant: str) -> None:
    """Refuses a store that no command makes.

    Raises:
        UserError: the source has no such level; names those it has.
    """
    if source.variant and unsized(variant)[0] != source.variant:
        raise UserError(f"{source.name} has no store {variant!r}; it has {source.variant}")
    if source.text and variant in source.text.levels and variant != "bpe":
        return
    if source.text and ("bpe" not in source.text.levels or not is_subwords(variant)):
        raise UserError(f"{source.name} has no level {variant!r}; it has {', '.join(source.text.levels)}")


def _check_options(
    source: Source, from_dir: Path | None, vocab_size: int | None, size: int | None, tokenizer: Path | None
) -> None:
    if source.obtained == "generated" and from_dir is not None:
        _check_files_instead(source, from_dir, size)
    if size is not None and (source.obtained != "generated" or source.text):
        raise UserError(f"{source.name} has its own size; leave out --size {size}")
    if size is not None and size < 1:
        raise UserError(f"--size {size}: at least one training pair is needed")
    if tokenizer is not None and vocab_size is not None:
        raise UserError(f"--tokenizer {tokenizer} brings its vocabulary; leave out --vocab-size {vocab_size}")
    if tokenizer is not None and size is not None:
        raise UserError(f"--tokenizer {tokenizer} goes with the default size; leave out --size {size}")
    given = (
        f"--tokenizer {tokenizer}"
        if tokenizer
        else f"--vocab-size {vocab_size}"
        if vocab_size is not None
        else ""
    )
    if given and source.variant:
        raise UserError(f"{source.name} is not text; leave out {given}")
    if given and source.text and "bpe" not in source.text.levels:
        raise UserError(f"{source.name} has the vocabulary of its text; leave out {given}")


def _check_files_instead(source: Source, from_dir: Path, size: int | None) -> None:
    """Whether the published files of a generated source can take the place of what is generated."""
    if not source.files:
        raise UserError(f"{source.name} is generated; leave out --from {from_dir}")
    if size is not None:
        raise UserError(f"the files in {from_dir} have their own size; leave out --size {size}")
    if source.variant in store.variants(source.name):
        kept = store.open_store(source.name, source.variant)
        if kept.manifest.source["kind"] == "generated":
            raise UserError(
                f"{kept.name} is there already, generated; delete {kept.path} to put {from_dir} in its place"
            )


def _check_level(source: Source, level: str, vocab_size: int | None, tokenizer: Path | None) -> None:
    if source.text is None:
        there = source.variant or "subwords"
        raise UserError(f"{source.name} has no levels, only {there}; leave out --level {level}")
    if level not in source.text.levels:
        raise UserError(f"{source.name} has no level {level!r}; it has {', '.join(source.text.levels)}")
    given = (
        f"--tokenizer {tokenizer}"
        if tokenizer
        else f"--vocab-size {vocab_size}"
        if vocab_size is not None
        else ""
    )
    if given and level != "bpe":
        raise UserError(f"--level {level} counts its own vocabulary; leave out {given}")


def _given(path: Path) -> Subwords:
    tokenizer = load_tokenizer(path)
    if not isinstance(tokenizer, ByteBpe | SentencePiece):
        raise UserError(
            f"--tokenizer {path} holds {tokenizer.kind}; it must be byte-level BPE or SentencePiece"
        )
    return tokenizer


def _problem(name: str, variant: str) -> str | None:
    """What is wrong with a store, or None when it is whole."""
    try:
        store.verify(store.open_store(name, variant))
    except UserError as error:
        return str(error)
    return None


def verify(name: str) -> list[str]:
    """Checks every file of every prepared store of a source.

    Returns:
        The variants that were checked and are whole.

    Raises:
        UserError: unknown source, no store, or the first corrupt file.
    """
    source = find_source(name)
    found = store.variants(name)
    if not found:
        command = prepare_command(name, default_variant(source))
        raise UserError(f"no store of {name} in the data folder; make one with: `{command}`")
    for variant in found:
        store.verify(store.open_store(name, variant))
    return found


def ensure_generated(name: str, variant: str) -> bool:
    """Makes a missing store of a generated source; leaves all others alone. No variant stands for the default.

    Returns:
        Whether a store was made.
    """
    source = find_source(name)
    variant = variant or default_variant(source)
    if source.obtained != "generated" or store.store_path(name, variant).exists():
        return False
    parsed = Variant.parse(variant)
    if source.variant:
        prepare(name, size=unsized(variant)[1])
    elif source.text is not None:
        prepare(name, level=variant)
    elif parsed is not None:
        prepare(name, vocab_size=parsed.vocab_size, size=parsed.size)
    else:
        return False
    return True
