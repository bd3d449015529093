"""The document of one paper: its rungs, the tests of its claims, its tables with our numbers, figures."""

from collections.abc import Iterable, Sequence

from repro.evidence import text
from repro.evidence.entries import Cell, Entry
from repro.evidence.published import Metric, Paper, PublishedTable, Row
from repro.evidence.table import Evidence
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Paragraph, VerdictWord
from repro.report.formats.blocks import Cell as GridCell
from repro.report.plots.plot import KINDS, Plot
from repro.report.views.first_screen import rungs_grid
from repro.report.views.tests import grid_of_tests, untested_grid
from repro.report.views.words import PARAGRAPHS, at_scale, published, venue


def paper_document(evidence: Evidence, paper: Paper, plots: Iterable[Plot] = ()) -> Document:
    """Everything about a paper, with those of the figures that are its own."""
    own = {plot.name: plot for plot in plots if plot.name.startswith(f"{paper.key}--")}
    first = [own[name] for part in ("picture", "effects") if (name := f"{paper.key}--{part}.svg") in own]
    document: Document = [
        Heading(1, paper.title),
        Paragraph(f"{', '.join(paper.about.authors)}. {venue(paper)}. {paper.about.url}"),
        Paragraph(f"Published numbers: {paper.about.version_used}."),
        rungs_grid(evidence, [paper]),
        *(Figure(plot.name, plot.caption) for plot in first),
        *_tests(evidence, paper),
    ]
    for table in paper.tables.values():
        document += _table(table, [e for e in evidence.comparison.entries_of(paper) if e.table is table])
    document += _reduced(evidence, paper)
    document += _figures([plot for plot in own.values() if plot not in first and "--test--" not in plot.name])
    if paper.missing:
        document += [Heading(2, "Not in the published file"), Bullets(paper.missing)]
    return document


def _tests(evidence: Evidence, paper: Paper) -> Document:
    tested = evidence.tested[paper.key]
    grids: Document = [grid_of_tests(tested)] if tested else []
    return [Heading(2, "Tests of its claims"), *grids, *untested_grid(evidence, paper)]


def _table(table: PublishedTable, entries: list[Entry]) -> Document:
    """Shows a published table with our numbers below each row."""
    metrics = list(table.metrics.values())
    rows: list[tuple[GridCell, ...]] = []
    kinds: list[str] = []
    for row in table.rows.values():
        own = [e for e in entries if e.row is row]
        rows.append(_paper_line(table, row, metrics, own))
        kinds.append("paper")
        for experiment in dict.fromkeys(c.goal.experiment for e in own for c in e.paper_cells if c.estimate):
            rows.append(_our_line(experiment, metrics, own))
            kinds.append("ours")
    header = ("Row", "Source", "Parameters", *map(_title, metrics), "Verdict at the paper's scale")
    source = "Published by others, not by the paper. " if table.third_party else ""
    notes = [f"{m.name}: {m.description}. {judged(m)}" for m in metrics] + [table.notes] * bool(table.notes)
    notes += filter(None, (_threads(m, entries) for m in metrics))
    notes += [f"{_place_of(e, c)}: {'; '.join(c.notes)}." for e in entries for c in e.cells if c.notes]
    return [
        Heading(2, f"{table.number}: {table.title}"),
        Paragraph(f"{source}Data: {table.dataset}; split: {table.split}. Checked: {table.checked}."),
        Grid(header, tuple(rows), frozenset(range(2, 3 + len(metrics))), tuple(kinds)),
        Bullets(tuple(notes)),
    ]


def _threads(metric: Metric, entries: list[Entry]) -> str:
    """States the threads of rows that were timed on a CPU with different numbers of them; empty where none were."""
    timed = [e for e in entries if e.metric is metric and metric.rules.kind == "timed"]
    records = [(r, e.row.label) for e in timed for c in e.paper_cells for r in c.sample.records]
    threads = [(r.hardware["threads"], label) for r, label in records if not r.on_gpu]
    words = text.by_value(((text.plural(n, "thread"), row) for n, row in dict.fromkeys(threads)), ", ".join)
    return f"{metric.name}: not timed alike, {words}." if words else ""


def _title(metric: Metric) -> str:
    return f"{metric.name} ({metric.unit}, {'↑' if metric.better == 'higher' else '↓'})"


def judged(metric: Metric) -> str:
    """Returns a sentence on how a column is judged."""
    rules = metric.rules
    parts = [f"Class: {rules.kind}"]
    parts += [f"margin {rules.margin}, set {rules.margin.date}"] if rules.margin else []
    parts += [f"chance {rules.chance:g}"] if rules.chance is not None else []
    return f"{', '.join(parts)}."


def _place_of(entry: Entry, cell: Cell) -> str:
    metric = f", {entry.metric.name}" if entry.metric else ""
    return f"{entry.row.id}{metric}, {cell.goal.experiment} ({at_scale(cell.goal.scale)})"


def _paper_line(
    table: PublishedTable, row: Row, metrics: list[Metric], entries: list[Entry]
) -> tuple[GridCell, ...]:
    values = [published(row.values.get(m.name), m.name in row.unconfirmed) for m in metrics]
    source = "others" if table.third_party else "paper"
    return row.label, source, text.count(row.params), *values, _paper_verdict(entries)


def _paper_verdict(entries: list[Entry]) -> GridCell:
    """Explains why the row has none of our numbers, once where all cells agree; empty where it has some."""
    places: dict[VerdictWord, list[str]] = {}
    for entry in entries:
        if any(cell.estimate for cell in entry.paper_cells):
            continue
        pairs = {(c.goal.experiment, c.goal.scale) for c in (entry.reduced or entry.cells)}
        runs = (f"{name} ({scale})" if entry.reduced else name for name, scale in sorted(pairs))
        verdict = VerdictWord(entry.verdict, entry.reason or ", ".join(dict.fromkeys(runs)))
        places.setdefault(verdict, []).append(entry.metric.name if entry.metric else "")
    if len(places) == 1 and sum(map(len, places.values())) == len(entries):
        return next(iter(places))
    return "; ".join(f"{', '.join(names)}: {verdict}" for verdict, names in places.items())


def _our_line(experiment: str, metrics: list[Metric], entries: list[Entry]) -> tuple[GridCell, ...]:
    own = (c for e in entries if e.metric for c in e.paper_cells if c.goal.experiment == experiment)
    cells = {c.goal.metric: c for c in own}
    values = [text.plus_minus(cells[m.name].estimate) if m.name in cells else text.NOTHING for m in metrics]
    counts = {r.parameters for c in cells.values() for r in c.sample.records}
    parameters = " or ".join(map(text.count, sorted(counts)))
    measured = {name: _verdict(cell) for name, cell in cells.items() if cell.estimate}
    words: GridCell = "; ".join(f"{name}: {verdict}" for name, verdict in measured.items())
    if len(cells) == 1:
        (words,) = measured.values()
    return "", f"ours: {experiment}", parameters, *values, words


def _verdict(cell: Cell) -> VerdictWord:
    assert cell.estimate is not None
    words = [f"n = {cell.estimate.n}", cell.why, "see notes" if cell.notes else ""]
    if cell.difference is not None:
        words.insert(0, text.signed(cell.difference, text.digits_after(cell.estimate.mean)))
    return VerdictWord(cell.verdict, ", ".join(filter(None, words)))


def _reduced(evidence: Evidence, paper: Paper) -> Document:
    """Lists numbers of recipes of the paper at reduced scales."""
    cells = [c for e in evidence.comparison.entries_of(paper) for c in e.reduced]
    rows = {}
    for cell in cells:
        assert cell.estimate is not None
        labels = (cell.goal.experiment, cell.goal.scale, cell.sample.measured[0][1].name)
        rows[labels] = (
            *labels, text.plus_minus(cell.estimate), str(cell.estimate.n), cell.sample.unit or "",
            "see notes" if cell.notes else "",
        )  # fmt: skip
    header = ("Experiment", "Scale", "Metric", "Mean ± 95 %", "n", "Unit", "Notes")
    grid = Grid(header, tuple(rows.values()), frozenset({3, 4}))
    title = Heading(2, "Numbers at reduced scales")
    return [title, Paragraph(PARAGRAPHS["reduced scales"]), grid] if rows else []


def _figures(plots: Sequence[Plot]) -> Document:
    """Shows figures by kind, with a sentence on how to read them."""
    document: Document = []
    for kind, how_to_read in KINDS.items():
        if of_kind := [Figure(plot.name, plot.caption) for plot in plots if plot.kind == kind]:
            document += [Heading(2, kind), Paragraph(how_to_read), *of_kind]
    return document
