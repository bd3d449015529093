"""The papers' numbers, from ``results/published/<paper>.yaml``. Standard library and YAML only."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from repro.errors import UserError, nearest
from repro.evidence.published_checks import cross_check, is_unconfirmed
from repro.evidence.rules import KEYS, Margin, Rules, parse_margin, parse_rules
from repro.paths import published_files
from repro.recipe import SCALES
from repro.yamls import read_yaml

SCHEMA = Path(__file__).with_name("published.schema.json")
THIRD_PARTY = "external-"


@dataclass(frozen=True)
class Metric:
    """A column of a published table; ``rules`` are the defaults for numbers whose rows declare none."""

    name: str
    unit: str
    better: str  # higher | lower
    description: str
    dataset: str
    split: str
    rules: Rules

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
        rules: how its numbers are judged, for every metric of the table.
        no_recipe: why there is no recipe for any of its numbers, or None.
    """

    id: str
    label: str
    model: str
    is_this_papers_model: bool
    params: int | None
    settings: dict[str, Any]
    values: dict[str, float]
    unconfirmed: frozenset[str]
    rules: dict[str, Rules]
    no_recipe: str | None


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
        """True where the table is another group's reproduction of the paper."""
        return self.id.startswith(THIRD_PARTY)


@dataclass(frozen=True)
class Terms:
    """Declarations about a claim for one scale.

    Attributes:
        margin: of the numbers compared there; None for the metric's, or the default of the unit measured.
        mechanism: why the task alone decides the order there; such a check is no evidence for the paper's claim.
        out_of_reach: why not every row can be run there; of no effect where every row has records.
    """

    margin: Margin | None = None
    mechanism: str | None = None
    out_of_reach: str | None = None


@dataclass(frozen=True)
class Trend:
    """An ordering that the paper shows and that a reproduction must show too.

    Attributes:
        order_best_first: row ids of ``table``.
        margin: rows that the paper prints closer than this are a tie; None for the metric's margin.
        varies: what the rows may differ in besides the model: keys of the protocol, ``budget``, ``items``.
        ours: when it was declared by us rather than by the paper, ISO 8601; or None.
        not_worse: whether the claim is only that no row is worse than the next by more than the margin.
        part_of: the longer chain of which this is a part; the part counts where the chain is incomplete.
        at: terms by scale.
    """

    id: str
    claim: str
    table: str
    metric: str
    order_best_first: tuple[str, ...]
    margin: Margin | None = None
    varies: frozenset[str] = frozenset()
    ours: str | None = None
    not_worse: bool = False
    part_of: str | None = None
    at: dict[str, Terms] = field(default_factory=dict)


@dataclass(frozen=True)
class Headline:
    """The claim that stands for a paper on the first screen, and what its figure shows of the claim's rows.

    Attributes:
        trend: its id.
        curve: a curve of the records, ``val/ppl``; or
        sweep: a measurement by what was set, ``test/accuracy``.
    """

    trend: str
    curve: str = ""
    sweep: str = ""


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
    headline: Headline | None = None


def paper_keys() -> tuple[str, ...]:
    """The papers with a published file, sorted."""
    return tuple(published_files())


def load_paper(key: str) -> Paper:
    """Reads one paper's numbers, with cross checks but without the schema; see :func:`validate_published`.

    Raises:
        UserError: unknown paper (nearest offered), or a file that contradicts itself.
    """
    files = published_files()
    if key not in files:
        raise UserError(f"unknown paper {key!r}{nearest(key, files)}; see `repro list`")
    path = files[key]
    raw = read_yaml(path)
    try:
        paper = _paper(raw)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        problem = f"missing key {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path}: not a file of published numbers: {problem}; see {SCHEMA.name}") from None
    if paper.key != key:
        raise UserError(f"{path}: paper.key is {paper.key!r}; it must be the file's name, {key!r}")
    cross_check(paper, path)
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
    for path in published_files().values():
        error = min(schema.iter_errors(read_yaml(path)), key=lambda e: list(map(str, e.path)), default=None)
        if error is not None:
            place = ".".join(str(part) for part in error.path) or "the file"
            raise UserError(f"{path}: {place}: {error.message}"[:400].replace("\n", " "))
    return load_papers()


def _paper(raw: dict[str, Any]) -> Paper:
    head = raw["paper"]
    tables = _unique([_table(t) for t in raw["tables"]], "table")
    units = {(t.id, m.name): m.unit for t in tables.values() for m in t.metrics.values()}
    return Paper(
        key=head["key"],
        title=head["title"],
        authors=tuple(head["authors"]),
        year=head["year"],
        venue=head["venue"],
        url=head["url"],
        version_used=head["version_used"],
        tables=tables,
        trends=_unique([_trend(t, units) for t in raw["trends"]], "trend"),
        missing=tuple(raw["missing"]),
        headline=Headline(**raw["headline"]) if "headline" in raw else None,
    )


def _table(raw: dict[str, Any]) -> Table:
    declared = {name: _declared(m) for name, m in raw["metrics"].items()}
    metrics = {
        name: Metric(
            name=name,
            unit=m["unit"],
            better=m["better"],
            description=m["description"],
            dataset=m.get("dataset", raw["dataset"]),
            split=m.get("split", raw["split"]),
            rules=parse_rules(declared[name], name, m["unit"], raw["id"], own=False),
        )
        for name, m in raw["metrics"].items()
    }
    rows = [_row(r, raw, declared) for r in raw["rows"]]
    texts = {key: raw[key] for key in ("id", "number", "title", "dataset", "split", "checked", "notes")}
    return Table(metrics=metrics, rows=_unique(rows, f"row of {raw['id']}"), **texts)


def _declared(raw: dict[str, Any]) -> dict[str, Any]:
    return {key: raw[key] for key in KEYS if key in raw}


def _row(raw: dict[str, Any], table: dict[str, Any], declared: dict[str, dict[str, Any]]) -> Row:
    values = {name: float(value) for name, value in raw["values"].items()}
    listed = raw["settings"].get("unconfirmed", ())
    own = set(values) if listed is True else set(listed or ())
    unchecked = {m for m, v in values.items() if is_unconfirmed(table["checked"], raw["id"], m, v)}
    cells = raw.get("cells", {})
    where = f"{table['id']}, row {raw['id']}"
    for name in cells.keys() - declared.keys():
        raise UserError(f"{where}: cells: {name!r} is not a metric of the table{nearest(name, declared)}")
    counts = raw["is_this_papers_model"] and not table["id"].startswith(THIRD_PARTY)
    rules = {
        name: parse_rules(
            of_metric | _declared(raw) | cells.get(name, {}),
            name,
            table["metrics"][name]["unit"],
            where,
            counts,
            raw["id"],
        )
        for name, of_metric in declared.items()
    }
    texts = {key: raw[key] for key in ("id", "label", "model", "is_this_papers_model", "params", "settings")}
    why = raw.get("no_recipe")
    return Row(values=values, unconfirmed=frozenset(own | unchecked), rules=rules, no_recipe=why, **texts)


def _trend(raw: dict[str, Any], units: dict[tuple[str, str], str]) -> Trend:
    where = f"trend {raw['id']}"
    unit = units.get((raw["table"], raw["metric"]), "")
    for scale in raw.get("at", {}).keys() - set(SCALES):
        raise UserError(f"{where}: at: {scale!r} is not a scale{nearest(scale, SCALES)}")
    at = {
        scale: Terms(
            parse_margin(terms.get("margin"), "", where), terms.get("mechanism"), terms.get("out_of_reach")
        )
        for scale, terms in raw.get("at", {}).items()
    }
    return Trend(
        **{key: raw[key] for key in ("id", "claim", "table", "metric")},
        order_best_first=tuple(raw["order_best_first"]),
        margin=parse_margin(raw.get("margin"), unit, where),
        varies=frozenset(raw.get("varies", ())),
        ours=raw.get("ours"),
        not_worse=raw.get("not_worse", False),
        part_of=raw.get("part_of"),
        at=at,
    )


_Listed = TypeVar("_Listed", Table, Row, Trend)


def _unique(items: list[_Listed], kind: str) -> dict[str, _Listed]:
    unique: dict[str, _Listed] = {}
    for item in items:
        if item.id in unique:
            raise ValueError(f"two of one id: {kind} {item.id!r}")
        unique[item.id] = item
    return unique
