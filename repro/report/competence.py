"""Scores of simple methods on the data of the records: ``results/competence.json``."""

from typing import Any

from repro.files import read_rows
from repro.record import RunRecord

FILE = "competence.json"


def simple_methods(record: RunRecord, measured: str) -> list[tuple[str, float]]:
    """Names and scores of the simple methods on a record's data, best first; none where it names no data.

    Args:
        record: of a run.
        measured: name of the measurement.
    """
    sought = (record.data.get("manifest_sha256"), measured)
    every = read_rows(FILE, "`python -m benchmarks.competence --again` makes it anew", dict[str, Any])
    rows = [row for row in every if (row["data_sha256"], row["measured"]) == sought]
    sign = -1 if rows and rows[0]["better"] == "higher" else 1
    return sorted(((row["method"], row["value"]) for row in rows), key=lambda pair: sign * pair[1])
