"""Scores of simple methods on the data of the records: ``results/competence.json``."""

from repro.files import read_rows
from repro.paths import files_in, results_dirs
from repro.record import RunRecord

FILE = "competence.json"


def simple_methods(record: RunRecord, measured: str) -> list[tuple[str, float]]:
    """Names and scores of the simple methods on a record's data, best first; none where it names no data.

    Args:
        record: of a run.
        measured: name of the measurement.
    """
    path, data = files_in(results_dirs(), FILE).get(FILE), record.data.get("manifest_sha256")
    if data is None or path is None:
        return []
    every = read_rows(path, "`python -m benchmarks.competence --again` makes it anew")
    rows = [row for row in every if (row["data_sha256"], row["measured"]) == (data, measured)]
    sign = -1 if rows and rows[0]["better"] == "higher" else 1
    return sorted(((row["method"], row["value"]) for row in rows), key=lambda pair: sign * pair[1])
