"""Joins run records with published rows and gives verdicts, with notes on what weakens them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from repro.evidence.derived import Pair, Sources, derive, without
from repro.evidence.entries import DERIVED, Cell, Entry
from repro.evidence.header import Goal, Header, read_header
from repro.evidence.judging.judge import judge_number
from repro.evidence.judging.margins import check_date
from repro.evidence.judging.statistics import estimate
from repro.evidence.ledger import Configurations
from repro.evidence.published import COUNTED, Derivation, Paper, Reference, load_papers
from repro.evidence.selection import Sample, Selection, sample
from repro.evidence.verified import Verified, read_verified
from repro.ledger import Line, read_ledger
from repro.paths import records_dirs, results_dirs
from repro.recipe import experiments, scales_of
from repro.record import Damage, Measurement, RunRecord, read_records

Key = tuple[str, str, str, str | None]  # paper, table, row, metric


@dataclass
class Comparison:
    """Published numbers, recipes and records, joined."""

    papers: list[Paper]
    records: list[RunRecord]
    damaged: list[Damage]
    entries: dict[Key, Entry]
    headers: dict[tuple[str, str], Header]
    selections: dict[tuple[str, str], Selection]
    verified: list[Verified]
    ledger: list[Line]

    @cached_property
    def reasons(self) -> dict[str, str]:
        """Why records were withdrawn or superseded, by their paths; a withdrawal comes first."""
        lines = sorted(self.ledger, key=lambda line: line.event == "withdrawn")
        return {line.path: line.reason for line in lines if line.event in ("superseded", "withdrawn")}

    @cached_property
    def withdrawn(self) -> frozenset[str]:
        """Paths of the withdrawn records."""
        return frozenset(line.path for line in self.ledger if line.event == "withdrawn")

    @cached_property
    def started(self) -> dict[str, datetime]:
        """The start times of the judged runs, by run id."""
        return _first_times(line for line in self.ledger if line.event == "started")

    def declared(self, path: str, sha256: str) -> datetime | None:
        """Returns the time of the first declaration of a test with this digest."""
        lines = (
            line for line in self.ledger if (line.event, line.path, line.sha256) == ("declared", path, sha256)
        )
        return _first_times(lines).get(path)

    @cached_property
    def configurations(self) -> Configurations:
        """Configurations of recipes and records."""
        return Configurations(self.records)

    def config_hash(self, experiment: str, scale: str) -> str:
        """Returns the hash of the current configuration; empty without such a recipe."""
        header = self.headers.get((experiment, scale))
        return header.config_hash if header else ""

    def cells(self, paper: Paper, reference: Reference) -> list[Cell]:
        """The cells of a number, ``(table, row, metric)``."""
        entry = self.entries.get((paper.key, *reference))
        return entry.cells if entry else []

    def entries_of(self, paper: Paper) -> list[Entry]:
        """The entries of one paper in published order."""
        return [entry for key, entry in self.entries.items() if key[0] == paper.key]

    def state(self, record: RunRecord) -> str:
        """``current``, or why it is not used; see :meth:`repro.evidence.selection.Selection.state`."""
        selection = self.selections.get((record.experiment, record.scale))
        return selection.state(record) if selection else "no recipe"

    def sample(self, goal: Goal) -> Sample:
        """Returns the numbers of the current records for a goal, or the numbers derived from them."""
        if goal.measured == DERIVED:
            entry = self.entries[goal.experiment.split("/", 1)[0], goal.table, goal.row, goal.metric]
            return next(c.sample for c in entry.cells if c.goal.scale == goal.scale)
        return sample(goal, self.selections[goal.experiment, goal.scale])


def _first_times(lines: Iterable[Line]) -> dict[str, datetime]:
    times: dict[str, datetime] = {}
    for line in lines:
        times[line.path] = min(line.moment, times.get(line.path, line.moment))
    return times


def compare(paper: str | None = None) -> Comparison:
    """Joins records and published numbers of one paper, or of all papers and the suite's own studies."""
    papers = load_papers(paper)
    keys = {p.key for p in papers}
    if paper is None:
        keys |= {e.split("/", 1)[0] for e in experiments()}
    named = [e for e in experiments() if e.split("/", 1)[0] in keys]
    read = read_records(*records_dirs())
    records = [r for r in read.good if r.experiment.split("/", 1)[0] in keys]
    headers = {(e, scale): read_header(e, scale) for e in named for scale in scales_of(e)}
    grouped: dict[tuple[str, str], list[RunRecord]] = {key: [] for key in headers}
    for record in records:
        if (record.experiment, record.scale) in grouped:
            grouped[record.experiment, record.scale].append(record)
    ledger = [line for folder in records_dirs() for line in read_ledger(folder)]
    left_out = frozenset(line.path for line in ledger if line.event == "withdrawn")
    selections = {
        key: Selection.from_records(
            group, headers[key].config_hash if group else "", headers[key].seeds, left_out
        )
        for key, group in grouped.items()
    }
    again = read_verified(*results_dirs())
    comparison = Comparison(papers, records, read.damaged, {}, headers, selections, again, ledger)
    for loaded in papers:
        _add_entries(comparison, loaded)
    return comparison


def _add_entries(comparison: Comparison, paper: Paper) -> None:
    goals: dict[tuple[str, str], list[Goal]] = {}
    for header in comparison.headers.values():
        for goal in header.goals if header.recipe.paper == paper.key else ():
            goals.setdefault((goal.table, goal.row), []).append(goal)
    for table in paper.tables.values():
        for row in table.rows.values():
            own = goals.get((table.id, row.id), [])
            names: list[str | None] = list(dict.fromkeys([*row.values, *(goal.metric for goal in own)]))
            for name in names or [None]:
                entry = Entry(paper, table, row, table.metrics[name] if name else None)
                entry.cells = [_cell(comparison, entry, goal) for goal in own if goal.metric == name]
                comparison.entries[paper.key, table.id, row.id, name] = entry
    for entry in comparison.entries_of(paper):
        if not entry.cells and entry.published is not None and entry.rules and entry.rules.derived:
            entry.cells = derived_cells(comparison, entry, entry.rules.derived)


def derived_cells(comparison: Comparison, entry: Entry, rule: Derivation) -> list[Cell]:
    """Returns the cells of a derived number, one for each scale at which its source has a recipe."""
    sources = comparison.cells(entry.paper, rule.of)[::-1]
    best = {cell.goal.scale: cell for cell in sources}
    best |= {cell.goal.scale: cell for cell in sources if cell.estimate}
    return [_derived_cell(comparison, entry, rule, cell) for cell in best.values()]


def _derived_cell(comparison: Comparison, entry: Entry, rule: Derivation, source: Cell) -> Cell:
    metric, scale = entry.metric, source.goal.scale
    assert metric is not None

    def pairs(table: str, row: str, name: str) -> tuple[Pair, ...]:
        cells = comparison.cells(entry.paper, (table, row, name))
        return next((c.sample.measured for c in cells if c.goal.scale == scale and c.estimate), ())

    table, measured = entry.paper.tables[rule.of[0]], source.sample.measured
    reaches = pairs(*rule.reaches) if rule.reaches else ()
    over = pairs(*rule.over) if rule.over else ()
    ranked = [row.id for row in entry.table.rows.values() if metric.name in row.values]
    others = [pairs(table.id, row, rule.of[2]) for row in ranked] if rule.take == "rank" else []
    complete = (
        bool(measured and all(others))
        and bool(reaches) == bool(rule.reaches)
        and bool(over) == bool(rule.over)
    )
    source_metric = table.metrics[rule.of[2]]
    made = Sources(measured, source_metric.sign, others, source_metric.rules.margin, reaches, over)
    values = derive(rule, made) if complete else []
    goal = Goal(source.goal.experiment, scale, DERIVED, {}, entry.table.id, entry.row.id, metric.name)
    derived = replace(
        source.sample,
        query=goal,
        records=tuple(record for record, _ in values),
        measured=tuple((r, Measurement(str(rule), v, metric.unit, metric.split)) for r, v in values),
        estimate=estimate([value for _, value in values]) if values else None,
        unit=metric.unit,
    )
    why = without(rule, len(values), len(measured)) if complete else ""
    if why and not values:
        return Cell(goal, derived, "no value", why, None, source.notes)
    notes = (*source.notes, why) if why else source.notes
    return _judged(entry, goal, derived, notes, 0, False)


def _cell(comparison: Comparison, entry: Entry, goal: Goal) -> Cell:
    sample = comparison.sample(goal)
    notes = (*comparison.selections[goal.experiment, goal.scale].notes, *sample.notes)
    updates = min((record.steps for record in sample.records), default=0)
    extended = comparison.headers[goal.experiment, goal.scale].recipe.extended
    return _judged(entry, goal, sample, notes, updates, extended)


def _judged(
    entry: Entry, goal: Goal, sample: Sample, notes: tuple[str, ...], updates: int, extended: bool
) -> Cell:
    rules, published = entry.rules, entry.published
    if sample.estimate is None:
        return Cell(goal, sample, "not run", "", None, notes)
    if goal.scale != "paper":
        return Cell(goal, sample, "reduced scale", "", None, notes)
    if published is None or entry.metric is None or rules is None:
        return Cell(goal, sample, "unpublished", "", None, notes)
    if rules.kind in COUNTED:
        place = f"{goal.table}, row {goal.row}, {goal.metric}"
        check_date(rules.margin, entry.metric.unit, sample.records, place)
    difference = sample.estimate.mean - published
    if (
        rules.kind == "ratio"
        and rules.device
        and {"gpu" if r.on_gpu else "cpu" for r in sample.records} != {rules.device}
    ):
        return Cell(goal, sample, "timed", f"the paper timed on a {rules.device}", difference, notes)
    if not sample.clean:
        return Cell(goal, sample, "open", "not all commits are clean", difference, notes)
    scores = [m.value for _, m in sample.measured]
    verdict = judge_number(scores, published, rules, entry.metric.sign, entry.metric.unit, updates, extended)
    return Cell(goal, sample, verdict.word, verdict.why, difference, notes)
