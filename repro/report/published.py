"""The papers' numbers, as they stand in ``results/published/<paper>.yaml``. Standard library and YAML only.

A number is *unconfirmed* when the file says that nobody could check it against the paper:

* ``checked`` of its table begins with ``unconfirmed``: then every cell of the table is, except those named by
  a later clause ``...; <cells> confirmed by <source>``. A clause names cells by ``row <id>``, by the numbers
  themselves (``16.64 and 16.61``) and by metrics in parentheses (``row x (F1, ROUGE)``); all must fit.
* ``settings.unconfirmed`` of its row is ``true`` or a list of metric names.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.errors import UserError, nearest
from repro.paths import PROJECT, results_dir
from repro.yamls import read_yaml

SCHEMA = Path(__file__).with_name("published.schema.json")


@dataclass(frozen=True)
class Metric:
    """A column of a published table.

    Attributes:
        no_recipe: why no run measures it, or None.
    """

    name: str
    unit: str
    better: str  # higher | lower
    description: str
    dataset: str
    split: str
    no_recipe: str | None = None

    @property
    def sign(self) -> int:
        """+1 where higher is better, -1 where lower is."""
        return 1 if self.better == "higher" else -1


@dataclass(frozen=True)
class Row:
    """A line of a published table: one system under one setting.

    Attributes:
        params: parameter count as printed in the paper, or None.
        values: the printed numbers by metric; empty where only a figure shows them.
        unconfirmed: the metrics whose number could not be checked against the paper.
    """

    id: str
    label: str
    model: str
    is_this_papers_model: bool
    params: int | None
    settings: dict[str, Any]
    values: dict[str, float]
    unconfirmed: frozenset[str]


@dataclass(frozen=True)
class Table:
    """A published table."""

    id: str
    number: str
    title: str
    dataset: str
    split: str
    metrics: dict[str, Metric]
    rows: dict[str, Row]
    checked: str
    notes: str

    @property
    def third_party(self) -> bool:
        """True where the table is somebody else's reproduction of the paper."""
        return self.id.startswith("external-")


@dataclass(frozen=True)
class Trend:
    """An ordering that the paper shows and that a reproduction must show too.

    Attributes:
        order_best_first: row ids of ``table``.
        tolerance: differences up to this count as a tie, in the metric's unit; 0 where the file names none.
    """

    id: str
    claim: str
    table: str
    metric: str
    order_best_first: tuple[str, ...]
    tolerance: float


@dataclass(frozen=True)
class Paper:
    """One published file."""

    key: str
    title: str
    authors: tuple[str, ...]
    year: int
    venue: str
    url: str
    version_used: str
    tables: dict[str, Table]
    trends: dict[str, Trend]
    missing: tuple[str, ...]


def published_dir() -> Path:
    """``published/`` of the results folder; that of the checkout where the results folder has none."""
    own = results_dir() / "published"
    return own if own.is_dir() else PROJECT / "results" / "published"


def paper_keys() -> tuple[str, ...]:
    """The papers with a published file, sorted."""
    return tuple(sorted(path.stem for path in published_dir().glob("*.yaml")))


def load_paper(key: str) -> Paper:
    """Reads one paper's numbers, with cross checks but without the schema; see :func:`validate_published`.

    Raises:
        UserError: unknown paper (nearest offered), or a file that contradicts itself.
    """
    if key not in paper_keys():
        raise UserError(f"unknown paper {key!r}{nearest(key, paper_keys())}; see `repro list`")
    path = published_dir() / f"{key}.yaml"
    raw = read_yaml(path)
    try:
        paper = _paper(raw)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path}: not a file of published numbers: {problem}; see {SCHEMA.name}") from None
    if paper.key != key:
        raise UserError(f"{path}: paper.key is {paper.key!r}; it must be the file's name, {key!r}")
    _cross_check(paper, path)
    return paper


def load_papers(key: str | None = None) -> list[Paper]:
    """Every paper, or the one named."""
    return [load_paper(k) for k in ([key] if key else paper_keys())]


def validate_published() -> list[Paper]:
    """Checks every published file against the JSON schema, then loads them all.

    Raises:
        UserError: the first violation, with the file and the place in it.
    """
    import jsonschema

    schema = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    for key in paper_keys():
        path = published_dir() / f"{key}.yaml"
        error = min(schema.iter_errors(read_yaml(path)), key=lambda e: list(map(str, e.path)), default=None)
        if error is not None:
            place = ".".join(str(part) for part in error.path) or "the file"
            raise UserError(f"{path}: {place}: {error.message}"[:400].replace("\n", " "))
    return load_papers()


def _paper(raw: dict[str, Any]) -> Paper:
    head = raw["paper"]
    return Paper(
        key=head["key"],
        title=head["title"],
        authors=tuple(head["authors"]),
        year=head["year"],
        venue=head["venue"],
        url=head["url"],
        version_used=head["version_used"],
        tables=_unique([_table(t) for t in raw["tables"]], "table"),
        trends=_unique([_trend(t) for t in raw["trends"]], "trend"),
        missing=tuple(raw["missing"]),
    )


def _table(raw: dict[str, Any]) -> Table:
    metrics = {
        name: Metric(
            name=name,
            unit=m["unit"],
            better=m["better"],
            description=m["description"],
            dataset=m.get("dataset", raw["dataset"]),
            split=m.get("split", raw["split"]),
            no_recipe=m.get("no_recipe"),
        )
        for name, m in raw["metrics"].items()
    }
    rows = [_row(r, raw["checked"]) for r in raw["rows"]]
    texts = {key: raw[key] for key in ("id", "number", "title", "dataset", "split", "checked", "notes")}
    return Table(metrics=metrics, rows=_unique(rows, f"row of {raw['id']}"), **texts)


def _row(raw: dict[str, Any], checked: str) -> Row:
    values = {name: float(value) for name, value in raw["values"].items()}
    said = raw["settings"].get("unconfirmed", ())
    own = set(values) if said is True else set(said or ())
    table = {m for m, v in values.items() if _is_unconfirmed(checked, raw["id"], m, v)}
    texts = {key: raw[key] for key in ("id", "label", "model", "is_this_papers_model", "params", "settings")}
    return Row(values=values, unconfirmed=frozenset(own | table), **texts)


def _trend(raw: dict[str, Any]) -> Trend:
    texts = {key: raw[key] for key in ("id", "claim", "table", "metric")}
    order = tuple(raw["order_best_first"])
    return Trend(order_best_first=order, tolerance=float(raw.get("tolerance", 0.0)), **texts)


def _unique(items: list[Any], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        if item.id in found:
            raise ValueError(f"two of one id: {what} {item.id!r}")
        found[item.id] = item
    return found


def _is_unconfirmed(checked: str, row: str, metric: str, value: float) -> bool:
    """Whether the words of ``checked`` leave this cell unconfirmed; grammar: see the module's docstring."""
    first, *clauses = checked.split(";")
    if not first.strip().lower().startswith("unconfirmed"):
        return False
    return not any(_confirms(clause, row, metric, value) for clause in clauses)


def _confirms(clause: str, row: str, metric: str, value: float) -> bool:
    confirmed = re.search(r"\bconfirmed by", clause)  # the word border keeps "unconfirmed by" out
    if confirmed is None:
        return False
    subject = clause[: confirmed.start()]
    named_row = re.search(r"\brow ([\w.-]+)", subject)
    numbers = [float(n) for n in re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", subject)]
    metrics = re.search(r"\(([^)]*)\)", subject)
    if not (named_row or numbers):
        return False
    fits_metric = metrics is None or any(
        metric.lower().startswith(name.strip().lower()) for name in metrics.group(1).split(",")
    )
    return (
        (named_row is None or named_row.group(1) == row) and (not numbers or value in numbers) and fits_metric
    )


def _cross_check(paper: Paper, path: Path) -> None:
    for table in paper.tables.values():
        for row in table.rows.values():
            for metric in row.values.keys() | row.unconfirmed:
                if metric not in table.metrics:
                    raise UserError(
                        f"{path}: {table.id}, row {row.id}: {metric!r} is not a metric of the table"
                        f"{nearest(metric, table.metrics)}"
                    )
    for trend in paper.trends.values():
        _cross_check_trend(trend, paper, path)


def _cross_check_trend(trend: Trend, paper: Paper, path: Path) -> None:
    where = f"{path}: trend {trend.id}"
    if trend.table not in paper.tables:
        raise UserError(f"{where}: no table {trend.table!r}{nearest(trend.table, paper.tables)}")
    table = paper.tables[trend.table]
    if trend.metric not in table.metrics:
        raise UserError(
            f"{where}: no metric {trend.metric!r} in {table.id}{nearest(trend.metric, table.metrics)}"
        )
    for row in trend.order_best_first:
        if row not in table.rows:
            raise UserError(f"{where}: no row {row!r} in {table.id}{nearest(row, table.rows)}")
    if len(set(trend.order_best_first)) != len(trend.order_best_first):
        raise UserError(f"{where}: a row stands twice in order_best_first")
