"""Every run record, with its state, and what was run again."""

from repro.evidence import text
from repro.evidence.compare import Comparison
from repro.evidence.table import Evidence
from repro.grouping import grouped
from repro.recipe import SCALES, change_results
from repro.record import RunRecord
from repro.report.formats.blocks import Bullets, Document, Grid, Heading, Paragraph, VerdictWord
from repro.report.plots.plot import grid_of
from repro.report.views.words import PARAGRAPHS

HEADER = ("Run", "State", "First number", "Tests", "Updates", "Time", "Hardware", "Commit", "Finished")


def runs_document(evidence: Evidence) -> Document:
    """Lists every record by paper, with the reason where it does not count."""
    comparison = evidence.comparison
    used = [(one.test.name, s.sample.records) for one in evidence.tests for s in one.results]
    tests = grouped(dict.fromkeys((record.path, name) for name, records in used for record in records))
    document: Document = [
        Heading(1, "Runs"),
        Paragraph("Every run record. The command repro show prints all of one."),
    ]
    records = sorted(comparison.records, key=_place)
    papers = grouped((record.experiment.partition("/")[0], record) for record in records)
    for paper, records in papers.items():
        rows = tuple(_line(comparison, record, tests.get(record.path, [])) for record in records)
        document += [Heading(2, paper), Grid(HEADER, rows, frozenset({4, 5}))]
        deviations = dict.fromkeys(f"{grid_of(r.experiment)}: {d}" for r in records for d in r.deviations)
        if deviations:
            document += [Paragraph("Deviations from the recipe as published:"), Bullets(tuple(deviations))]
    if not papers:
        document.append(Paragraph("No run has been recorded yet."))
    return [*document, *_verified(comparison)]


def _place(record: RunRecord) -> tuple[str, int, int, str]:
    scale = SCALES.index(record.scale) if record.scale in SCALES else len(SCALES)
    return record.experiment, scale, record.seed, record.finished


def _line(comparison: Comparison, record: RunRecord, tests: list[str]) -> tuple[str | VerdictWord, ...]:
    state = comparison.state(record)
    why = comparison.withdrawn[record.path] if state == "withdrawn" else ""
    return (
        record.run_id,
        VerdictWord(state, why),
        first_number(record),
        ", ".join(sorted(tests)) or text.NOTHING,
        text.count(record.steps),
        text.duration(record.wall_seconds),
        str(record.hardware.get("device") or text.NOTHING),
        commit(record),
        record.finished[:10],
    )


def first_number(record: RunRecord) -> str:
    """The first measurement that the recipe compares with a published number; else the first of its test."""
    names = [goal.get("measured") for goal in record.config.get("reproduces") or ()]
    named = [m for m in record.metrics if m.name in names]
    tested = [m for m in record.metrics if m.name.startswith("test/")]
    first = next(iter([*named, *tested, *record.metrics]), None)
    return f"{first.name} {text.number(first.value)} {first.unit}" if first else text.NOTHING


def settings(record: RunRecord) -> str:
    """The settings beside the recipe that change the result, as on the command line."""
    return " ".join(word for word in record.overrides if change_results([word]))


def commit(record: RunRecord) -> str:
    """Eight digits of the commit, and whether the tree differed from it."""
    if record.commit is None:
        return "unknown"
    changed = {True: " with uncommitted changes", False: "", None: " (changes unknown)"}[record.dirty]
    return f"{record.commit[:8]}{changed}"


def _verified(comparison: Comparison) -> Document:
    """The outcomes of `repro verify`, oldest first."""
    header = ("Verified", "Record", "Outcome", "Same build and layout", "Detail")
    same = {True: "yes", False: "no", None: text.NOTHING}
    rows = [(o.time[:10], o.record, o.outcome, same[o.same_build], o.detail) for o in comparison.verified]
    title = Heading(2, "Records that were run again")
    return [title, Paragraph(PARAGRAPHS["verified"]), Grid(header, tuple(rows))] if rows else []
