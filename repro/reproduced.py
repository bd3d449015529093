"""The published numbers that an experiment reproduces. Needs no torch.

They stand in ``ours`` of each table of ``results/published/<paper>.yaml``, whose schema is
:class:`repro.evidence.published.Reproduction`. ``{row}`` in a run
stands for the id of every row that has such an experiment.
"""

from functools import cache
from pathlib import Path
from typing import Any

from repro.errors import UserError
from repro.paths import published_files
from repro.yamls import read_yaml

Cell = dict[str, Any]  # table, row, metric, measured and, where one is required, protocol


def reproduced(experiment: str, scale: str) -> list[Cell]:
    """The published cells of an experiment at a scale, in the order of the published file.

    Raises:
        UserError: the file cannot be read.
    """
    path = published_files().get(experiment.partition("/")[0])
    if path is None:
        return []
    entries = _by_run(path, path.stat().st_mtime_ns).get(experiment, [])
    return [{**cell} for scales, cell in entries if not scales or scale in scales]


@cache
def _by_run(path: Path, changed: int) -> dict[str, list[tuple[list[str], Cell]]]:
    cells: dict[str, list[tuple[list[str], Cell]]] = {}
    try:
        for table in read_yaml(path)["tables"]:
            for entry in table.get("ours", ()):
                protocol = {"protocol": entry["protocol"]} if "protocol" in entry else {}
                for row in [entry["row"]] if "row" in entry else [row["id"] for row in table["rows"]]:
                    named = cells.setdefault(entry["run"].replace("{row}", row), [])
                    for metric, measured in entry["measured"].items():
                        cell = {"table": table["id"], "row": row, "metric": metric, "measured": measured}
                        named.append((entry.get("scales", []), cell | protocol))
    except (TypeError, KeyError, AttributeError):
        raise UserError(f"{path}: not a file of published numbers; `repro list` says what is wrong") from None
    return cells
