"""From a source to a store: list, prepare, verify. Needs no torch.

``prepare`` obtains the raw text, compares its hashes, learns or reads a tokeniser, and makes the store.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from repro.data import obtain, store
from repro.data.manifest import Manifest
from repro.data.registry import SOURCES, Source, find_source
from repro.data.tokenizers import ByteBpe, SentencePiece, load_tokenizer
from repro.data.variants import Variant, given_variant, prepare_command
from repro.errors import UserError

__all__ = ["Source", "SourceInfo", "ensure_generated", "find_source", "list_sources", "prepare", "verify"]
AnyTokenizer = ByteBpe | SentencePiece


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
        obtained: ``hub or --from``, ``generated``, or ``loader: none yet``.
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
    obtained: str
    hub_id: str | None
    revision: str
    stores: tuple[str, ...]


def list_sources() -> list[SourceInfo]:
    """Every source with the stores that are prepared in the data folder."""
    ways = {"hub": "hub or --from", "generated": "generated", "none": "loader: none yet"}
    return [
        SourceInfo(
            s.name, s.title, s.licence, s.size, s.splits, s.parts, ways[s.obtained], s.hub_id,
            s.revision or ("unpinned" if s.hub_id else "-"), tuple(store.variants(s.name)),
        )
        for s in SOURCES.values()
    ]  # fmt: skip


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def prepare(
    name: str,
    from_dir: Path | None = None,
    vocab_size: int | None = None,
    size: int | None = None,
    tokenizer: Path | None = None,
    say: Callable[[str], None] = _say,
) -> Path:
    """Makes a store; keeps an existing one that is whole.

    Args:
        name: of the source.
        from_dir: folder with ``<split>.<language>[.gz|.xz]``; without it the hub is asked.
        vocab_size: of the shared vocabulary to learn, specials included; None is the source's default.
        size: training pairs of a generated source; None is its default.
        tokenizer: a tokeniser file to use instead of learning one.
        say: takes one line of news.

    Returns:
        The store's folder.

    Raises:
        UserError: unknown source, no loader yet, contradicting options, or whatever the source's files lack.
    """
    source = find_source(name)
    _check_options(source, from_dir, vocab_size, size, tokenizer)
    given = load_tokenizer(tokenizer) if tokenizer is not None else None
    if given is not None:
        variant = given_variant(given.kind, given.size, given.sha256)
    else:
        variant = Variant(vocab_size or source.vocab_size, size).name
    problem = _problem(name, variant)
    if problem is None:
        say(f"kept {name}/{variant}: it is there and whole")
        return store.store_path(name, variant)
    raw = _obtain(source, from_dir, size)
    fill = partial(_fill, source, variant, raw, given, vocab_size or source.vocab_size)
    path = store.make_store(name, variant, fill, lambda: _problem(name, variant) is None)
    counts = store.open_store(name, variant).manifest.counts
    say(f"made {name}/{variant}: " + ", ".join(f"{split} {n['examples']:,}" for split, n in counts.items()))
    if raw.missing:
        say(f"not at hand, left out: {', '.join(raw.missing)}")
    return path


def require_loader(source: Source) -> None:
    """Refuses a source that is only named so far.

    Raises:
        UserError: it has no loader yet.
    """
    if source.obtained == "none":
        raise UserError(
            f"{source.name}: its loader is not there yet; see `repro data list` for those that are"
        )


def _check_options(
    source: Source, from_dir: Path | None, vocab_size: int | None, size: int | None, tokenizer: Path | None
) -> None:
    require_loader(source)
    if source.obtained == "generated" and from_dir is not None:
        raise UserError(f"{source.name} is generated; leave out --from {from_dir}")
    if source.obtained != "generated" and size is not None:
        raise UserError(f"{source.name} has its own size; leave out --size {size}")
    if size is not None and size < 1:
        raise UserError(f"--size {size}: at least one training pair is needed")
    if tokenizer is not None and vocab_size is not None:
        raise UserError(f"--tokenizer {tokenizer} brings its vocabulary; leave out --vocab-size {vocab_size}")
    if tokenizer is not None and size is not None:
        raise UserError(f"--tokenizer {tokenizer} goes with the default size; leave out --size {size}")


def _problem(name: str, variant: str) -> str | None:
    """What is wrong with a store, or None when it is whole."""
    try:
        store.verify(store.open_store(name, variant))
    except UserError as error:
        return str(error)
    return None


def _obtain(source: Source, from_dir: Path | None, size: int | None) -> obtain.RawText:
    if source.obtained == "generated":
        return obtain.generated(source, size)
    return obtain.from_files(source, from_dir) if from_dir is not None else obtain.from_hub(source)


def _fill(
    source: Source,
    variant: str,
    raw: obtain.RawText,
    given: AnyTokenizer | None,
    vocab_size: int,
    writer: store.StoreWriter,
) -> Manifest:
    """Writes tokeniser, text and tokens; returns the manifest."""
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
    return Manifest(
        name=source.name,
        variant=variant,
        title=source.title,
        licence=source.licence,
        source=raw.origin,
        parts=list(source.parts),
        aliases=dict(source.aliases),
        missing_splits=raw.missing,
        counts=counts,
        tokenizer={"kind": tokenizer.kind, "size": tokenizer.size, "file": file, "sha256": tokenizer.sha256},
    )


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
        command = prepare_command(name, Variant(source.vocab_size).name)
        raise UserError(f"no store of {name} in the data folder; make one with: `{command}`")
    for variant in found:
        store.verify(store.open_store(name, variant))
    return found


def ensure_generated(name: str, variant: str) -> bool:
    """Makes a missing store of a generated source; leaves all others alone.

    Returns:
        Whether a store was made.
    """
    parsed = Variant.parse(variant)
    if (
        parsed is None
        or find_source(name).obtained != "generated"
        or store.store_path(name, variant).exists()
    ):
        return False
    prepare(name, vocab_size=parsed.vocab_size, size=parsed.size)
    return True
