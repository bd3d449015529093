"""Joins run records with published rows. Says what holds, and marks whatever weakens the statement.

Verdicts of a cell: ``reproduced``, ``near``, ``gap`` (see :func:`_judge`), ``reduced scale`` (records only at
reduced scales), ``not run`` (a recipe, but no usable record), ``no config`` (no recipe), and ``unpublished``
(we measured what the paper shows without a number).
"""

from dataclasses import dataclass, field
from typing import Any

from repro.errors import UserError, nearest
from repro.paths import results_dir
from repro.recipe import SCALES, experiments, scales_of
from repro.record import RunRecord, read_records
from repro.report.header import Goal, Header, Support, read_header
from repro.report.intervals import Estimate
from repro.report.published import Metric, Paper, Row, Table, load_papers
from repro.report.samples import Sample, Selection, sample

SEEDS_WANTED = 3
VERDICTS = ("reproduced", "near", "gap", "unpublished", "reduced scale", "not run", "no config")
Key = tuple[str, str, str, str | None]  # paper, table, row, metric


@dataclass(frozen=True)
class Cell:
    """What one experiment says, at one scale, of one published number.

    Attributes:
        difference: our mean less the published number, in the metric's unit; None at reduced scales.
        notes: whatever weakens the statement: seeds missing, commits mixed or dirty, records left out.
    """

    goal: Goal
    sample: Sample
    verdict: str
    difference: float | None
    notes: tuple[str, ...]

    @property
    def estimate(self) -> Estimate | None:
        """Mean over seeds, or None without a usable record."""
        return self.sample.estimate


@dataclass
class Entry:
    """One published number with everything that was measured for it."""

    paper: Paper
    table: Table
    row: Row
    metric: Metric | None
    cells: list[Cell] = field(default_factory=list)

    @property
    def published(self) -> float | None:
        """The paper's number; None where it prints none."""
        return self.row.values.get(self.metric.name) if self.metric else None

    @property
    def unconfirmed(self) -> bool:
        """True where nobody could check the published number against the paper."""
        return self.metric is not None and self.metric.name in self.row.unconfirmed

    @property
    def ours(self) -> list[Cell]:
        """Cells at paper scale, the one with the best verdict (then the best mean) first."""
        sign = self.metric.sign if self.metric else 1
        at_paper = [cell for cell in self.cells if cell.goal.scale == "paper"]
        mean = {id(c): c.estimate.mean * sign if c.estimate else float("-inf") for c in at_paper}
        return sorted(at_paper, key=lambda c: (VERDICTS.index(c.verdict), -mean[id(c)], c.goal.experiment))

    @property
    def reduced(self) -> list[Cell]:
        """Cells at reduced scales that have a number."""
        return [cell for cell in self.cells if cell.goal.scale != "paper" and cell.estimate]

    @property
    def verdict(self) -> str:
        """The verdict over all experiments; see the module."""
        if not self.cells:
            return "no config"
        first = self.ours[0].verdict if self.ours else "not run"
        return "reduced scale" if first == "not run" and self.reduced else first

    @property
    def reason(self) -> str | None:
        """Why there is no recipe; None where there is one."""
        if self.cells:
            return None
        if self.metric is not None and self.metric.no_recipe:
            return self.metric.no_recipe
        if "no_recipe" in self.row.settings:
            return str(self.row.settings["no_recipe"])
        if self.table.third_party:
            return "third-party reproduction"
        if not self.row.is_this_papers_model:
            return "not the paper's own model"
        return "not built yet"


@dataclass
class Comparison:
    """Published numbers, recipes and records, joined."""

    papers: list[Paper]
    records: list[RunRecord]
    entries: dict[Key, Entry]
    headers: dict[tuple[str, str], Header]
    selections: dict[tuple[str, str], Selection]

    def of(self, paper: Paper) -> list[Entry]:
        """The entries of one paper in published order."""
        return [entry for key, entry in self.entries.items() if key[0] == paper.key]

    def state(self, record: RunRecord) -> str:
        """``current``, or why it is not used: ``stale``, ``superseded``, ``external``, ``no recipe``."""
        selection = self.selections.get((record.experiment, record.scale))
        return selection.state(record) if selection else "no recipe"

    def sample(self, wanted: Goal | Support) -> Sample:
        """The numbers of the current records that fit."""
        return sample(wanted, self.selections[wanted.experiment, wanted.scale].used)


def compare(paper: str | None = None) -> Comparison:
    """Joins everything there is, of one paper or of all."""
    papers = load_papers(paper)
    keys = {p.key for p in papers}
    named = [e for e in experiments() if e.split("/", 1)[0] in keys]
    records = [r for r in read_records(results_dir() / "runs") if r.experiment.split("/", 1)[0] in keys]
    headers = {(e, scale): read_header(e, scale) for e in named for scale in scales_of(e)}
    grouped: dict[tuple[str, str], list[RunRecord]] = {key: [] for key in headers}
    for record in records:
        if (record.experiment, record.scale) in grouped:
            grouped[record.experiment, record.scale].append(record)
    selections = {
        key: Selection.of(group, headers[key].config_hash if group else "") for key, group in grouped.items()
    }
    comparison = Comparison(papers, records, {}, headers, selections)
    for one in papers:
        _add_entries(comparison, one)
    return comparison


def _add_entries(comparison: Comparison, paper: Paper) -> None:
    goals: dict[tuple[str, str], list[Goal]] = {}
    for (experiment, _), header in comparison.headers.items():
        for goal in header.goals if header.recipe.paper == paper.key else ():
            _check_goal(goal, paper, experiment)
            goals.setdefault((goal.table, goal.row), []).append(goal)
    for table in paper.tables.values():
        for row in table.rows.values():
            here = goals.get((table.id, row.id), [])
            names: list[str | None] = list(dict.fromkeys([*row.values, *(goal.metric for goal in here)]))
            for name in names or [None]:
                entry = Entry(paper, table, row, table.metrics[name] if name else None)
                entry.cells = [_cell(comparison, entry, goal) for goal in here if goal.metric == name]
                comparison.entries[paper.key, table.id, row.id, name] = entry


def _check_goal(goal: Goal, paper: Paper, experiment: str) -> None:
    where = f"{experiment} at scale {goal.scale}: reproduces"
    if goal.table not in paper.tables:
        raise UserError(
            f"{where}: {paper.key} has no table {goal.table!r}{nearest(goal.table, paper.tables)}"
        )
    table = paper.tables[goal.table]
    if goal.row not in table.rows:
        raise UserError(f"{where}: {table.id} has no row {goal.row!r}{nearest(goal.row, table.rows)}")
    if goal.metric not in table.metrics:
        raise UserError(
            f"{where}: {table.id} has no metric {goal.metric!r}{nearest(goal.metric, table.metrics)}"
        )


def _cell(comparison: Comparison, entry: Entry, goal: Goal) -> Cell:
    found = comparison.sample(goal)
    notes = [*comparison.selections[goal.experiment, goal.scale].notes, *found.notes]
    if found.estimate is None:
        return Cell(goal, found, "not run", None, tuple(notes))
    needed = 1 if goal.deterministic else SEEDS_WANTED
    if found.estimate.n < needed:
        notes.append(f"{found.estimate.n} of {needed} seeds")
    if goal.scale != "paper":
        return Cell(goal, found, "reduced scale", None, tuple(notes))
    if entry.published is None or entry.metric is None:
        return Cell(goal, found, "unpublished", None, tuple(notes))
    tolerance = tolerance_of(goal, entry.metric, entry.published)
    verdict = _judge(found, entry.metric, entry.published, tolerance, goal.two_sided)
    if (found.estimate.half_width or 0.0) > 3 * tolerance:
        notes.append("interval wider than 3 times the tolerance")
    return Cell(goal, found, verdict, found.estimate.mean - entry.published, tuple(notes))


def _judge(found: Sample, metric: Metric, published: float, tolerance: float, two_sided: bool) -> str:
    """``reproduced``, ``near`` or ``gap`` for a number measured at paper scale.

    ``reproduced``: every record of a clean commit and our own, at least three seeds (one where the number is
    deterministic), and the 95 % interval overlaps published ± tolerance or lies on its better side, unless that is
    a difference, too (``two_sided``).
    ``near``: the mean lies within 3 × tolerance. Else ``gap``.
    """
    best = found.estimate
    assert best is not None
    enough = best.n >= (1 if found.wanted.deterministic else SEEDS_WANTED)
    if enough and found.clean and best.low is not None and best.high is not None:
        worse_end, better_end = (best.low, best.high) if metric.sign > 0 else (best.high, best.low)
        reach = tolerance + 1e-9 * abs(published)  # rounding must not decide
        # Overlap or better: the interval's better end reaches the tolerance band.
        reaches = (better_end - published) * metric.sign >= -reach
        beyond = (worse_end - published) * metric.sign > reach
        if reaches and not (two_sided and beyond):
            return "reproduced"
    return "near" if abs(best.mean - published) <= 3 * tolerance + 1e-9 * abs(published) else "gap"


def tolerance_of(goal: Goal, metric: Metric, published: float) -> float:
    """The recipe's tolerance, or the default of the unit, in the metric's unit.

    Raises:
        UserError: a unit without a default and a recipe without a tolerance.
    """
    if isinstance(goal.tolerance, str):
        return abs(published) * float(goal.tolerance.removesuffix("%")) / 100
    if goal.tolerance is not None:
        return goal.tolerance
    unit = metric.unit.lower()
    if "perplexity" in unit:
        return 0.01 * abs(published)
    for word, default in (("bits", 0.02), ("bleu", 0.5), ("percent", 1.0), ("%", 1.0), ("accuracy", 1.0)):
        if word in unit:
            return default
    raise UserError(
        f"{goal.experiment} at scale {goal.scale}: reproduces {goal.table}, {goal.row}: "
        f"no default tolerance for {metric.unit!r}; add `tolerance: ...`"
    )


def list_rows(paper: str | None = None) -> list[dict[str, Any]]:
    """One object per published number, and one per row without numbers, for ``repro list``.

    ``measured`` is the best mean at paper scale, else null; ``reduced`` holds the numbers of reduced scales.
    """
    return [_object(entry) for entry in compare(paper).entries.values()]


def _object(entry: Entry) -> dict[str, Any]:
    ours = entry.ours
    first = ours[0] if ours else entry.cells[0] if entry.cells else None
    best = next((cell for cell in ours if cell.estimate), None)
    shown = best or first
    scales = {s for cell in entry.cells for s in scales_of(cell.goal.experiment)}
    return {
        "paper": entry.paper.key,
        "table": entry.table.id,
        "row": entry.row.id,
        "label": entry.row.label,
        "experiment": shown.goal.experiment if shown else None,
        "scales": [scale for scale in SCALES if scale in scales],
        "metric": entry.metric.name if entry.metric else None,
        "unit": entry.metric.unit if entry.metric else None,
        "published": entry.published,
        "unconfirmed": entry.unconfirmed,
        "measured": best.estimate.mean if best and best.estimate else None,
        "n": best.estimate.n if best and best.estimate else 0,
        "verdict": entry.verdict,
        "reason": entry.reason,
        "notes": list(shown.notes) if shown else [],
        "reduced": [
            {
                "scale": c.goal.scale,
                "mean": c.estimate.mean,
                "n": c.estimate.n,
                "experiment": c.goal.experiment,
            }
            for c in entry.reduced
            if c.estimate
        ],
    }
