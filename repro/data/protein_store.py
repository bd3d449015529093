"""From TAPE's files of proteins to the files of a store. Needs no torch.

A store of proteins has two parts: ``residues``, the ids of each sequence between ``<cls>`` and ``<sep>``, and
``folds``, a class for each. TAPE has every split as a list in JSON (its raw release) and as an LMDB of pickles, which
nothing here reads: a pickle may run anything.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from repro.data import obtain
from repro.data.manifest import Manifest
from repro.data.source import Source
from repro.data.store import StoreWriter
from repro.errors import UserError

AMINO_ACIDS = "ABCDEFGHIKLMNOPQRSTUVWXYZ"  # no J
SYMBOLS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>", *AMINO_ACIDS)
PAD, CLS, SEP = (SYMBOLS.index(symbol) for symbol in ("<pad>", "<cls>", "<sep>"))
N_FOLDS = 1195
FOLDER = "remote_homology"
_IDS = {symbol: i for i, symbol in enumerate(SYMBOLS)}
_NEXT = re.compile(r"\s*([\[,\]])\s*")


def fill_proteins(source: Source, variant: str, from_dir: Path | None, writer: StoreWriter) -> Manifest:
    """Reads TAPE's files and writes ids and folds.

    Args:
        source: of proteins.
        variant: name of the store.
        from_dir: folder with the files, or with the folder ``remote_homology`` that has them.
        writer: of the store.

    Raises:
        UserError: a required file is missing, damaged, or holds something else; names file, record and what is wrong.
    """
    assert from_dir is not None  # there is no other way, and `prepare` says so
    folder = Path(from_dir)
    if not folder.is_dir():
        raise UserError(f"--from {folder}: no such folder")
    counts: dict[str, dict[str, Any]] = {}
    hashes, missing = {}, []
    for split in source.splits:
        path = _find(folder, split)
        if path is None:
            if split in source.required:
                stem = f"remote_homology_{split}"
                raise UserError(f"--from {folder}: no {stem}.json[.gz|.xz]; get TAPE's raw release, in JSON")
            missing.append(split)
            continue
        records, hashes[split] = _opened(path)
        sequences, folds = [], []
        for number, record in enumerate(records, 1):
            sequences.append(_ids(record, f"{path}, record {number}"))
            folds.append([_fold(record, f"{path}, record {number}")])
        if not folds:
            raise UserError(f"{path}: no proteins in it; use the original file")
        tokens = _write(writer, f"{split}.residues", sequences)
        _write(writer, f"{split}.folds", folds)
        counts[split] = {"examples": len(folds), "tokens": {"residues": tokens}}
    return Manifest.of(
        source,
        variant,
        {"kind": "files", "id": source.hub_id, "revision": source.revision, "sha256": hashes},
        counts,
        {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)},
        missing,
    )


def _write(writer: StoreWriter, part: str, rows: list[list[int]]) -> int:
    """Writes one column, 16 bits a number, and where each row begins. Returns how many numbers there are."""
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum([len(row) for row in rows], dtype=np.int64)])
    flat = np.fromiter((i for row in rows for i in row), np.dtype("<u2"), int(offsets[-1]))
    writer.write(f"{part}.tokens.bin", flat.tobytes())
    writer.write(f"{part}.offsets.bin", offsets.astype("<i8").tobytes())
    return int(offsets[-1])


def _find(folder: Path, split: str) -> Path | None:
    for base in (folder, folder / FOLDER):
        path = obtain.find_file(base, f"remote_homology_{split}.json")
        if path is not None:
            return path
    return None


def _opened(path: Path) -> tuple[Iterator[Any], str]:
    """The records of a file, and the SHA-256 of its content."""
    content = obtain.read_file(path)
    return _from_json(content, str(path)), hashlib.sha256(content).hexdigest()


def _from_json(content: bytes, where: str) -> Iterator[Any]:
    """The items of a list one by one: a whole file has hundreds of megabytes, most of it about things not needed."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is not UTF-8 at byte {error.start}; get the file again") from None
    decoder, at, wanted = json.JSONDecoder(), 0, "["
    while True:
        found = _NEXT.match(text, at)
        if found is None or found[1] not in wanted:
            raise UserError(f"{where} is not a whole list in JSON, see byte {at:,}; get the file again")
        if found[1] == "]":
            return
        try:
            item, at = decoder.raw_decode(text, found.end())
        except ValueError as error:
            raise UserError(f"{where} is not JSON: {error}; get the file again") from None
        yield item
        wanted = ",]"


def _ids(record: Any, where: str) -> list[int]:
    """Ids of a record's sequence, ``<cls>`` first and ``<sep>`` last."""
    sequence = record.get("primary") if isinstance(record, dict) else None
    if not isinstance(sequence, str) or not sequence:
        raise UserError(f"{where}: no sequence under 'primary'; use TAPE's files")
    unknown = sorted(set(sequence) - set(AMINO_ACIDS))
    if unknown:
        raise UserError(f"{where}: unknown amino acid {unknown[0]!r}; there are {AMINO_ACIDS}")
    return [CLS, *(_IDS[letter] for letter in sequence), SEP]


def _fold(record: Any, where: str) -> int:
    told = np.asarray(record.get("fold_label"))
    if told.size != 1 or told.dtype.kind not in "iu" or not 0 <= told.item() < N_FOLDS:
        raise UserError(
            f"{where}: fold_label is {record.get('fold_label')!r}, not a number below {N_FOLDS:,}"
        )
    return int(told.item())
