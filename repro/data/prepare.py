"""The actions on data sets: list, prepare, open and verify their stores. Needs no torch."""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from repro.data import store
from repro.data.data_set import GPT2, Options
from repro.data.own import facts_of, kept_facts, make_data_set, own_data_set, write_facts
from repro.data.packed import REMOVED
from repro.data.registry import DATA_SETS, all_data_sets, find_data_set
from repro.data.tokenizers.tokenizer import load_gpt2
from repro.errors import UserError
from repro.files import alone


def list_sources() -> list[dict[str, Any]]:
    """The rows of ``repro data list``: every data set, with its prepared stores in the data folder."""
    return [
        {
            "name": data_set.name,
            "title": data_set.title,
            "licence": data_set.licence,
            "size": data_set.size,
            "splits": data_set.splits,
            "languages": data_set.parts,
            "levels": data_set.levels,
            "obtained": data_set.obtained,
            "hub_id": data_set.hub.id if data_set.hub else None,
            "revision": data_set.revision,
            "stores": store.variants(data_set.name),
        }
        for data_set in all_data_sets().values()
    ]


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def prepare(
    name: str,
    from_dir: Path | None = None,
    vocab_size: int | None = None,
    size: int | None = None,
    tokenizer: Path | None = None,
    report: Callable[[str], None] = _report,
    level: str | None = None,
    kind: str | None = None,
) -> Path:
    """Makes a store; keeps an existing one that is whole.

    Args:
        name: of the data set.
        from_dir: folder with its files, plain, ``.gz``, ``.xz`` or ``.zip``; without it the hub is used.
        vocab_size: of the vocabulary to learn, specials included; None is the data set's default.
        size: training examples of a generated data set; None is its default.
        tokenizer: a tokeniser file to use instead of learning one.
        report: called with each message, one line.
        level: what a token of a text is, ``words``; None is the data set's default.
        kind: of a data set of one's own, which is made with this name; see :mod:`repro.data.own`.

    Returns:
        The store's folder.

    Raises:
        UserError: unknown data set, contradicting options, missing or damaged files.
    """
    if kind is not None and name in DATA_SETS:
        raise UserError(f"{name} is a data set already; give yours another name, or leave out --kind {kind}")
    if kind is None and from_dir is not None:
        kind = (kept_facts(name) or {}).get("kind")
    facts = facts_of(name, kind, from_dir) if kind is not None else None
    data_set = find_data_set(name) if facts is None else make_data_set(name, facts)
    options = Options(from_dir, vocab_size, size, tokenizer, level)
    data_set.check_options(options)
    variant = data_set.variant(options)
    if _is_whole(name, variant):
        if facts is not None:  # an interruption may have left the store without them
            write_facts(name, facts)
        hint = f"; for other files delete {store.store_path(name, variant)} first" if from_dir else ""
        report(f"kept {name}/{variant}: already prepared{hint}")
        return store.store_path(name, variant)
    data_set.check_files(variant, from_dir)
    if level == GPT2 and tokenizer is not None:
        load_gpt2(tokenizer)  # refused before the text is read, which takes long
    REMOVED.clear()
    path = store.make_store(
        name,
        variant,
        lambda writer: data_set.fill(writer, variant, options),
        lambda: _is_whole(name, variant),
    )
    if facts is not None:
        write_facts(name, facts)
    for line in data_set.report(open_store(name, variant).manifest):
        report(line)
    if removed := sum(REMOVED.values(), Counter[str]()):
        report(f"removed from the files: {', '.join(f'{count:,} {what}' for what, count in removed.items())}")
    return path


def open_store(name: str, variant: str) -> store.Store:
    """Opens a store of a data set; see :func:`repro.data.store.open_store`.

    Raises:
        UserError: the store is missing, corrupt or of an older version.
    """
    known = DATA_SETS.get(name) or own_data_set(name)
    command = known.command(variant) if known else f"repro data prepare {name}"
    return store.open_store(name, variant, command)


def _is_whole(name: str, variant: str) -> bool:
    try:
        store.verify(open_store(name, variant))
    except UserError:
        return False
    return True


def verify(name: str) -> list[str]:
    """Checks every file of every prepared store of a data set.

    Returns:
        The variants that were checked and are whole.

    Raises:
        UserError: unknown data set, no store, or the first corrupt file.
    """
    data_set = find_data_set(name)
    checked = store.variants(name)
    if not checked:
        command = data_set.command(data_set.default_variant)
        raise UserError(f"no store of {name} in the data folder; make one with: `{command}`")
    for variant in checked:
        store.verify(open_store(name, variant))
    return checked


def ensure_generated(name: str, variant: str) -> bool:
    """Makes a missing store of a generated data set; ignores other data sets. No variant means the default.

    Returns:
        Whether a store was made.
    """
    data_set = find_data_set(name)
    variant = variant or data_set.default_variant
    options = data_set.options_of(variant)
    place = store.store_path(name, variant)
    if not data_set.generated or options.tokenizer is not None or place.exists():
        return False
    with alone(place.parent):  # all ranks of a job come here at once
        if place.exists():
            return False
        prepare(name, vocab_size=options.vocab_size, size=options.size, level=options.level)
    return True
