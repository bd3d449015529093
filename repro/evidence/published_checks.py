"""Checks of a published file: which numbers are unconfirmed, and whether its references exist.

A number is *unconfirmed* when the file says that nobody could check it against the paper:

* ``checked`` of its table begins with ``unconfirmed``: then every cell of the table is, except those named by
  a later clause ``...; <cells> confirmed by <source>``. A clause names cells by ``row <id>``, by the numbers
  themselves (``16.64 and 16.61``) and by metrics in parentheses (``row x (F1, ROUGE)``); all must fit.
* ``settings.unconfirmed`` of its row is ``true`` or a list of metric names.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from repro.errors import UserError, nearest
from repro.evidence.rules import Rules

if TYPE_CHECKING:
    from repro.evidence.published import Paper, Row, Trend


def is_unconfirmed(checked: str, row: str, metric: str, value: float) -> bool:
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


def cross_check(paper: "Paper", path: Path) -> None:
    """Refuses references to metrics, rows, tables and trends that the file does not have.

    Raises:
        UserError: the first one, with its place.
    """
    for table in paper.tables.values():
        for row in table.rows.values():
            for metric in row.values.keys() | row.unconfirmed:
                if metric not in table.metrics:
                    raise UserError(
                        f"{path}: {table.id}, row {row.id}: {metric!r} is not a metric of the table"
                        f"{nearest(metric, table.metrics)}"
                    )
            for metric, rules in row.rules.items():
                where = f"{path}: {table.id}, row {row.id}: {metric}"
                _cross_check_same(paper, rules, where)
                if metric in row.values:
                    _cross_check_derived(paper, rules, where)
    for trend in paper.trends.values():
        _cross_check_trend(trend, paper, path)
    if paper.headline and paper.headline.trend not in paper.trends:
        name = paper.headline.trend
        raise UserError(f"{path}: headline: {name!r} is not a trend{nearest(name, paper.trends)}")


def _cross_check_same(paper: "Paper", rules: Rules, where: str) -> None:
    if rules.same_as is None:
        return
    place = f"{where}: same_as {'/'.join(rules.same_as)}"
    row, metric = _refer(paper, rules.same_as, place), rules.same_as[2]
    if metric not in row.values:
        raise UserError(f"{place}: the row has no number {metric!r}{nearest(metric, row.values)}")
    if row.rules[metric].same_as is not None:
        raise UserError(f"{place}: that one is the same as another; name the other")


def _cross_check_derived(paper: "Paper", rules: Rules, where: str) -> None:
    how = rules.derived
    if how is None:
        return
    for reference in how.references:
        _refer(paper, reference, f"{where}: derived: {'/'.join(reference)}")
    timed = how.is_timed or paper.tables[how.of[0]].metrics[how.of[2]].rules.kind == "timed"
    if rules.kind != ("timed" if timed else "derived"):
        kind = "timed`, as it rests on the times of runs" if timed else "derived`"
        raise UserError(f"{where}: derived: its class is {rules.kind}; write `class: {kind}")


def _refer(paper: "Paper", reference: tuple[str, str, str], place: str) -> "Row":
    """The row of a number that another one names."""
    table_id, row_id, metric = reference
    table = paper.tables.get(table_id)
    if table is None:
        raise UserError(f"{place}: no table {table_id!r}{nearest(table_id, paper.tables)}")
    row = table.rows.get(row_id)
    if row is None:
        raise UserError(f"{place}: no row {row_id!r} in {table_id}{nearest(row_id, table.rows)}")
    if metric not in table.metrics:
        raise UserError(f"{place}: no metric {metric!r} in {table_id}{nearest(metric, table.metrics)}")
    return row


def _cross_check_trend(trend: "Trend", paper: "Paper", path: Path) -> None:
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
        raise UserError(f"{where}: a row is repeated in order_best_first")
    if trend.part_of is not None:
        whole = paper.trends.get(trend.part_of)
        if whole is None:
            raise UserError(
                f"{where}: part_of {trend.part_of!r} is not a trend{nearest(trend.part_of, paper.trends)}"
            )
        if not set(trend.order_best_first) <= set(whole.order_best_first) or whole.metric != trend.metric:
            raise UserError(f"{where}: its rows or its metric are not those of {trend.part_of!r}")
