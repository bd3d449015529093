"""From TAPE's files of proteins to the files of a store. Needs no torch.

A store of proteins has two parts: ``residues``, the ids of each sequence between ``<cls>`` and ``<sep>``, and
``folds``, a class for each. TAPE has every split as a list in JSON (its raw release) and as an LMDB of pickles, which
is not read: a pickle may run any code.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from repro.data.store.data_set import DataSet
from repro.data.store.manifest import Manifest
from repro.data.store.options import Options
from repro.data.store.packed import decoded, find_packed, need_packed, read_packed, sha256_of
from repro.data.store.store_writer import StoreWriter
from repro.errors import UserError

AMINO_ACIDS = "ABCDEFGHIKLMNOPQRSTUVWXYZ"  # no J
SYMBOLS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>", *AMINO_ACIDS)
PAD, CLS, SEP = (SYMBOLS.index(symbol) for symbol in ("<pad>", "<cls>", "<sep>"))
N_FOLDS = 1195
FOLDER = "remote_homology"
_IDS = {symbol: i for i, symbol in enumerate(SYMBOLS)}
_NEXT = re.compile(r"\s*([\[,\]])\s*")


def fill_proteins(data_set: DataSet, writer: StoreWriter, variant: str, options: Options) -> Manifest:
    """Reads TAPE's files and writes ids and folds; see ``DataSet.fill``."""
    folder, counts = options.folder, {}
    hashes, missing = {}, []
    for split, file in zip(data_set.splits, data_set.files, strict=True):
        path = find_packed(folder, file) or find_packed(folder / FOLDER, file)
        if path is None and split in data_set.required:
            path = need_packed(folder, file, "get TAPE's raw release, in JSON")
        if path is None:
            missing.append(split)
            continue
        content = read_packed(path)
        hashes[split] = sha256_of([content])
        sequences, folds = [], []
        for number, record in enumerate(_from_json(content, str(path)), 1):
            sequence, fold = _read(record, f"{path}, record {number}")
            sequences.append(sequence)
            folds.append([fold])
        if not folds:
            raise UserError(f"{path}: no proteins in it; use the original file")
        tokens = writer.write_ids(f"{split}.residues", sequences)
        writer.write_ids(f"{split}.folds", folds)
        counts[split] = {"examples": len(folds), "tokens": {"residues": tokens}}
    symbols = {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)}
    return Manifest.of(data_set, variant, data_set.origin(sha256=hashes), counts, symbols, missing)


def _from_json(content: bytes, where: str) -> Iterator[Any]:
    """The items of a list one by one: a whole file has hundreds of megabytes, most of it about things not needed."""
    text = decoded(content, where)
    decoder, at, allowed = json.JSONDecoder(), 0, "["
    while True:
        match = _NEXT.match(text, at)
        if match is None or match[1] not in allowed:
            raise UserError(f"{where} is not a whole list in JSON, see byte {at:,}; get the file again")
        if match[1] == "]":
            return
        try:
            item, at = decoder.raw_decode(text, match.end())
        except ValueError as error:
            raise UserError(f"{where} is not JSON: {error}; get the file again") from None
        yield item
        allowed = ",]"


def _read(record: object, where: str) -> tuple[list[int], int]:
    """Ids of a record's sequence, ``<cls>`` first and ``<sep>`` last, and its fold."""
    fields = record if isinstance(record, dict) else {}
    sequence, fold = fields.get("primary"), fields.get("fold_label")
    if not isinstance(sequence, str) or not sequence:
        raise UserError(f"{where}: no sequence under 'primary'; use TAPE's files")
    unknown = sorted(set(sequence) - set(AMINO_ACIDS))
    if unknown:
        raise UserError(f"{where}: unknown amino acid {unknown[0]!r}; there are {AMINO_ACIDS}")
    number = np.asarray(fold)
    if number.size != 1 or number.dtype.kind not in "iu" or not 0 <= number.item() < N_FOLDS:
        raise UserError(f"{where}: fold_label is {fold!r}, not a number below {N_FOLDS:,}")
    return [CLS, *(_IDS[letter] for letter in sequence), SEP], int(number.item())
