"""The outcomes of declared tests: which way our rows are ordered, and whether the test is fair.

Verdicts: ``same order``, ``other order``, ``no clear order`` of tests that pass the gate; ``not a fair test`` of
others; ``planned`` (not yet declared), ``not run`` (no records), ``incomplete`` (rows or seeds without records).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean

from repro.errors import UserError
from repro.evidence import text
from repro.evidence.compare import Comparison
from repro.evidence.declared.fair_tests import FairTest, RowRuns, Tests, load_tests, published_rows
from repro.evidence.declared.gate import Condition, GateRow, gate, kind_of
from repro.evidence.judging.judge import judge_claim
from repro.evidence.judging.margins import Margin, check_date, default_margin
from repro.evidence.judging.statistics import Difference, Estimate, welch
from repro.evidence.ledger import CLAIM, COLUMN, EXTENDED, declaration
from repro.evidence.published import Claim, Metric, Paper
from repro.evidence.selection import Sample, Selection, entry_words, protocol_of, sample
from repro.record import RunRecord
from repro.seeds import TUNING

ORDERS = ("same order", "other order", "no clear order")
UNFAIR = "not a fair test"
WAITING = ("not run", "incomplete")  # of declared tests
BUDGET = "budget"  # in `varies`: updates and training tokens
SAME_TOKENS = 0.02  # of one budget may differ by so much: batches hold whole sentences
SAME_ITEMS = 0.005  # streams cut in another way leave out other last tokens
MINUTE = "%Y-%m-%d %H:%M"
ALTERED = "declared (with another text, or another configuration of its runs)"
# Facts of runs in which rows should not differ.
FACTS: Mapping[str, Callable[[RunRecord], object]] = {
    "data": lambda record: str(record.data.get("manifest_sha256"))[:8],
    "devices": lambda record: record.hardware.get("device"),
    "versions of torch": lambda record: record.versions.get("torch"),
    "parameters": lambda record: text.count(record.parameters),
}
PARTS = (0.25, 0.5, 1.0)  # of the budget, at which the validation curves are compared


@dataclass(frozen=True)
class RowResult:
    """A row of a test with our numbers.

    Attributes:
        relation: what is claimed of it and the next row: ``>``, ``=`` or ``>=``; empty of the last row.
        path: the validation metric at a quarter, at half and at the end of training, means over seeds.
    """

    row: str
    label: str
    run: RowRuns
    config: str
    published: float | None
    sample: Sample
    relation: str
    path: tuple[float | None, ...]

    @property
    def estimate(self) -> Estimate | None:
        """Mean over seeds, or None."""
        return self.sample.estimate

    def scores(self) -> list[float]:
        """Our numbers, one for each seed."""
        return [m.value for _, m in self.sample.measured] if self.estimate else []


@dataclass(frozen=True)
class Effect:
    """The difference of a row and the next one in per cent, ours and as printed.

    Attributes:
        ours: None where the next row has 0.
        low, high: ends of our 95 % interval; None where there is none.
        published: None where the paper prints no number, or one of another quantity.
    """

    rows: tuple[str, str]
    ours: float | None
    low: float | None
    high: float | None
    published: float | None


@dataclass(frozen=True)
class Tested:
    """A declared test with its outcome.

    Attributes:
        attempts: how many tests of the claim there are.
        verdict: one of the verdicts in the module's docstring.
        why: reason of the verdict.
        conditions: conditions of the gate; empty without records and for checks of the code.
        notes: what weakens the statement.
    """

    paper: Paper
    test: FairTest
    attempts: int
    results: tuple[RowResult, ...]
    verdict: str
    why: str = ""
    unit: str = ""
    margin: Margin | None = None
    conditions: tuple[Condition, ...] = ()
    effects: tuple[Effect, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def claim(self) -> Claim:
        """The paper's claim."""
        return self.paper.claims[self.test.claim]

    @property
    def column(self) -> Metric:
        """The paper's column whose protocol the measurement has."""
        return self.paper.tables[self.claim.table].metrics[self.test.column or self.claim.metric]

    @property
    def sign(self) -> int:
        """+1 where higher measured numbers are better, -1 where lower are."""
        return 1 if (self.test.better or self.column.better) == "higher" else -1

    @property
    def is_check(self) -> bool:
        """Whether it is a check of the code, which is no evidence."""
        return bool(self.test.check)

    @property
    def failed(self) -> str:
        """The conditions of the gate that are not met, ``settled, tuned``."""
        return ", ".join(condition.name for condition in self.conditions if not condition.met)

    @property
    def counts(self) -> bool:
        """Whether its verdict is evidence: a fair test, and no check of the code."""
        return not self.is_check and self.verdict in ORDERS


def outcomes(comparison: Comparison, paper: Paper) -> tuple[Tests, list[Tested]]:
    """The file of a paper's tests and the outcome of each."""
    tests = load_tests(paper)
    total = {test.claim: test.attempt for test in tests.tests}  # the last one counts
    return tests, [_tested(comparison, paper, test, total[test.claim]) for test in tests.tests]


def _tested(comparison: Comparison, paper: Paper, test: FairTest, attempts: int) -> Tested:
    """The outcome of a test; of an extended one that of its first seeds, unless they show no clear order."""
    times = _declarations(comparison, paper, test)
    if test.extended_to:
        declared = test.model_copy(update={"extended_to": ()})
        first = _look(comparison, paper, declared, attempts, times[:1])
        if first.verdict in (*ORDERS[:2], UNFAIR):
            return replace(first, test=test)
    return _look(comparison, paper, test, attempts, times)


def _look(
    comparison: Comparison, paper: Paper, test: FairTest, attempts: int, times: Sequence[datetime | None]
) -> Tested:
    results = tuple(_row_results(comparison, paper, test))
    notes = [f"{s.row}: {note}" for s in results for note in s.sample.notes]
    notes += [f"{s.row}: {note}" for s in results for note in comparison.begun_again(s.sample.records)]
    notes += [note for what, fact in FACTS.items() if (note := _between_rows(results, what, fact))]
    result = Tested(paper, test, attempts, results, "not run", notes=tuple(notes))
    missing = [s.row for s in results if not s.estimate]
    if len(missing) == len(results):
        return result if test.declared else replace(result, verdict="planned")
    if missing:
        return replace(result, verdict="incomplete", why=f"no record of {', '.join(missing)}")
    unit, column = next(s.sample.unit for s in results if s.sample.unit), result.column
    margin = test.margin or (column.rules.margin if unit == column.unit else default_margin(unit))
    alike = not test.other_quantity and test.better in (None, column.better)
    alike = alike and all(of(unit) == of(column.unit) for of in (kind_of, default_margin))
    effects = tuple(_effect(a, b, result.sign, alike) for a, b in pairwise(results))
    result = replace(result, unit=unit, margin=margin, effects=effects)
    if few := _unfinished(results, test):
        return replace(result, verdict="incomplete", why=few)
    altered = ALTERED if times and times[0] is None else None
    if problem := altered or _unclean(results) or _incomparable(results, test.varies):
        return replace(result, verdict=UNFAIR, why=problem)
    if not test.check:
        rows = [
            GateRow(
                s.row, s.sample.measured, comparison.beginning(s.sample.records), _tuning(comparison, test, s)
            )
            for s in results
        ]
        conditions = gate(test, rows, column, margin, _declared(comparison, test, results, times))
        result = replace(result, conditions=tuple(conditions))
        failed = [f"{c.name} ({c.why})" for c in conditions if not c.met]
        if failed:
            return replace(result, verdict=UNFAIR, why="; ".join(failed))
    return _judged(comparison, result)


def _between_rows(results: Sequence[RowResult], what: str, fact: Callable[[RunRecord], object]) -> str:
    """Names the rows whose runs differ in a fact from those of other rows; empty where none do."""
    facts = [(sorted({str(fact(record)) for record in s.sample.records}), s.row) for s in results]
    words = text.by_value(((" and ".join(found), row) for found, row in facts if found), ", ".join)
    return f"different {what} between rows: {words}" if words else ""


def _judged(comparison: Comparison, result: Tested) -> Tested:
    test, column, printed = result.test, result.column, published_rows(result.paper, result.test)
    began = comparison.beginning(record for s in result.results for record in s.sample.records)
    for margin, unit in ((printed.apart, column.unit), (result.margin, result.unit)):
        check_date(margin, unit, began, f"{result.paper.key}: {test.name}")
    printed = replace(printed, same_quantity=_same_quantity(result.unit, column.unit))
    scores = [(s.row, s.scores()) for s in result.results]
    extended = bool(test.extended_to)
    verdict = judge_claim(scores, printed, result.margin, result.sign, result.unit, extended)
    why = verdict.why + _missing_hours(result.results, verdict.seeds)
    return replace(result, verdict=verdict.word, why=why)


def _row_results(comparison: Comparison, paper: Paper, test: FairTest) -> Iterator[RowResult]:
    printed, table = published_rows(paper, test), paper.tables[paper.claims[test.claim].table]
    for i, (row, run) in enumerate(test.rows.items()):
        group = comparison.grouped[run.run, test.scale]
        config = _config(comparison, run, test.scale, group)
        selection = Selection.from_records(group, config, frozenset(test.seeds_of(row)), comparison.withdrawn)
        numbers = sample(test.measured_of(row), selection)
        yield RowResult(
            row,
            run.label or table.rows[row].label,
            run,
            config,
            printed.numbers[i],
            numbers,
            printed.relation(i, i + 1) if i + 1 < len(test.rows) else "",
            _path(numbers, test.settled_curve),
        )


def _config(comparison: Comparison, run: RowRuns, scale: str, group: Sequence[RunRecord]) -> str:
    """Returns the full hash of a row's configuration: of the pinned one, or of the current recipe; empty without."""
    if run.config:
        return next((r.config_hash for r in group if r.config_hash.startswith(run.config)), run.config)
    recipe = comparison.recipes.get((run.run, scale))
    return recipe.config_hash if recipe else ""


def _tuning(comparison: Comparison, test: FairTest, result: RowResult) -> list[RunRecord]:
    records = comparison.grouped[result.run.run, test.scale]
    return [r for r in records if r.seed >= TUNING and r.path not in comparison.withdrawn]


def _path(numbers: Sample, curve: str) -> tuple[float | None, ...]:
    """Returns the validation metric at parts of the budget: the last point up to each, mean over seeds."""
    path = []
    for part in PARTS:
        ends = []
        for record in numbers.records:
            points = [
                v for step, v in record.curves.get(curve, ()) if v is not None and step <= part * record.steps
            ]
            ends += points[-1:]
        path.append(fmean(ends) if ends else None)
    return tuple(path)


def _declarations(comparison: Comparison, paper: Paper, test: FairTest) -> list[datetime | None]:
    """Returns the times at which the test as it stands, then its extension, was declared.

    A time is None where the ledger has another text; without any line of the test there is none.
    """
    path = f"tests/{paper.key}/{test.name}"
    extension = f"{path}{EXTENDED}"
    times, paths = comparison.declared, {path for path, _ in comparison.declared}
    if path not in paths:
        return []
    try:
        made = declaration(paper, test, comparison.records)
    except UserError:  # a recipe of its runs is not here
        made = {}
    printed = [(part, made.pop(part, "")) for part in (f"{path}{CLAIM}", f"{path}{COLUMN}")]
    changed = any(part[0] in paths and part not in times for part in printed)
    if changed or (extension in paths and not test.extended_to):
        return [None]
    return [times.get(text) for text in made.items()] or [None]


def _declared(
    comparison: Comparison, test: FairTest, results: Sequence[RowResult], times: Sequence[datetime | None]
) -> Condition:
    """Checks that the ledger has the current declaration from before the first judged run.

    An extension is declared by itself, before the first run with one of its seeds.
    """
    seeds = {s.row: set(test.rows[s.row].seeds or test.seeds) for s in results}
    words = []
    for name, time in zip(("", "extension "), times or [None], strict=False):
        runs = [f"{s.run.run}/{test.scale}/s{seed}-{s.config[:8]}" for s in results for seed in seeds[s.row]]
        first = comparison.first_beginning(runs)
        if time is None or time > first:
            stated_time = f"{time:{MINUTE}}, after" if time else "never;"
            return Condition("declared", False, f"{name}{stated_time} its first run began {first:{MINUTE}}")
        words.append(f"{name}{time:{MINUTE}}, first run {first:{MINUTE}} UTC")
        seeds = {s.row: set(test.seeds_of(s.row)) - seeds[s.row] for s in results}
    return Condition("declared", True, "; ".join(words))


def _effect(a: RowResult, b: RowResult, sign: int, is_printed: bool) -> Effect:
    """The effect of a row: none beside a 0, and the printed one only of the same quantity."""
    assert a.estimate is not None
    assert b.estimate is not None
    gap: Difference | None = welch(a.estimate, b.estimate)
    base, printed = abs(b.estimate.mean), None
    if is_printed and a.published is not None and b.published:
        printed = 100 * sign * (a.published - b.published) / abs(b.published)
    if not base:
        return Effect((a.row, b.row), None, None, None, printed)
    ends = sorted(100 * sign * end / base for end in gap.interval(0.95)) if gap else [None, None]
    ours = 100 * sign * (a.estimate.mean - b.estimate.mean) / base
    return Effect((a.row, b.row), ours, ends[0], ends[1], printed)


def _unfinished(results: Sequence[RowResult], test: FairTest) -> str | None:
    """Names a row without records of all declared seeds, or None: a test is judged once, with all its seeds."""
    counts = ((s.row, len(s.sample.measured), len(test.seeds_of(s.row))) for s in results)
    few = (f"{row} has {found} of {seeds} seeds" for row, found, seeds in counts if found < seeds)
    return next(few, None)


def _same_quantity(unit: str, other: str) -> bool:
    """Whether two units are of one kind, as perplexities per word and per byte are."""
    return unit == other or default_margin(unit) == default_margin(other) is not None


def _missing_hours(results: Sequence[RowResult], seeds: int) -> str:
    """Estimates the hours of the missing runs, one after the other, from the mean time of finished ones."""
    rows = [[record.wall_seconds for record in s.sample.records] for s in results]
    seconds = sum(max(0, seeds - len(row)) * fmean(row) for row in rows if row)
    return f" (about {text.duration(seconds)} more)" if seconds else ""


def _unclean(results: Sequence[RowResult]) -> str | None:
    names = [s.row for s in results if not s.sample.clean]
    return f"not all commits are clean: {', '.join(names)}" if names else None


def _incomparable(results: Sequence[RowResult], varies: frozenset[str]) -> str | None:
    """The first required property in which the rows' numbers differ, or None."""
    measured = [pair for s in results for pair in s.sample.measured]
    protocols = [protocol_of(m) for _, m in measured]
    keys = dict.fromkeys(key for protocol in protocols for key in protocol)
    shared = {key: [entry_words(protocol, key) for protocol in protocols] for key in keys}
    shared |= {
        "unit": [m.unit for _, m in measured],
        "split": [m.split for _, m in measured],
        "data": [str(record.data.get("name")) for record, _ in measured],
        BUDGET: [f"{record.steps:,} updates" for record, _ in measured],
    }
    for key, values in shared.items():
        if key not in varies and len(set(values)) > 1:
            return f"the rows differ in {key}: {'; '.join(sorted(set(values))[:3])}"
    for key, quantity, counts, share in (
        (BUDGET, "tokens trained on", [record.tokens for record, _ in measured], SAME_TOKENS),
        ("items", "items scored", [m.count or 0 for _, m in measured], SAME_ITEMS),
    ):
        if key not in varies and counts and max(counts) - min(counts) > share * max(counts):
            return f"the rows differ in {quantity}: {min(counts):,} to {max(counts):,}"
    return None
