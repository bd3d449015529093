"""Joins run records with published rows and gives verdicts, with notes on what weakens them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar

from repro.evidence.derived import Pair, Sources, derive, explain_missing
from repro.evidence.entries import DERIVED, Cell, Entry
from repro.evidence.goals import Goal, goals_of
from repro.evidence.judging.judge import LEVEL, LOOKS, judge_number
from repro.evidence.judging.margins import check_date
from repro.evidence.judging.statistics import estimate
from repro.evidence.published import COUNTED, Derivation, Paper, Reference, load_papers
from repro.evidence.selection import Sample, Selection, sample
from repro.evidence.verified import Verified, read_verified
from repro.grouping import grouped
from repro.ledger import NO_REASON, Line, read_ledger
from repro.paths import records_dirs, results_dirs
from repro.recipe import Recipe, experiments, load_recipe, scales_of
from repro.record import Damage, Measurement, RunRecord, read_records
from repro.seeds import TUNING, show_ranges

Name = TypeVar("Name")
Key = tuple[str, str, str, str | None]  # paper, table, row, metric


@dataclass
class Comparison:
    """Published numbers, recipes and records, joined."""

    papers: list[Paper]
    records: list[RunRecord]
    damaged: list[Damage]
    recipes: dict[tuple[str, str], Recipe]
    verified: list[Verified]
    ledger: list[Line]
    entries: dict[Key, Entry] = field(default_factory=dict)

    @cached_property
    def withdrawn(self) -> dict[str, str]:
        """Why records were withdrawn, by their paths."""
        return {line.path: line.reason for line in self.ledger if line.event == "withdrawn"}

    @cached_property
    def grouped(self) -> defaultdict[tuple[str, str], list[RunRecord]]:
        """The records of each experiment at each scale, those that do not count included."""
        return grouped(((record.experiment, record.scale), record) for record in self.records)

    @cached_property
    def selections(self) -> dict[tuple[str, str], Selection]:
        """The records of each experiment at each scale, sorted by whether they count."""
        selections = {}
        for key, recipe in self.recipes.items():
            group, seeds = self.grouped.get(key, []), frozenset(recipe.seeds)
            config_hash = recipe.config_hash if group else ""  # hashing takes time
            selections[key] = Selection.from_records(group, config_hash, seeds, self.withdrawn)
        return selections

    @cached_property
    def beginnings(self) -> dict[str, datetime]:
        """When each run first began, by its id, from the ledger and from records, withdrawn ones included."""
        started = [(run, line.moment) for run, lines in self.started.items() for line in lines]
        return _first([*started, *((record.run_id, record.began) for record in self.records)])

    def beginning(self, records: Iterable[RunRecord]) -> datetime:
        """When the first run behind some records began, earlier tries of the same run included."""
        return self.first_beginning(record.run_id for record in records)

    def begun_again(self, records: Iterable[RunRecord]) -> list[str]:
        """Names the seeds whose run was begun more often than its records list, or by other code: a try is lost."""
        lost = []
        for record in records:
            started = [line.reason for line in self.started.get(record.run_id, ())]
            tries = self.tries[record.run_id]
            anew = sum(attempt.get("first") == 0 for attempt in tries)
            commits = {NO_REASON, *(str(attempt["commit"]) for attempt in tries)}
            if len(started) > max(1, anew) or not commits.issuperset(started):
                lost.append(record.seed)
        return [f"begun before, without a record: seed {show_ranges(sorted({*lost}))}"] if lost else []

    @cached_property
    def started(self) -> dict[str, list[Line]]:
        """The lines of the ledger on the beginnings of each run, by its id."""
        return grouped((line.path, line) for line in self.ledger if line.event == "started")

    @cached_property
    def tries(self) -> defaultdict[str, list[dict[str, Any]]]:
        """All attempts that the records of each run list, by its id; one of a record that lists none."""
        tries = ((r, r.attempts or [{"commit": r.commit, "first": 0}]) for r in self.records)
        return grouped((record.run_id, attempt) for record, listed in tries for attempt in listed)

    def first_beginning(self, run_ids: Iterable[str]) -> datetime:
        """When the first of some runs began, at least one of which did."""
        return min(self.beginnings[run] for run in run_ids if run in self.beginnings)

    @cached_property
    def declared(self) -> dict[tuple[str, str], datetime]:
        """When each text of a test was first declared, by the test's path in the ledger and the text's digest."""
        lines = (line for line in self.ledger if line.event == "declared")
        return _first(((line.path, line.sha256), line.moment) for line in lines)

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


def _first(times: Iterable[tuple[Name, datetime]]) -> dict[Name, datetime]:
    first: dict[Name, datetime] = {}
    for name, time in times:
        first[name] = min(time, first.get(name, time))
    return first


def compare(paper: str | None = None) -> Comparison:
    """Joins records and published numbers of one paper, or of all papers and the suite's own studies."""
    papers = load_papers(paper)
    keys = {p.key for p in papers}
    if paper is None:
        keys |= {e.split("/", 1)[0] for e in experiments()}
    named = [e for e in experiments() if e.split("/", 1)[0] in keys]
    read = read_records(*records_dirs(), paper=paper)
    comparison = Comparison(
        papers,
        [record for record in read.good if record.experiment.split("/", 1)[0] in keys],
        read.damaged,
        {(e, scale): load_recipe(e, scale) for e in named for scale in scales_of(e)},
        read_verified(*results_dirs()),
        [line for folder in records_dirs() for line in read_ledger(folder)],
    )
    for loaded in papers:
        _add_entries(comparison, loaded)
    return comparison


def _add_entries(comparison: Comparison, paper: Paper) -> None:
    recipes = [recipe for recipe in comparison.recipes.values() if recipe.paper == paper.key]
    goals = grouped(((goal.table, goal.row), goal) for recipe in recipes for goal in goals_of(recipe))
    for table in paper.tables.values():
        for row in table.rows.values():
            own = goals[table.id, row.id]
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

    def pairs(reference: Reference | None) -> tuple[Pair, ...]:
        cells = comparison.cells(entry.paper, reference) if reference else []
        return next((c.sample.measured for c in cells if c.goal.scale == scale and c.estimate), ())

    table, measured = entry.paper.tables[rule.of[0]], source.sample.measured
    reaches, over = pairs(rule.reaches), pairs(rule.over)
    ranked = [row.id for row in entry.table.rows.values() if metric.name in row.values]
    others = [pairs((table.id, row, rule.of[2])) for row in ranked] if rule.take == "rank" else []
    missing = (rule.reaches and not reaches) or (rule.over and not over) or not all(others)
    complete = bool(measured) and not missing
    source_metric = table.metrics[rule.of[2]]
    made = Sources(measured, source_metric, others, reaches, over)
    values = derive(rule, made) if complete else []
    goal = Goal(source.goal.experiment, scale, entry.table.id, entry.row.id, metric.name, DERIVED)
    derived = replace(
        source.sample,
        measured=tuple((r, Measurement(str(rule), v, metric.unit, metric.split)) for r, v in values),
        estimate=estimate([value for _, value in values]) if values else None,
        unit=metric.unit,
    )
    why = explain_missing(rule, len(values), len(measured)) if complete else ""
    if why and not values:
        return Cell(goal, derived, "no value", why, None, source.notes)
    notes = (*source.notes, why) if why else source.notes
    count, level = next((look for look in LOOKS if look[0] >= len(values)), LOOKS[-1])
    seeds = comparison.recipes[goal.experiment, scale].seeds[:count]
    return _judged(comparison, entry, goal, derived, notes, seeds, level)


def _cell(comparison: Comparison, entry: Entry, goal: Goal) -> Cell:
    """The cell of a number, by the first of :data:`LOOKS` that decides it; else by the last that has all its seeds."""
    recipe = comparison.recipes[goal.experiment, goal.scale]
    selection = comparison.selections[goal.experiment, goal.scale]
    if goal.scale != "paper" or entry.rules is None or entry.rules.kind not in COUNTED:
        numbers = sample(goal.measured, selection)
        return _judged(
            comparison, entry, goal, numbers, (*selection.notes, *numbers.notes), recipe.seeds, LEVEL
        )
    if entry.rules.kind == "trained":
        selection = replace(selection, also=())  # no other run gives a seed the number that its own lacks
    unnamed = sorted({r.seed for r, state in selection.left_out if state == "tuning" and r.seed < TUNING})
    before = [f"recorded and not judged: seed {show_ranges(unnamed)}"] if unnamed else []
    before += selection.other_configurations(goal.measured)
    found: list[Cell] = []
    for count, level in LOOKS:
        seeds = recipe.seeds[:count]
        numbers = sample(goal.measured, selection.of(seeds))
        if found and len(numbers.measured) < len(seeds):
            break
        rest = [record.seed for record in selection.used if record.seed not in seeds]
        left_out = [f"not counted: seed {show_ranges(rest)}"] if rest else []
        again = comparison.begun_again(numbers.records)
        notes = (*selection.notes, *numbers.notes, *left_out, *before, *again)
        found.append(_judged(comparison, entry, goal, numbers, notes, seeds, level))
        if found[-1].verdict != "open" or len(recipe.seeds) <= count:
            break
    return found[-1]


def _judged(
    comparison: Comparison,
    entry: Entry,
    goal: Goal,
    sample: Sample,
    notes: tuple[str, ...],
    seeds: Sequence[int],
    level: float,
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
        check_date(rules.margin, entry.metric.unit, comparison.beginning(sample.records), place)
    difference = sample.estimate.mean - published
    devices = {"gpu" if r.on_gpu else "cpu" for r in sample.records}
    if rules.kind == "ratio" and rules.device and devices != {rules.device}:
        return Cell(goal, sample, "timed", f"the paper timed on a {rules.device}", difference, notes)
    if not sample.clean:
        return Cell(goal, sample, "open", "not all commits are clean", difference, notes)
    scores = {record.seed: m.value for record, m in sample.measured}
    updates = min(record.steps for record in sample.records)
    verdict = judge_number(scores, published, rules, entry.metric, updates, seeds, level)
    return Cell(goal, sample, verdict.word, verdict.why, difference, notes)
