"""The data set of TAPE's remote homology: proteins and their folds. Needs no torch.

TAPE has every split as a list in JSON (its raw release) and as an LMDB of pickles, which is not read: a pickle may run
any code.
"""

import json
from typing import Any

import numpy as np

from repro.data.data_set import DataSet, Options
from repro.data.packed import decoded, find_packed, need_packed, read_packed, sha256_of
from repro.data.store import Manifest, StoreWriter
from repro.data.table import ColumnType, ids_of
from repro.errors import UserError

AMINO_ACIDS = "ABCDEFGHIKLMNOPQRSTUVWXYZ"  # no J
SYMBOLS = ("<pad>", "<mask>", "<cls>", "<sep>", "<unk>", *AMINO_ACIDS)
PAD, CLS, SEP = (SYMBOLS.index(symbol) for symbol in ("<pad>", "<cls>", "<sep>"))
N_FOLDS = 1195
FOLDER = "remote_homology"
_IDS = {symbol: i for i, symbol in enumerate(SYMBOLS)}
_FIELDS = ("primary", "fold_label")


class RemoteHomology(DataSet):
    """Proteins and their fold, in TAPE's files, one for each split.

    A row of a store has ``residues``, the ids of a sequence between ``<cls>`` and ``<sep>``, and ``folds``, its class.
    """

    def fill(self, writer: StoreWriter, variant: str, options: Options) -> Manifest:
        folder, counts, hashes = options.folder, {}, {}
        for split, file in zip(self.splits, self.files, strict=True):
            path = find_packed(folder, file) or find_packed(folder / FOLDER, file)
            if path is None and split not in self.optional:
                path = need_packed(folder, file, "get TAPE's raw release, in JSON")
            if path is None:
                continue
            content = read_packed(path)
            hashes[split] = sha256_of([content])
            residues = writer.column(split, "residues", ids_of(len(SYMBOLS)))
            folds = writer.column(split, "folds", ColumnType("uint16"))
            for number, record in enumerate(_records(content, str(path)), 1):
                sequence, fold = _read(record, f"{path}, record {number}")
                residues.add_rows([sequence])
                folds.add(np.array([fold]))
            counts[split] = {"examples": folds.rows, "tokens": {"residues": residues.values}}
        symbols = {"kind": "symbols", "size": len(SYMBOLS), "symbols": list(SYMBOLS)}
        return self.manifest(variant, self.origin(sha256=hashes), counts, symbols)


def _records(content: bytes, source: str) -> list[Any]:
    """The records of a file, with the fields in use alone: most of its hundreds of megabytes are about other things."""

    def used(fields: list[tuple[str, Any]]) -> dict[str, Any]:
        return {key: value for key, value in fields if key in _FIELDS}

    try:
        records = json.loads(decoded(content, source), object_pairs_hook=used)
    except ValueError as error:
        raise UserError(f"{source} is not JSON: {error}; get the file again") from None
    if not isinstance(records, list) or not records:
        raise UserError(f"{source} is not a list of proteins; use TAPE's files")
    return records


def _read(record: object, source: str) -> tuple[list[int], int]:
    """Ids of a record's sequence, ``<cls>`` first and ``<sep>`` last, and its fold."""
    fields = record if isinstance(record, dict) else {}
    sequence, fold = fields.get("primary"), fields.get("fold_label")
    if not isinstance(sequence, str) or not sequence:
        raise UserError(f"{source}: no sequence under 'primary'; use TAPE's files")
    unknown = sorted(set(sequence) - set(AMINO_ACIDS))
    if unknown:
        raise UserError(f"{source}: unknown amino acid {unknown[0]!r}; there are {AMINO_ACIDS}")
    number = np.asarray(fold)
    if number.size != 1 or number.dtype.kind not in "iu" or not 0 <= number.item() < N_FOLDS:
        raise UserError(f"{source}: fold_label is {fold!r}, not a number below {N_FOLDS:,}")
    return [CLS, *(_IDS[letter] for letter in sequence), SEP], int(number.item())
