"""One paper's comparison as CSV, one line per published number and per number of ours."""

import csv
import io

from repro.evidence.compare import Comparison
from repro.evidence.entries import Cell, Entry
from repro.evidence.published import Paper
from repro.text import clean

# A reduced-scale number has columns of its own: it is never in a column with the paper's.
COLUMNS = (
    "paper", "table", "row", "label", "metric", "unit", "better", "dataset", "split", "third_party", "class", "margin",
    "counted", "published", "unconfirmed", "verdict", "reason", "why", "experiment", "mean", "low", "high", "n",
    "difference", "reduced_scale", "reduced_mean", "reduced_low", "reduced_high", "reduced_n", "notes",
)  # fmt: skip


def _cell(text: str) -> str:
    """A text that no spreadsheet reads as a formula: one that begins like a formula gets an apostrophe in front."""
    content = clean(text)
    return f"'{content}" if content.startswith(("=", "+", "-", "@")) else content


def render(comparison: Comparison, paper: Paper) -> str:
    """The lines of one paper: row 0 of each number is the paper's, ours follow."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for entry in comparison.of(paper):
        writer.writerow(_published(entry))
        for cell in entry.ours:
            writer.writerow(_ours(entry, cell, ""))
        for cell in entry.reduced:
            writer.writerow(_ours(entry, cell, "reduced_"))
    return out.getvalue()


def _labels(entry: Entry) -> dict[str, str | float | bool | None]:
    metric = entry.metric
    return {
        "paper": entry.paper.key,
        "table": entry.table.id,
        "row": entry.row.id,
        "label": _cell(entry.row.label),
        "metric": metric.name if metric else "",
        "unit": _cell(metric.unit) if metric else "",
        "better": metric.better if metric else "",
        "dataset": _cell(metric.dataset if metric else entry.table.dataset),
        "split": _cell(metric.split if metric else entry.table.split),
        "third_party": entry.table.third_party,
        "class": entry.rules.kind if entry.rules else "",
        "margin": str(entry.rules.margin or "") if entry.rules else "",
        "counted": entry.is_counted,
    }


def _published(entry: Entry) -> dict[str, str | float | bool | None]:
    own = {"published": entry.published, "unconfirmed": entry.unconfirmed}
    return {**_labels(entry), **own, "verdict": entry.verdict, "reason": _cell(entry.reason or "")}


def _ours(entry: Entry, cell: Cell, prefix: str) -> dict[str, str | float | bool | None]:
    values: dict[str, str | float | bool | None] = {
        "verdict": cell.verdict,
        "why": _cell(cell.why),
        "experiment": cell.goal.experiment,
        "difference": cell.difference,
        "notes": _cell("; ".join(cell.notes)),
    }
    if prefix:
        values["reduced_scale"] = cell.goal.scale
    if cell.estimate:
        for name in ("mean", "low", "high", "n"):
            values[prefix + name] = getattr(cell.estimate, name)
    return {**_labels(entry), **values}
