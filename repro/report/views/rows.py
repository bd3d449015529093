"""Flat rows of published numbers: for `repro list`, and as CSV."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from repro.evidence import text
from repro.evidence.declared.outcomes import Tested
from repro.evidence.entries import Entry
from repro.evidence.table import Evidence, numbers
from repro.recipe import SCALES, scales_of
from repro.report.formats.blocks import Bullets, Document, Grid, Heading, Paragraph, VerdictWord
from repro.report.views.first_screen import rungs_grid
from repro.report.views.words import at_scale, outcome, published

Rows = list[dict[str, Any]]


def list_rows(evidence: Evidence) -> Rows:
    """One object for each published number, and for each row without numbers.

    ``measured`` is the mean at the paper's scale, else None; ``reduced`` holds the numbers of reduced scales.
    """
    return [_listed(entry) for entry in evidence.comparison.entries.values()]


def _listed(entry: Entry) -> dict[str, Any]:
    rows = numbers(entry)
    first = rows[0]  # the one that counts at the paper's scale, where there is one
    is_ours = first["scale"] == "paper" and first["n"] > 0
    scales = {scale for row in rows if row["experiment"] for scale in scales_of(row["experiment"])}
    reduced = ("scale", "mean", "n", "experiment")
    return {
        **{name: value for name, value in first.items() if name not in ("scale", "mean", "low", "high")},
        "scales": [scale for scale in SCALES if scale in scales],
        "measured": first["mean"] if is_ours else None,
        "n": first["n"] if is_ours else 0,
        "verdict": entry.verdict,
        "reduced": [
            {name: row[name] for name in reduced} for row in rows if row["n"] and row["scale"] != "paper"
        ],
    }


def listing(evidence: Evidence, paper: str | None) -> Document:
    """Builds the document of `repro list`: rungs of every paper, or tables, recipes and tests of one."""
    if paper:
        return _paper_listing(evidence, evidence.tested[paper])
    grid = rungs_grid(evidence, evidence.papers)
    lines = [(one.key, *cells[1:]) for one, cells in zip(evidence.papers, grid.rows, strict=True)]
    more = "repro list PAPER: its published rows with our values and recipes, and its tests"
    return [Grid(grid.header, tuple(lines)), Paragraph(more)]


def _paper_listing(evidence: Evidence, tested: Sequence[Tested]) -> Document:
    (paper,) = evidence.papers
    rows = list_rows(evidence)
    document: Document = []
    for key, table_rows in groupby(rows, itemgetter("table")):
        heading = Heading(2, f"{paper.key}:{key}: {paper.tables[key].title}")
        document += [heading, list_grid(table_rows)]
    scales = {row["experiment"]: ", ".join(row["scales"]) for row in rows if row["experiment"]}
    if scales:
        document += [Heading(2, "Recipes"), Grid(("recipe", "scales"), tuple(scales.items()))]
    lines = []
    for one in tested:
        attempt = f"attempt {one.test.attempt} of {one.attempts}"
        lines.append(f"{outcome(one)} ({at_scale(one.test.scale)}, {attempt}): {one.test.says}")
    if lines:
        document += [Heading(2, "Tests of claims"), Bullets(tuple(lines))]
    return document


def list_grid(rows: Iterable[Mapping[str, Any]]) -> Grid:
    """Objects of :func:`list_rows` of one table, a line each."""
    lines = []
    for row in rows:
        reduced = (f"{r['scale']} {text.number(r['mean'])} (n = {r['n']})" for r in row["reduced"])
        measured = text.number(row["measured"]) + (f" (n = {row['n']})" if row["n"] else "")
        verdict = VerdictWord(row["verdict"], "; ".join(filter(None, (row["why"], *row["notes"]))))
        metric = f"{row['metric']} ({row['unit']})" if row["metric"] else text.NOTHING
        recipe = (row["experiment"] or text.NOTHING).removeprefix(f"{row['paper']}/")
        printed = published(row["published"], row["unconfirmed"])
        lines.append((row["row"], metric, printed, measured, verdict, ", ".join(reduced), recipe))
    header = ("row", "metric", "published", "measured", "verdict", "reduced scales", "recipe")
    return Grid(header, tuple(lines))


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one kind, a line each."""
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _plain(value) for name, value in row.items()} for row in rows)
    return out.getvalue()


def _plain(value: object) -> object:
    """Formats a cell; a text that a spreadsheet would read as a formula gets an apostrophe in front."""
    if not isinstance(value, str | list):
        return value
    words = text.clean("; ".join(value) if isinstance(value, list) else value)
    return f"'{words}" if words.startswith(("=", "+", "-", "@")) else words
