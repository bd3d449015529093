"""Published tables, with ours below each row."""

from dataclasses import dataclass

from repro import text
from repro.evidence.entries import Cell, Entry
from repro.evidence.published import Metric, Paper, Row, Table
from repro.recipe import SCALES
from repro.report.formats.documents import judged
from repro.report.site import anchors, badges
from repro.report.site.material import Material

Link = tuple[str, str]  # words and address, which is empty where there is nothing to lead to
Weak = tuple[str, tuple[str, ...]]  # what is weakened, empty where that is clear, and by what


@dataclass(frozen=True)
class Value:
    """A published number, with its verdict where no number of ours follows below."""

    number: str
    unconfirmed: bool
    verdict: str = ""
    href: str = ""


@dataclass(frozen=True)
class Number:
    """A number of ours; all texts are empty where there is none."""

    number: str = ""
    href: str = ""
    apart: str = ""
    verdict: str = ""
    why: str = ""


@dataclass(frozen=True)
class Ours:
    """The line of one experiment below a published row."""

    recipe: Link
    parameters: str
    numbers: list[Number]
    weak: list[Weak]


@dataclass(frozen=True)
class RowView:
    """A published row and ours below it: one group of lines, which a filter shows or hides together."""

    id: str
    verdicts: str
    scales: str
    label: str
    parameters: str
    values: list[Value]
    verdict: str
    reasons: list[str]
    recipes: list[Link]
    weak: list[Weak]
    ours: list[Ours]


@dataclass(frozen=True)
class TableView:
    """One table; it is open where something of it was measured."""

    id: str
    name: str
    counts: str
    about: str
    metrics: list[tuple[str, str]]
    rows: list[RowView]
    notes: list[str]
    is_open: bool


def table(material: Material, paper: Paper, published: Table) -> TableView:
    """The view of one table."""
    entries = [e for e in material.comparison.of(paper) if e.table is published]
    alike = _alike(entries)
    verdicts = [entry.verdict for entry in entries]
    counts = [f"{verdicts.count(v)} {v}" for v in sorted(set(verdicts), key=badges.rank)]
    notes = [f"No run measures {', '.join(names)}: {why}." for why, names in _by_value(alike).items()]
    source = "Published by others, not by the paper. " if published.third_party else ""
    descriptions = _by_value({m.name: f"{m.description}. {judged(m)}" for m in published.metrics.values()})
    notes += [f"{', '.join(names)}: {description}" for description, names in descriptions.items()]
    return TableView(
        id=anchors.table(paper, published),
        name=f"{published.number}: {published.title}",
        counts=", ".join(counts) or "no numbers",
        about=f"{source}Data: {published.dataset}; split: {published.split}. Checked: {published.checked}.",
        metrics=[
            (m.name, f"{m.unit} {'↑' if m.better == 'higher' else '↓'}") for m in published.metrics.values()
        ],
        rows=[
            _row(material, paper, published, row, [e for e in entries if e.row is row], alike)
            for row in published.rows.values()
        ],
        notes=[*notes, *([published.notes] if published.notes else [])],
        is_open=any(cell.estimate for entry in entries for cell in entry.cells),
    )


def _alike(entries: list[Entry]) -> dict[str, str]:
    """The metrics that no recipe measures, for one reason in all rows: it is stated once, below the table."""
    reasons: dict[str, set[str | None]] = {}
    for entry in entries:
        reasons.setdefault(entry.metric.name if entry.metric else "", set()).add(entry.reason)
    return {
        name: why for name, values in reasons.items() if len(values) == 1 for why in values if name and why
    }


def _by_value(pairs: dict[str, str]) -> dict[str, list[str]]:
    """The keys of each value."""
    names: dict[str, list[str]] = {}
    for key, value in pairs.items():
        names.setdefault(value, []).append(key)
    return names


def _row(
    material: Material, paper: Paper, table: Table, row: Row, entries: list[Entry], alike: dict[str, str]
) -> RowView:
    """The reason is shown beside each number, or once after them where it is the same."""
    scales = {c.goal.scale for e in entries for c in e.cells if c.estimate}
    experiments = dict.fromkeys(c.goal.experiment for e in entries for c in e.ours if c.estimate)
    metrics = list(table.metrics.values())
    missing = [e for e in entries if not any(cell.estimate for cell in e.ours)]
    agree = len(missing) == len(entries) and len({(e.verdict, e.reason) for e in entries}) == 1
    beside = [] if agree else [e for e in missing if not (e.metric and e.metric.name in alike)]
    cells = [cell for entry in missing for cell in (entry.reduced or entry.cells)]
    recipes = list(dict.fromkeys(_recipe(material, cell) for cell in cells))
    return RowView(
        id=anchors.row(paper, table, row),
        verdicts=badges.keys({e.verdict for e in entries}),
        scales=" ".join(scale for scale in SCALES if scale in scales),
        label=row.label,
        parameters=_parameters({row.params}),
        values=[_value(row, m, beside) for m in metrics],
        verdict=missing[0].verdict if agree else "",
        reasons=_reasons(missing, agree, alike),
        recipes=recipes,
        weak=_weak([(_short(cell), cell) for cell in cells], len(recipes) > 1),
        ours=[_ours(material, experiment, metrics, entries) for experiment in experiments],
    )


def _value(row: Row, metric: Metric, beside: list[Entry]) -> Value:
    """A published number with its verdict, which leads to the runs that there are."""
    number, unconfirmed = text.printed(row.values.get(metric.name)), metric.name in row.unconfirmed
    for entry in beside:
        if entry.metric and entry.metric.name == metric.name:
            href = f"#{anchors.runs_of(entry.reduced[0])}" if entry.reduced else ""
            return Value(number, unconfirmed, entry.verdict, href)
    return Value(number, unconfirmed)


def _reasons(missing: list[Entry], agree: bool, alike: dict[str, str]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for entry in missing:
        name = entry.metric.name if entry.metric else ""
        if entry.reason and name not in alike:
            reasons.setdefault(entry.reason, []).append(name)
    return [why if agree else f"{', '.join(names)}: {why}" for why, names in reasons.items()]


def _weak(cells: list[tuple[str, Cell]], several: bool) -> list[Weak]:
    """Remarks on what weakens some cells, each once."""
    by_notes: dict[tuple[str, ...], list[str]] = {}
    for name, cell in cells:
        if cell.notes:
            by_notes.setdefault(tuple(cell.notes), []).append(name)
    return [(", ".join(dict.fromkeys(names)) if several else "", notes) for notes, names in by_notes.items()]


def _parameters(counts: "set[int] | set[int | None]") -> str:
    words = " or ".join(text.count(n) for n in sorted(n for n in counts if n is not None))
    return f"{words} parameters" if words else ""


def _short(cell: Cell) -> str:
    """The recipe without the paper, whose section it is in; with its scale if reduced."""
    scale = "" if cell.goal.scale == "paper" else f" ({cell.goal.scale})"
    return cell.goal.experiment.partition("/")[2] + scale


def _recipe(material: Material, cell: Cell) -> Link:
    return _short(cell), f"#{anchors.runs_of(cell)}" if material.has_runs(cell) else ""


def _ours(material: Material, experiment: str, metrics: list[Metric], entries: list[Entry]) -> Ours:
    """Our numbers of one experiment at the paper's scale, each leading to its runs."""
    cells = {e.metric.name: c for e in entries if e.metric for c in e.ours if c.goal.experiment == experiment}
    return Ours(
        recipe=_recipe(material, next(iter(cells.values()))),
        parameters=_parameters({r.parameters for c in cells.values() for r in c.sample.records}),
        numbers=[measured(cells.get(m.name)) for m in metrics],
        weak=_weak(list(cells.items()), len(cells) > 1),
    )


def measured(cell: Cell | None) -> Number:
    """One number of ours with n, its difference from the published one, and its verdict."""
    if cell is None or cell.estimate is None:
        return Number()
    change = text.signed(cell.difference, text.digits_after(cell.estimate.mean))
    apart = f"n = {cell.estimate.n}" + (f", {change}" if cell.difference is not None else "")
    href = f"#{anchors.runs_of(cell)}"
    return Number(text.plus_minus(cell.estimate), href, apart, cell.verdict, cell.why)
