"""Measured times of updates: rows of ``results/measured-cost.json``, one for each variant of a shape on a device."""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.experiment.costs.step import cache_key
from repro.paths import results_dirs
from repro.recipe import Recipe

FILE = "measured-cost.json"
Row = dict[str, Any]  # see repro.experiment.costs.measure.measured


def shape_of(recipe: Recipe) -> str:
    """Digits that are equal for recipes whose updates cost the same."""
    return hashlib.sha256(cache_key(recipe).encode()).hexdigest()[:16]


def read_rows(*folders: Path) -> list[Row]:
    """The rows of folders of results, by default all of them.

    Raises:
        UserError: a file is not a list of rows.
    """
    files = [folder / FILE for folder in folders or results_dirs()]
    return [row for file in files if file.is_file() for row in _parsed(file, file.stat().st_mtime_ns)]


@lru_cache(maxsize=4)
def _parsed(file: Path, changed: int) -> list[Row]:
    """The rows of a file, read again when it changes."""
    try:
        return [row for row in json.loads(file.read_bytes()) if row["shape"] and row["variant"]]
    except (ValueError, TypeError, KeyError):
        raise UserError(f"{file} is damaged: it must be a list of rows; delete it, or take git's") from None


def rows_of(recipe: Recipe, gpu: str) -> Mapping[str, Row]:
    """Measurements of a recipe on a kind of GPU by the variant's name."""
    shape = shape_of(recipe)
    own = (row for row in read_rows() if row["shape"] == shape and gpu in row["device"])
    return {row["variant"]: row for row in own if "seconds" in row}
