"""Declared tests of the papers' claims, from ``results/tests/<paper>.yaml``, as typed models.

A test names the runs that stand for rows of a claim, what is measured of them, and the levels by which
:mod:`repro.evidence.declared.gate` decides whether it is fair. It is declared by its ``declared`` date: from then on
its text and the configurations of its runs are fixed (:func:`digest`), and a changed test is a new attempt.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from repro.errors import UserError
from repro.evidence.judging.judge import RATE, PublishedRows
from repro.evidence.published import AMargin, Claim, Day, Id, Metric, Model, Paper, Text, read_model, require
from repro.paths import fair_test_files
from repro.recipe import signature_hash
from repro.seeds import TUNING, parse_seeds
from repro.yamls import Config, short

BUDGET = 20.0  # core-hours a row; a test that costs less is not out of reach


def _judged(seeds: tuple[int, ...]) -> tuple[int, ...]:
    if max(seeds, default=0) >= TUNING:
        raise ValueError(f"seeds from {TUNING} on are for tuning; name lower ones")
    return seeds


def _parsed(seeds: object) -> object:
    try:
        return parse_seeds(str(seeds)) if isinstance(seeds, str | int) else seeds
    except UserError as error:
        raise ValueError(str(error)) from None


AnySeeds = Annotated[tuple[int, ...], BeforeValidator(_parsed)]
Seeds = Annotated[AnySeeds, AfterValidator(_judged)]


class RowRuns(Model):
    """The runs that stand for a row.

    Attributes:
        run: experiment.
        config: first digits of the hash of its configuration; empty for the current recipe.
        seeds: judged seeds; empty for the seeds of the test.
        measured: name of the measurement; empty for the test's.
        label: of the row where the printed one names another size; empty for the printed one.
    """

    run: Text
    label: str = ""
    config: Annotated[str, Field(pattern="^([0-9a-f]{8,64})?$")] = ""
    seeds: Seeds = ()
    measured: str = ""


# The name of an experiment alone will do.
NamedRuns = Annotated[RowRuns, BeforeValidator(lambda run: {"run": run} if isinstance(run, str) else run)]


class Settled(Model):
    """The condition under which training counts as finished.

    Attributes:
        curve: validation curve of the records; empty for the measurement's own.
        within: the largest movement in the last quarter; None for half of the gap that is judged, which no number
            exceeds unless the curve is that of another metric.
    """

    curve: Annotated[str, Field(pattern="^(val/.+)?$")] = ""
    within: Annotated[float, Field(gt=0)] | None = None


class Competent(Model):
    """The level that the reference row must reach.

    Attributes:
        row: the reference.
        level: the level, in the unit of the measurement.
        method: the simple method or the published result that sets it.
        measured: another measurement of the row that must reach it; empty for the test's.
    """

    row: Id
    level: float
    method: Text
    measured: str = ""


class Sweep(Model):
    """The values of one setting that were tried for every row alike, on seeds that are not judged.

    Attributes:
        key: dotted key of the configuration.
        values: the values that were tried.
        updates: updates of each run of the sweep; None where they train as long as the judged runs.
        seeds: seeds of the sweep, from 100 on.
    """

    key: Text
    values: Annotated[tuple[float, ...], Field(min_length=3)]
    updates: int | None = Field(None, ge=1)
    seeds: AnySeeds = (TUNING,)

    @model_validator(mode="after")
    def _tunes(self) -> Self:
        if min(self.seeds) < TUNING:
            raise ValueError(f"seeds of a sweep start at {TUNING}; lower ones are judged")
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"values of a sweep differ: {self.values}")
        return self


class FairTest(Model):
    """A test of a claim.

    Attributes:
        claim: id of the paper's claim.
        attempt: 1 for the first test of the claim, then 2, ...
        changed: what differs from the attempt before, and why; empty for the first.
        says: the sentence that is tested.
        check: why the task alone decides the order; then the test is a check of the code and no evidence.
        scale: scale of the runs.
        rows: runs by row of the claim, best first.
        measured: name of the measurement.
        better: direction, where it differs from the column's.
        column: metric of the claim's table whose protocol the measurement has; None for the claim's metric.
        other_quantity: why another quantity than the column's is measured.
        margin: margin of the measured numbers; None for the column's, or the default of their unit.
        varies: allowed differences between the rows beside the model: keys of the protocol, ``budget``, ``items``.
        seeds: judged seeds.
        extended_to: all seeds after the one extension; empty without one.
        settled, floor, ceiling, competent, tuned: see :mod:`repro.evidence.declared.gate`. ``tuned`` is a sweep,
            ``paper`` where every setting is the paper's own, ``nothing`` where nothing is trained.
        core_hours: price of a row with all its seeds, on one CPU core.
        declared: the day from which the test is fixed; None while it is planned.
        curve, sweep: what its figure shows: a curve of the records, or a measurement by what was set.
    """

    claim: Id
    attempt: int = Field(ge=1)
    changed: str = ""
    says: Text
    check: str = ""
    scale: Literal["paper", "gpu", "small", "cpu"]
    rows: Annotated[dict[Id, NamedRuns], Field(min_length=2)]
    measured: Text
    better: Literal["higher", "lower"] | None = None
    column: str | None = None
    other_quantity: str = ""
    margin: AMargin | None = None
    varies: frozenset[str] = frozenset()
    seeds: Seeds = (1, 2, 3)
    extended_to: Seeds = ()
    settled: Settled = Settled()
    floor: float | None = None
    ceiling: float | None = None
    competent: Competent | None = None
    tuned: Sweep | Literal["paper", "nothing"] | None = None
    core_hours: float | None = Field(None, ge=0)
    declared: Day | None = None
    curve: str = ""
    sweep: str = ""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        tomorrow = date.today() + timedelta(days=1)  # which it is somewhere
        if self.declared and self.declared > tomorrow.isoformat():
            raise ValueError(f"{self.name}: declared {self.declared} lies in the future")
        if (self.attempt > 1) != bool(self.changed):
            raise ValueError(
                f"{self.name}: `changed` goes with attempts after the first, and with these only"
            )
        if self.extended_to and not set(self.seeds) < set(self.extended_to):
            raise ValueError(f"{self.name}: extended_to must hold the seeds {self.seeds} and more")
        if self.extended_to and all(run.seeds for run in self.rows.values()):
            raise ValueError(f"{self.name}: extended_to extends no row, as every row has its own seeds")
        if self.margin and not self.margin.reason:
            raise ValueError(f"{self.name}: the margin of a test needs `reason: ...`")
        if self.settled.within is None and not self.curve_is_own:
            raise ValueError(
                f"{self.name}: settled: {self.settled.curve} shows another metric; add `within: ...`"
            )
        if self.competent:
            require(self.competent.row, self.rows, f"{self.name}: competent: no row")
        return self

    @property
    def name(self) -> str:
        """``<claim>/<attempt>``."""
        return f"{self.claim}/{self.attempt}"

    @property
    def settled_curve(self) -> str:
        """The validation curve by which training counts as finished."""
        return self.settled.curve or "val/" + self.measured.partition("/")[2]

    @property
    def curve_is_own(self) -> bool:
        """Whether that curve shows the measured metric, as ``val/ppl`` does for ``test/ppl_sw512``."""
        names = (self.settled_curve, self.measured)
        return len({name.partition("/")[2].partition("_")[0] for name in names}) == 1

    def seeds_of(self, row: str) -> tuple[int, ...]:
        """The judged seeds of a row, those of an extension included."""
        return self.rows[row].seeds or self.extended_to or self.seeds

    def measured_of(self, row: str) -> str:
        """The name of a row's measurement."""
        return self.rows[row].measured or self.measured


class EqualityTest(Model):
    """A test that a cheaper arithmetic gives the recipe's own numbers; see :mod:`repro.evidence.declared.equality`.

    Attributes:
        run: experiment.
        scale: scale of the runs.
        settings: of both, where the recipe has changed since the test was declared.
        cheaper: what the runs in the other arithmetic set.
        measured: name of the measurement.
        margin: of the measured numbers; None for the default of their unit.
        seeds: of both, at least three, which the recipe does not judge: so no other number changes.
        core_hours: price of all runs, on one CPU core.
        declared: the day from which the test is fixed; None while it is planned.
    """

    run: Text
    scale: Literal["paper", "gpu", "small", "cpu"]
    settings: dict[str, Any] = {}
    cheaper: Annotated[
        dict[Literal["trainer.precision", "matmul_precision", "compile"], str | bool], Field(min_length=1)
    ] = {"trainer.precision": "bf16-mixed"}
    measured: Text
    margin: AMargin | None = None
    seeds: Annotated[Seeds, Field(min_length=3)]
    core_hours: Annotated[float, Field(gt=0)]
    declared: Day | None = None

    @property
    def name(self) -> str:
        """``arithmetic/<recipe>/<scale>``."""
        return f"arithmetic/{self.run.partition('/')[2]}/{self.scale}"


class Untested(Model):
    """The reasons why a claim has no test.

    Attributes:
        missing: data or weights that are not available.
        core_hours: price of a row.
        gpu_hours: price of a row on GPUs.
        why: further reasons.
    """

    missing: str = ""
    core_hours: float | None = Field(None, gt=0)
    gpu_hours: float | None = Field(None, gt=0)
    why: str = ""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not str(self):
            raise ValueError("state what a test needs: `missing`, `core_hours`, `gpu_hours` or `why`")
        return self

    @property
    def out_of_reach(self) -> bool:
        """Whether data or weights are missing, or a row costs more than the budget."""
        return bool(self.missing) or (self.core_hours or 0) > BUDGET

    def __str__(self) -> str:
        prices = [f"{self.core_hours:g} core-hours a row"] if self.core_hours else []
        prices += [f"{self.gpu_hours:g} GPU hours a row"] if self.gpu_hours else []
        return "; ".join(filter(None, (f"needs {self.missing}" if self.missing else "", *prices, self.why)))


class Tests(Model):
    """The content of a file of tests.

    Attributes:
        paper: key of the paper.
        picture: name of the test that stands for the paper on the first screen.
        tests: all attempts.
        arithmetic: tests that a cheaper arithmetic gives the same numbers.
        untested: claims without a test.
    """

    __test__ = False  # pytest looks for classes of this name

    schema_version: Literal[1]
    paper: Id
    picture: str = ""
    tests: tuple[FairTest, ...] = ()
    arithmetic: tuple[EqualityTest, ...] = ()
    untested: dict[Id, Untested] = {}


def load_tests(paper: Paper) -> Tests:
    """Reads the tests of a paper; none without a file.

    Raises:
        UserError: the file contradicts its schema, the published file or itself.
    """
    path = fair_test_files().get(paper.key)
    if path is None:
        return Tests(schema_version=1, paper=paper.key)

    tests = read_model(Tests, path)
    try:
        check(tests, paper)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return tests


def check(tests: Tests, paper: Paper) -> None:
    """Compares tests with the published file.

    Raises:
        ValueError: the first contradiction.
    """
    if tests.paper != paper.key:
        raise ValueError(f"paper is {tests.paper!r}; it must be the file's name, {paper.key!r}")
    attempts: dict[str, int] = {}
    for test in tests.tests:
        require(test.claim, paper.claims, f"{test.name}: no claim")
        number = attempts[test.claim] = attempts.get(test.claim, 0) + 1
        if test.attempt != number:
            raise ValueError(f"{test.name}: attempts are numbered 1, 2, ...; this one is {number}")
        _check_rows(test, paper.claims[test.claim], paper)
    for name in tests.untested:
        require(name, paper.claims, "untested: no claim")
    for name in paper.claims:
        if (name in attempts) == (name in tests.untested):
            tested = "has a test and is called untested"
            wrong = tested if name in attempts else "has no test; give the reason below `untested`"
            raise ValueError(f"claim {name} {wrong}")
    if tests.picture:
        require(tests.picture, [test.name for test in tests.tests], "picture: no test")


def _check_rows(test: FairTest, claim: Claim, paper: Paper) -> None:
    for row in test.rows:
        require(row, claim.order, f"{test.name}: the claim has no row")
    if list(test.rows) != [row for row in claim.order if row in test.rows]:
        order = ", ".join(claim.order)
        raise ValueError(f"{test.name}: the rows must stand in the order of the claim: {order}")
    if test.column:
        metrics = paper.tables[claim.table].metrics
        require(test.column, metrics, f"{test.name}: {claim.table} has no column")


def published_rows(paper: Paper, test: FairTest) -> PublishedRows:
    """Returns the printed numbers of a test's rows in the cited column."""
    claim = paper.claims[test.claim]
    table, metric = paper.tables[claim.table], test.column or claim.metric
    numbers = [table.rows[row].values.get(metric) for row in test.rows]
    return PublishedRows(numbers, claim.margin or table.metrics[metric].rules.margin, claim.not_worse)


def digest(test: FairTest, claim: Claim, column: Metric, config_of: Callable[[str, str, str], Config]) -> str:
    """SHA-256 of all that a declaration fixes: the text, what is claimed of the rows, the configurations of the runs.

    Labels and an extension are left out, and so is the setting that the test's sweep chooses for each row: the gate
    asks whether it is the best of the declared values. A field that the models get later must be left out here where it
    is not set: else every declaration in the ledger would differ.

    Args:
        test: declared.
        claim: of the paper.
        column: that the test cites; its margin is fixed where it is not the default of its unit.
        config_of: the flat configuration of an experiment at a scale, by the digits of its hash (none: today's).
    """
    fixed = test.model_dump(mode="json", exclude={"extended_to"})
    swept = test.tuned.key if isinstance(test.tuned, Sweep) else None
    for row, run in test.rows.items():
        del fixed["rows"][row]["label"]
        config = config_of(run.run, test.scale, run.config)
        fixed["rows"][row]["protocol"] = {}  # which rows could declare when the first tests were declared
        fixed["rows"][row]["config"] = signature_hash({k: v for k, v in config.items() if short(k) != swept})
    fixed["order"] = [claim.table, claim.metric, *test.rows]
    fixed["not_worse"], fixed["apart"] = claim.not_worse, str(claim.margin)
    fixed["varies"] = sorted(test.varies)
    fixed["margin"] = str(test.margin) if test.margin else None
    own = column.rules.margin
    if own and column.unit != RATE and not own.is_default(column.unit):
        fixed["column_margin"] = str(own)
    return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()
