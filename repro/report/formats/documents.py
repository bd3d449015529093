"""The content of the generated files, independent of their format: one document per paper, the claims, the runs."""

from collections.abc import Iterable, Sequence
from typing import Any

from repro import text
from repro.evidence.compare import Comparison
from repro.evidence.entries import Cell, Entry
from repro.evidence.published import Metric, Paper, Row, Table
from repro.evidence.selection import protocol_of
from repro.evidence.statistics import estimate
from repro.recipe import SCALES
from repro.record import Measurement, RunRecord
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Paragraph
from repro.report.plots.plot import DRAWN, KINDS, Plot

Group = list[tuple[RunRecord, Measurement]]  # numbers that were measured in the same way

REDUCED = (
    "These runs are smaller than the paper's in model, data or updates. None of their numbers is comparable "
    "with a row above; they support ordering claims only."
)


def paper_document(comparison: Comparison, paper: Paper, plots: Iterable[Plot] = ()) -> Document:
    """Every published table of a paper with ours below each row, then the runs at reduced scale, then figures."""
    document: Document = [
        Heading(1, paper.title),
        Paragraph(f"{', '.join(paper.authors)}. {_venue(paper)}. {paper.url}"),
        Paragraph(f"Published numbers: {paper.version_used}."),
    ]
    entries = comparison.of(paper)
    for table in paper.tables.values():
        document += _table(table, [e for e in entries if e.table is table])
    document += _reduced(comparison, paper)
    document += _figures(list(plots))
    if paper.missing:
        document += [Heading(2, "Not in the published file"), Bullets(paper.missing)]
    return document


def _figures(plots: list[Plot]) -> Document:
    """Figures by kind. A drawing has a line with its caption: unlike a plot, it has no title."""
    document: Document = []
    for kind, how_to_read in KINDS.items():
        shown = [plot for plot in plots if plot.kind == kind]
        if shown:
            document.append(Heading(2, kind))
            document += [Paragraph(how_to_read)] if how_to_read else []
        for plot in shown:
            if kind == DRAWN:
                document += [Paragraph(f"{plot.caption}:"), Figure(plot.name, _titled(plot))]
            else:
                document.append(Figure(plot.name, plot.caption))
    return document


def _titled(plot: Plot) -> str:
    return plot.name.rpartition(".")[0].replace("--", " · ")


def _venue(paper: Paper) -> str:
    return paper.venue if str(paper.year) in paper.venue else f"{paper.venue}, {paper.year}"


def _table(table: Table, entries: list[Entry]) -> Document:
    metrics = list(table.metrics.values())
    rows: list[tuple[str, ...]] = []
    kinds: list[str] = []
    for row in table.rows.values():
        own = [e for e in entries if e.row is row]
        rows.append(_paper_line(table, row, metrics, own))
        kinds.append("paper")
        for experiment in dict.fromkeys(c.goal.experiment for e in own for c in e.ours if c.estimate):
            rows.append(_our_line(experiment, metrics, own))
            kinds.append("ours")
    header = ("Row", "Source", "Parameters", *map(_title, metrics), "Verdict")
    source = "Published by others, not by the paper. " if table.third_party else ""
    document: Document = [
        Heading(2, f"{table.number}: {table.title}"),
        Paragraph(f"{source}Data: {table.dataset}; split: {table.split}. Checked: {table.checked}."),
        Grid(header, tuple(rows), frozenset(range(2, 3 + len(metrics))), tuple(kinds)),
    ]
    notes = [f"{m.name}: {m.description}. {judged(m)}" for m in metrics] + (
        [table.notes] if table.notes else []
    )
    notes += [f"{_where(e, c)}: {'; '.join(c.notes)}." for e in entries for c in e.cells if c.notes]
    return [*document, Bullets(tuple(notes))] if notes else document


def _title(metric: Metric) -> str:
    return f"{metric.name} ({metric.unit}, {'↑' if metric.better == 'higher' else '↓'})"


def judged(metric: Metric) -> str:
    """How a column is judged, in a sentence."""
    rules = metric.rules
    parts = [f"Class: {rules.kind}"]
    parts += [f"margin {rules.margin}, set {rules.margin.date}"] if rules.margin else []
    parts += [f"chance {rules.chance:g}"] if rules.chance is not None else []
    return f"{', '.join(parts)}."


def _where(entry: Entry, cell: Cell) -> str:
    metric = f", {entry.metric.name}" if entry.metric else ""
    return f"{entry.row.id}{metric}, {cell.goal.experiment} at scale {cell.goal.scale}"


def _paper_line(table: Table, row: Row, metrics: list[Metric], entries: list[Entry]) -> tuple[str, ...]:
    values = [
        text.printed(row.values.get(m.name)) + (" (unconfirmed)" if m.name in row.unconfirmed else "")
        for m in metrics
    ]
    source = "others" if table.third_party else "paper"
    return row.label, source, text.count(row.params), *values, _paper_verdict(entries)


def _paper_verdict(entries: list[Entry]) -> str:
    """Why no number of ours follows below, stated once where all cells agree; empty where one follows."""
    metrics: dict[str, list[str]] = {}
    for entry in entries:
        if any(cell.estimate for cell in entry.ours):
            continue
        words = f"{entry.verdict}: {entry.reason}" if entry.reason else entry.verdict
        if entry.cells:
            pairs = {(c.goal.experiment, c.goal.scale) for c in (entry.reduced or entry.cells)}
            named = (f"{e} ({scale})" if entry.reduced else e for e, scale in sorted(pairs))
            words += f": {', '.join(dict.fromkeys(named))}"
        metrics.setdefault(words, []).append(entry.metric.name if entry.metric else "")
    if len(metrics) == 1 and sum(map(len, metrics.values())) == len(entries):
        return next(iter(metrics))
    return "; ".join(f"{', '.join(names)}: {words}" for words, names in metrics.items())


def _our_line(experiment: str, metrics: list[Metric], entries: list[Entry]) -> tuple[str, ...]:
    cells = {e.metric.name: c for e in entries if e.metric for c in e.ours if c.goal.experiment == experiment}
    values = [text.plus_minus(cells[m.name].estimate) if m.name in cells else text.NOTHING for m in metrics]
    records = {id(r): r for c in cells.values() for r in c.sample.records}.values()
    verdicts = []
    for name, cell in cells.items():
        if cell.estimate:
            prefix = f"{name}: " if len(cells) > 1 else ""
            decimals = text.digits_after(cell.estimate.mean)
            change = "" if cell.difference is None else f"{text.signed(cell.difference, decimals)}, "
            marked = "; see notes" if cell.notes else ""
            why = f", {cell.why}" if cell.why else ""
            verdicts.append(f"{prefix}{cell.verdict} ({change}n = {cell.estimate.n}{why}{marked})")
    parameters = " or ".join(text.count(n) for n in sorted({r.parameters for r in records}))
    return "", f"ours: {experiment}", parameters, *values, "; ".join(verdicts)


def _reduced(comparison: Comparison, paper: Paper) -> Document:
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for (experiment, scale), selection in comparison.selections.items():
        if scale == "paper" or not experiment.startswith(f"{paper.key}/"):
            continue
        weak = selection.weaknesses if selection.used else []
        for group in measurements(selection.used):
            best = estimate([m.value for _, m in group])
            m = group[0][1]
            marks = [*some_seeds(group, selection.used), *(["see notes"] if weak else [])]
            value = text.plus_minus(best) + (f" ({'; '.join(marks)})" if marks else "")
            labels = (experiment, scale, m.name, value, str(best.n), m.unit, m.split)
            rows.append((*labels, text.mapping(shared_protocol(group))))
        for group in comparison.derived(experiment, scale):
            m = group[0][1]
            value = text.plus_minus(estimate([m.value for _, m in group]))
            rows.append((experiment, scale, m.name, value, str(len(group)), m.unit, m.split, "derived"))
        if weak:
            notes.append(f"{experiment} at scale {scale}: {'; '.join(weak)}.")
    if not rows:
        return []
    header = ("Experiment", "Scale", "Metric", "Mean ± 95 %", "n", "Unit", "Split", "Protocol")
    document: Document = [Heading(2, "Reduced-scale runs"), Paragraph(REDUCED)]
    document.append(Grid(header, tuple(rows), frozenset({3, 4})))
    return [*document, Bullets(tuple(notes))] if notes else document


def measurements(records: Iterable[RunRecord]) -> list[Group]:
    """The numbers of several records, grouped where name, unit, split and protocol all agree."""
    groups: dict[tuple[str, ...], Group] = {}
    for record in records:
        for m in record.metrics:
            key = (m.name, m.unit, m.split, text.mapping(protocol_of(m)))
            groups.setdefault(key, []).append((record, m))
    return list(groups.values())


def shared_protocol(group: Group) -> dict[str, Any]:
    """The protocol of a group's numbers, without what differs from run to run."""
    first = group[0][1]
    return first.protocol if all(m.protocol == first.protocol for _, m in group) else protocol_of(first)


def some_seeds(group: Group, records: Sequence[RunRecord]) -> list[str]:
    """A mark for a number that some records lack: it was not measured, or by another protocol."""
    seeds = {r.seed for r, _ in group}
    if seeds == {r.seed for r in records}:
        return []
    return [f"only seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))}"]


def runs_document(comparison: Comparison) -> Document:
    """Every record, also those that count for nothing, and why."""
    document: Document = [Heading(1, "Runs"), Paragraph("Every run record, by experiment and scale.")]
    groups: dict[tuple[str, int, str], list[RunRecord]] = {}
    for r in comparison.records:
        order = SCALES.index(r.scale) if r.scale in SCALES else len(SCALES)
        groups.setdefault((r.experiment, order, r.scale), []).append(r)
    for (experiment, _, scale), records in sorted(groups.items()):
        label = "paper scale" if scale == "paper" else f"reduced scale: {scale}, not the paper's row"
        document += [Heading(2, f"{experiment} ({label})"), _runs_grid(comparison, records)]
        document.append(_metrics_grid(records))
        deviations = dict.fromkeys(d for r in records for d in r.deviations)
        if deviations:
            document += [Paragraph("Deviations from the recipe as published:"), Bullets(tuple(deviations))]
    if not groups:
        document.append(Paragraph("No run has been recorded yet."))
    return [*document, *verified_records(comparison)]


def verified_records(comparison: Comparison) -> Document:
    """The outcomes of `repro verify`, oldest first."""
    header = ("Verified", "Record", "Outcome", "Same build and layout", "Detail")
    same = {True: "yes", False: "no", None: text.NOTHING}
    rows = [(o.time[:10], o.record, o.outcome, same[o.same_build], o.detail) for o in comparison.verified]
    if not rows:
        return []
    return [Heading(2, "Records that were run again"), Paragraph(VERIFY), Grid(header, tuple(rows))]


VERIFY = (
    "The command repro verify checks out the commit of a record, runs its command again and compares every number and "
    "the hash of the weights; timings are left out."
)


def _runs_grid(comparison: Comparison, records: list[RunRecord]) -> Grid:
    titles = ("Seed", "State", "Hardware", "Precision", "Parameters", "Updates", "Tokens")
    header = (*titles, "Wall time", "GPU hours", "Peak memory", "Commit", "Configuration", "Finished", "W&B")
    rows = []
    for r in sorted(records, key=lambda r: (r.seed, r.finished)):
        amounts = (text.count(r.parameters), text.count(r.steps), text.count(r.tokens))
        costs = (text.duration(r.wall_seconds), f"{r.gpu_hours:.2f}", text.size(r.peak_bytes))
        origin = (commit(r), r.config_hash[:8], r.finished, r.wandb_url or text.NOTHING)
        state = comparison.explained(r)
        rows.append((str(r.seed), state, text.mapping(r.hardware), r.precision, *amounts, *costs, *origin))
    return Grid(header, tuple(rows), frozenset({0, 4, 5, 6, 7, 8, 9}))


def commit(record: RunRecord) -> str:
    """Eight digits of the commit, and whether the tree differed from it."""
    if record.commit is None:
        return "unknown"
    changed = {True: " with uncommitted changes", False: "", None: " (changes unknown)"}[record.dirty]
    return f"{record.commit[:8]}{changed}"


def _metrics_grid(records: list[RunRecord]) -> Grid:
    header = ("Metric", "Seed: value", "Unit", "Split", "Items", "Validation", "Protocol")
    rows = []
    for group in measurements(sorted(records, key=lambda r: (r.seed, r.finished))):
        m = group[0][1]
        values = ", ".join(f"{r.seed}: {text.number(x.value)}" for r, x in group)
        items = " or ".join(text.count(n) for n in sorted({x.count or 0 for _, x in group}) if n)
        validation = ", ".join(text.number(x.validation) for _, x in group if x.validation is not None)
        labels = (m.name, values, m.unit, m.split, items or text.NOTHING, validation or text.NOTHING)
        rows.append((*labels, text.mapping(shared_protocol(group))))
    return Grid(header, tuple(rows))
