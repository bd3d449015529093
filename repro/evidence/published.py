"""The numbers that the papers print, from ``results/published/<paper>.yaml``, as typed models.

A table has metrics (columns) and rows. How a number is judged (:class:`Rules`) may stand with its metric, with its row
(for all of its numbers) or in the row's ``cells`` (for one number); the narrower place wins. ``docs/results.md``
explains the terms.
"""

from collections.abc import Collection, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from repro.errors import UserError, nearest
from repro.evidence.judging.margins import Margin, default_margin, parse_margin
from repro.paths import published_files
from repro.yamls import parse_once, read_text

THIRD_PARTY = "external-"
JUDGED = ("trained", "ratio", "computed")  # classes that need a margin
COUNTED = ("trained", "ratio")  # classes whose verdicts are counted
TIMES = ("hours", "step_time", "training_speed", "speed", "first_hours")
FIRST = ("first", "first_hours")
DIVISIBLE = ("score", "hours", "first_hours")  # what `over` can divide
OVER_SEEDS = ("spread", "rank")

Reference = tuple[str, str, str]  # table, row, metric
Take = Literal[
    "score", "spread", "rank", "hours", "step_time", "training_speed", "speed", "first", "first_hours"
]


class Model(BaseModel):
    """A mapping of a YAML file: unknown keys are refused, nothing is changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)


def _keys(kind: type[Model]) -> set[str]:
    return {field.alias or name for name, field in kind.model_fields.items()}


def require(name: str, known: Collection[str], complaint: str) -> None:
    """Checks that a name is one of those that are known.

    Raises:
        ValueError: the complaint, the name and the nearest known one.
    """
    if name not in known:
        raise ValueError(f"{complaint} {name!r}{nearest(name, known)}")


def parse_reference(text: object) -> object:
    """``table/row/metric`` as a tuple."""
    parts = tuple(text.split("/")) if isinstance(text, str) else text
    if not (isinstance(parts, tuple) and len(parts) == 3 and all(parts)):
        raise ValueError(f"{text!r}: write table/row/metric")
    return parts


Text = Annotated[str, Field(min_length=1)]
Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
Address = Annotated[str, Field(pattern=r"^https://[^\s\"'<>\x00-\x1f\x7f]+$")]
Ref = Annotated[Reference, BeforeValidator(parse_reference)]
AMargin = Annotated[Margin, BeforeValidator(parse_margin)]
Day = Annotated[str, BeforeValidator(lambda day: date.fromisoformat(str(day)).isoformat())]


class PrintedSpread(Model):
    """The spread that a paper prints: the sample standard deviation over a number of runs."""

    sd: float = Field(ge=0)
    runs: int = Field(ge=2)


class Derivation(Model):
    """A number that is computed from records of other numbers; see :mod:`repro.evidence.derived`."""

    of: Ref
    take: Take
    reaches: Ref | None = None
    over: Ref | None = None
    per: Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0)] | Literal["devices"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.take in FIRST) != (self.reaches is not None):
            raise ValueError(f"`reaches` goes with {' and '.join(FIRST)}, and with these only")
        if self.over and self.take not in DIVISIBLE:
            raise ValueError(f"`over` divides {', '.join(DIVISIBLE)}, not {self.take}")
        if self.per and self.take in OVER_SEEDS:
            raise ValueError(f"`per` divides nothing of a {self.take}")
        return self

    def __str__(self) -> str:
        parts = [f"{self.take} of {'/'.join(self.of)}"]
        parts += [f"reaches {'/'.join(self.reaches)}"] if self.reaches else []
        parts += [f"over {'/'.join(self.over)}"] if self.over else []
        return ", ".join([*parts, f"per {self.per}"] if self.per else parts)


class Rules(Model):
    """The rules by which a published number is judged.

    Attributes:
        kind: class of the number, ``class`` in the file.
        margin: numbers closer than this are equal; None where the class is not judged.
        chance: the score of guessing, or of another method that learns nothing, such as copying what is visible.
        ceiling: a score at which fewer updates than the paper's are no objection.
        updates: updates of the paper's training; None where unknown, and for timings.
        updates_unknown: why they are unknown; the file has this text in place of the number.
        noise: the paper's printed spread.
        sampled: items of the random sample that the paper scored, where it is another sample than ours.
        device: the device that the paper timed.
        same_as: place of the same measurement elsewhere in the paper.
        counted: whether the number belongs to the paper's denominator, if confirmed and measured nowhere else.
        configuration: ``ours`` where the authors released none.
        no_recipe: why there is no recipe.
        derived: how the number is computed from the records behind others.
    """

    kind: Literal["trained", "computed", "timed", "ratio", "derived"] = Field(alias="class")
    margin: AMargin | None = None
    chance: float | None = None
    ceiling: float | None = None
    updates: int | None = Field(None, ge=1)
    updates_unknown: Text | None = None
    noise: PrintedSpread | None = None
    sampled: int | None = Field(None, ge=1)
    device: Literal["cpu", "gpu", "tpu"] | None = None
    same_as: Ref | None = None
    counted: bool = False
    configuration: Literal["theirs", "ours"] = "theirs"
    no_recipe: Text | None = None
    derived: Derivation | None = None

    @model_validator(mode="before")
    @classmethod
    def _split_updates(cls, raw: object) -> object:
        if isinstance(raw, Mapping) and isinstance(why := raw.get("updates"), str):
            return {**raw, "updates": None, "updates_unknown": why}
        return raw


KEYS = _keys(Rules) - {"updates_unknown"}


class Metric(Model):
    """A column of a published table.

    Attributes:
        attention: how far a score looked back, compared with training: ``trained`` (as far) or ``longer``.
        overlap: whether the score was computed with windows that overlap.
        rules: for numbers whose rows declare none; by its unit's default where the class needs a margin.
    """

    name: str
    unit: Text
    better: Literal["higher", "lower"]
    description: Text
    dataset: Text
    split: Text
    attention: Literal["trained", "longer"] | None = None
    overlap: bool | None = None
    rules: Rules

    @property
    def sign(self) -> int:
        """+1 where higher is better, -1 where lower is."""
        return 1 if self.better == "higher" else -1


class Row(Model):
    """A line of a published table: one system under one setting.

    Attributes:
        params: parameter count as printed in the paper, or None.
        values: the printed numbers by metric; empty where only a figure shows them.
        unconfirmed: the metrics whose number could not be checked against the paper.
        rules: how its numbers are judged, for every metric of the table.
        no_recipe: why there is no recipe for any of its numbers, or None.
    """

    id: Id
    label: Text
    model: Text
    is_this_papers_model: bool
    params: int | None = Field(ge=1)
    settings: dict[str, Any]
    values: dict[str, float]
    unconfirmed: frozenset[str]
    rules: dict[str, Rules]
    no_recipe: Text | None = None

    def is_counted(self, metric: str) -> bool:
        """Whether a number belongs to the paper's denominator, which no recipe or record changes."""
        if metric not in self.values or metric in self.unconfirmed:
            return False
        rules = self.rules[metric]
        first = rules.same_as is None and rules.configuration == "theirs"
        return first and rules.counted and rules.kind in COUNTED


class Reproduction(Model):
    """A run that is compared with numbers of a table, for :func:`repro.recipe.reproduced`.

    Attributes:
        run: experiment; ``{row}`` stands for the id of every row that has such an experiment.
        row: the row, where ``run`` has no ``{row}``.
        measured: names of our measurements by metric.
        scales: of the runs; empty for all.
    """

    run: Text
    row: Id | None = None
    measured: Annotated[dict[str, Text], Field(min_length=1)]
    scales: tuple[Literal["paper", "gpu", "small", "cpu"], ...] = ()

    @model_validator(mode="after")
    def _names_rows(self) -> Self:
        if ("{row}" in self.run) == (self.row is not None):
            raise ValueError(f"ours: {self.run}: give a row, or write {{row}} in the run")
        return self


class PublishedTable(Model):
    """A published table.

    Attributes:
        checked: with which copies of the paper the numbers were compared.
        unconfirmed: whether no number could be compared, but for the rows that declare ``unconfirmed`` themselves:
            a list of metrics, ``true`` or ``false``.
    """

    id: Id
    number: Text
    title: Text
    dataset: Text
    split: Text
    metrics: dict[str, Metric]
    rows: Annotated[dict[str, Row], Field(min_length=1)]
    ours: tuple[Reproduction, ...] = ()
    checked: Text
    unconfirmed: bool = False
    notes: str

    @property
    def third_party(self) -> bool:
        """Whether the table is another group's reproduction of the paper."""
        return self.id.startswith(THIRD_PARTY)

    @model_validator(mode="before")
    @classmethod
    def _spread_rules(cls, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Gives every row the rules of each of its numbers."""
        own = {name: _rules_in(metric) for name, metric in raw["metrics"].items()}
        metrics = {}
        for name, metric in raw["metrics"].items():
            rest = {key: value for key, value in metric.items() if key not in KEYS}
            places = {"dataset": raw["dataset"], "split": raw["split"]}
            metrics[name] = {**places, **rest, "name": name, "rules": {**own[name], "counted": False}}
        rows = [_with_rules(row, raw, own) for row in raw["rows"]]
        return {**raw, "metrics": metrics, "rows": _by_id(rows, f"row of {raw['id']}")}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for one in self.ours:
            if one.row is not None:
                require(one.row, self.rows, f"ours: {self.id} has no row")
            for name in one.measured:
                require(name, self.metrics, f"ours: {self.id} has no metric")
        for row in self.rows.values():
            for name in (*row.values, *row.unconfirmed):
                require(name, self.metrics, f"row {row.id}: {self.id} has no metric")
            for name, rules in row.rules.items():
                place = f"row {row.id}: {name}"
                _check_margin(rules, self.metrics[name].unit, place)
                known = rules.updates or rules.updates_unknown
                if row.is_counted(name) and rules.kind == "trained" and not known:
                    raise ValueError(
                        f"{place}: a counted number needs the paper's `updates`, or why they are unknown"
                    )
        return self


def _rules_in(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: raw[key] for key in KEYS if key in raw}


def _with_rules(
    raw: dict[str, Any], table: Mapping[str, Any], own: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Returns a row with ``rules`` by metric and its ``unconfirmed`` metrics."""
    cells = raw.get("cells", {})
    for name in cells:
        require(name, own, f"row {raw['id']}: cells: {table['id']} has no metric")
    counts = raw["is_this_papers_model"] and not table["id"].startswith(THIRD_PARTY)
    rules = {}
    for name, of_metric in own.items():
        declared = {"counted": counts} | of_metric | _rules_in(raw) | cells.get(name, {})
        rules[name] = _completed(declared, raw["id"], name)
    unconfirmed = raw.get("unconfirmed", table.get("unconfirmed", False))
    if isinstance(unconfirmed, bool):
        unconfirmed = raw["values"] if unconfirmed else ()
    spread = KEYS - {"no_recipe"} | {"cells"}
    rest = {key: value for key, value in raw.items() if key not in spread}
    return {**rest, "rules": rules, "unconfirmed": frozenset(unconfirmed)}


def _completed(rules: dict[str, Any], row: str, metric: str) -> dict[str, Any]:
    """Completes references: ``{row}`` becomes the row's id, and ``same_as: table/row`` gets the number's metric."""
    if isinstance(rule := rules.get("derived"), Mapping):
        rules["derived"] = {k: v.replace("{row}", row) if isinstance(v, str) else v for k, v in rule.items()}
    if isinstance(same := rules.get("same_as"), str) and same.count("/") == 1:
        rules["same_as"] = f"{same}/{metric}"
    return rules


def _check_margin(rules: Rules, unit: str, place: str) -> None:
    margin, usual = rules.margin, default_margin(unit)
    if margin is None:
        if rules.kind in JUDGED:
            hint = f"; the default of {unit!r} is {usual}" if usual else ""
            raise ValueError(f"{place}: a {rules.kind} number needs `margin: {{size: ..., set: DATE}}`{hint}")
        return
    twice = rules.noise is not None and margin.kind == "absolute" and margin.size == 2 * rules.noise.sd
    if not (margin.is_default(unit) or twice or margin.reason):
        raise ValueError(
            f"{place}: margin {margin} is not the default of {unit!r} ({usual}): add `reason: ...`"
        )


class Claim(Model):
    """An order of rows that the paper shows.

    Attributes:
        says: the paper's statement.
        order: row ids of the table, best first.
        margin: rows that the paper prints closer than this are a tie; None for the metric's margin.
        not_worse: whether the claim is only that no row is worse than the next by more than the margin.
    """

    id: Id
    says: Text
    table: Id
    metric: str
    order: Annotated[tuple[Id, ...], Field(min_length=2)]
    margin: AMargin | None = None
    not_worse: bool = False

    @model_validator(mode="after")
    def _rows_differ(self) -> Self:
        if len(set(self.order)) < len(self.order):
            raise ValueError(f"claim {self.id}: a row is repeated in its order")
        return self


class PaperFacts(Model):
    """The paper itself."""

    key: Id
    title: Text
    authors: Annotated[tuple[Text, ...], Field(min_length=1)]
    year: int = Field(ge=1900)
    venue: Text
    arxiv: Annotated[str, Field(pattern=r"^\d{4}\.\d{4,5}$")]
    url: Address
    official_code: tuple[Address, ...]
    version_used: Text


def _by_id(items: list[dict[str, Any]], kind: str) -> dict[Any, dict[str, Any]]:
    named: dict[Any, dict[str, Any]] = {}
    for item in items:
        if item["id"] in named:
            raise ValueError(f"two of one id: {kind} {item['id']!r}")
        named[item["id"]] = item
    return named


class Paper(Model):
    """The content of a published file."""

    schema_version: Literal[1]
    about: PaperFacts = Field(alias="paper")
    tables: Annotated[dict[str, PublishedTable], BeforeValidator(lambda raw: _by_id(raw, "table"))]
    claims: Annotated[dict[str, Claim], BeforeValidator(lambda raw: _by_id(raw, "claim"))]
    missing: tuple[Text, ...]

    @property
    def key(self) -> str:
        """The paper's name in recipes and records."""
        return self.about.key

    @property
    def title(self) -> str:
        """The paper's title."""
        return self.about.title

    @property
    def short_title(self) -> str:
        """The title without its second part."""
        return self.title.partition(":")[0]

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
        for table in self.tables.values():
            for row in table.rows.values():
                for metric in row.values:
                    rules, place = row.rules[metric], f"{table.id}, row {row.id}, {metric}"
                    if rules.same_as:
                        self._check_same(rules.same_as, f"{place}: same_as {'/'.join(rules.same_as)}")
                    if rules.derived:
                        self._check_derived(rules.derived, rules.kind, f"{place}: derived")
        for claim in self.claims.values():
            for row_id in claim.order:
                self._refer((claim.table, row_id, claim.metric), f"claim {claim.id}")
        return self

    def _refer(self, reference: Reference, place: str) -> Row:
        table_id, row_id, metric = reference
        require(table_id, self.tables, f"{place}: there is no table")
        table = self.tables[table_id]
        require(row_id, table.rows, f"{place}: {table_id} has no row")
        require(metric, table.metrics, f"{place}: {table_id} has no metric")
        return table.rows[row_id]

    def _check_same(self, reference: Reference, place: str) -> None:
        row, metric = self._refer(reference, place), reference[2]
        require(metric, row.values, f"{place}: the row has no number")
        if row.rules[metric].same_as is not None:
            raise ValueError(f"{place}: that number is itself the same as another; name the other")

    def _check_derived(self, derived: Derivation, kind: str, place: str) -> None:
        for reference in filter(None, (derived.of, derived.reaches, derived.over)):
            self._refer(reference, f"{place}: {'/'.join(reference)}")
        source = self.tables[derived.of[0]].metrics[derived.of[2]]
        timed = derived.take in TIMES or source.rules.kind == "timed"
        if kind != ("timed" if timed else "derived"):
            right = "timed`, as it rests on the times of runs" if timed else "derived`"
            raise ValueError(f"{place}: its class is {kind}; write `class: {right}")


def paper_keys() -> tuple[str, ...]:
    """Returns the keys of the papers with a published file, sorted."""
    return tuple(published_files())


def load_paper(key: str) -> Paper:
    """Reads one paper's numbers.

    Raises:
        UserError: unknown paper (nearest offered), or a file that contradicts its schema or itself.
    """
    files = published_files()
    if key not in files:
        raise UserError(f"unknown paper {key!r}{nearest(key, files)}; see `repro list`")
    paper = read_model(Paper, files[key])
    if paper.key != key:
        raise UserError(f"{files[key]}: paper.key is {paper.key!r}; it must be the file's name, {key!r}")
    return paper


def load_papers(key: str | None = None) -> list[Paper]:
    """Reads every paper, or the named one."""
    return [load_paper(k) for k in ([key] if key else paper_keys())]


_Read = TypeVar("_Read", bound=Model)


def read_model(kind: type[_Read], path: Path) -> _Read:
    """Reads a YAML file as a model, which nobody may change.

    Raises:
        UserError: the first violation, with the file and the place in it.
    """
    model = _model(kind, path, read_text(path))
    assert isinstance(model, kind)
    return model


@cache  # for the ledger, the tables and their check the same files are read
def _model(kind: type[Model], path: Path, text: str) -> Model:
    try:
        return kind.model_validate(parse_once(text, str(path)))
    except ValidationError as error:
        first = error.errors()[0]
        place = [part for part in first["loc"] if "[" not in str(part)]  # else a name of pydantic's own
        given, words = first["input"], str(first["msg"]).removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            known = set().union(*map(_keys, Model.__subclasses__()))
            words = f"no such key{nearest(str(place[-1]), known)}"
        elif first["type"] == "missing":
            words = f"is missing{nearest(str(place[-1]), map(str, given))}"
        elif first["type"] != "value_error":
            words += f", not {given!r:.80}"
        where = f"{'.'.join(map(str, place))}: " if place else ""
        raise UserError(f"{path}: {where}{words}".replace("\n", " ")) from None
    except (KeyError, TypeError, AttributeError) as error:
        problem = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path}: not a file of {kind.__name__}: {problem}") from None
