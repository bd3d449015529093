"""Flat rows of published numbers: for `repro list`, and as CSV."""

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from repro import text
from repro.evidence.table import Evidence, table
from repro.recipe import SCALES, scales_of
from repro.report.formats.blocks import Grid, VerdictWord

Rows = list[dict[str, Any]]


def list_rows(evidence: Evidence) -> Rows:
    """One object for each published number, and for each row without numbers.

    ``measured`` is the mean at the paper's scale, else None; ``reduced`` holds the numbers of reduced scales.
    """
    by_number: dict[tuple[str, ...], Rows] = {}
    for row in table(evidence)["numbers"]:
        by_number.setdefault((row["paper"], row["table"], row["row"], row["metric"]), []).append(row)
    return [_listed(evidence, key, rows) for key, rows in by_number.items()]


def _listed(evidence: Evidence, key: Any, rows: Rows) -> dict[str, Any]:
    entry = evidence.comparison.entries[key]
    at_scale = [row for row in rows if row["scale"] == "paper"]
    row_listed = next((row for row in at_scale if row["n"]), rows[0])
    is_ours = row_listed in at_scale and row_listed["n"]
    scales = {scale for row in rows if row["experiment"] for scale in scales_of(row["experiment"])}
    reduced = ("scale", "mean", "n", "experiment")
    return {
        **{name: value for name, value in row_listed.items() if name not in ("scale", "mean", "low", "high")},
        "scales": [scale for scale in SCALES if scale in scales],
        "measured": row_listed["mean"] if is_ours else None,
        "n": row_listed["n"] if is_ours else 0,
        "verdict": entry.verdict,
        "reduced": [
            {name: row[name] for name in reduced} for row in rows if row["n"] and row["scale"] != "paper"
        ],
    }


def list_grid(rows: Rows) -> Grid:
    """The objects of :func:`list_rows`, a line each."""
    lines = []
    for row in rows:
        published = text.printed(row["published"]) + (" (unconfirmed)" if row["unconfirmed"] else "")
        reduced = (f"{r['scale']} {text.number(r['mean'])} (n = {r['n']})" for r in row["reduced"])
        measured = text.number(row["measured"]) + (f" (n = {row['n']})" if row["n"] else "")
        verdict = VerdictWord(row["verdict"], "; ".join(filter(None, (row["why"], *row["notes"]))))
        recipe = f"{row['experiment']} ({', '.join(row['scales'])})" if row["experiment"] else text.NOTHING
        metric = f"{row['metric']} ({row['unit']})" if row["metric"] else text.NOTHING
        address = f"{row['paper']}:{row['table']}:{row['row']}"
        lines.append((address, metric, published, measured, verdict, ", ".join(reduced), recipe))
    header = ("row", "metric", "published", "measured", "verdict", "reduced scales", "recipe")
    return Grid(header, tuple(lines))


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows of one kind, a line each."""
    out, writer = io.StringIO(), None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _plain(value) for name, value in row.items()})
    return out.getvalue()


def _plain(value: Any) -> Any:
    """Formats a cell; a text that a spreadsheet would read as a formula gets an apostrophe in front."""
    if not isinstance(value, str | list):
        return value
    words = text.clean("; ".join(value) if isinstance(value, list) else value)
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words
