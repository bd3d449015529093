"""Sweeps: what was measured against what was set, one panel per measurement, one line per point of a grid.

A measurement is a point of a sweep where its protocol holds ``{"sweep": KEY, "of": NAME, KEY: number or text}``;
``"sweep_unit"`` is the unit of KEY. One with ``{"exponent_of": NAME, "by": KEY}`` is the fitted exponent of a line,
drawn beside the one that the paper states; one with ``{"crossing_of": NAME, "by": KEY}`` is where two lines cross.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from repro.errors import UserError
from repro.evidence.compare import Comparison
from repro.record import Measurement, RunRecord
from repro.report.plots.chart import FACTOR_X, FACTOR_Y, Chart, Line, Panel, Value, scores, spans
from repro.report.plots.plot import SWEEPS, Plot, caption, file_name, grid_of, over_seeds, point_of

LETTERS = 36  # beside a panel

Measured = tuple[str, str, str]  # name, unit, split: what one panel shows
Values = dict[Value, dict[int, float]]  # {setting: {seed: value}}


@dataclass
class Sweep:
    """The measurements of one grid at one scale against one key.

    Attributes:
        unit: of the key; empty where nobody says it.
        found: by what a panel shows, then by point of the grid.
        seeds: those of each point.
        exponents: of each name, by point of the grid, one for each seed.
        crossings: of each name, one for each seed.
        stated: exponents that the paper states, by name and point.
    """

    unit: str = ""
    found: dict[Measured, dict[str, Values]] = field(default_factory=dict)
    seeds: dict[str, set[int]] = field(default_factory=dict)
    exponents: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    crossings: dict[str, list[float]] = field(default_factory=dict)
    stated: dict[tuple[str, str], float] = field(default_factory=dict)


def sweeps(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--by-<key>--<scale>.svg`` per grid, scale and key.

    Raises:
        UserError: a measurement that is only half a point of a sweep, or two values at one place.
    """
    places: dict[tuple[str, str, str], Sweep] = {}
    for (experiment, scale), selection in comparison.selections.items():
        for record in selection.used:
            for m in record.metrics:
                key = _key(record, m)
                if key is not None:
                    sweep = places.setdefault((grid_of(experiment), scale, key), Sweep())
                    if "sweep" in m.protocol:
                        _add(sweep, record, m, point_of(experiment))
                    else:
                        _fit(sweep, comparison, record, m)
    return [_plot(*place, sweep) for place, sweep in places.items() if sweep.found]


def sweep_panel(rows: Mapping[str, Sequence[RunRecord]], name: str) -> Panel | None:
    """The panel of one measurement of some rows by a number that was set, a line for each row; None without any.

    Args:
        rows: records by the name of the row.
        name: what the sweep is ``of``.
    """
    sweep = Sweep()
    for row, records in rows.items():
        for record, m in ((one, m) for one in records for m in one.metrics):
            key = str(m.protocol.get("sweep"))
            if m.protocol.get("of") == name and isinstance(m.protocol.get(key), int | float):
                _add(sweep, record, m, row)
                x_label = f"{key} ({sweep.unit})" if sweep.unit else key
    if not sweep.found:
        return None
    panel = _panel(sweep, next(iter(sweep.found)), x_label, "")
    named = f"{name} ({panel.y_label})"
    return replace(panel, y_label=named) if len(named) <= LETTERS else panel


def _key(record: RunRecord, m: Measurement) -> str | None:
    """The key that a measurement is drawn against; None for one that is not drawn here."""
    if "sweep" in m.protocol:
        return _checked(record, m)[0]
    named = [m.protocol.get(word) for word in ("exponent_of", "crossing_of")]
    key = m.protocol.get("by")
    return key if isinstance(key, str) and any(isinstance(name, str) for name in named) else None


def _checked(record: RunRecord, m: Measurement) -> tuple[str, str, Value]:
    """Key, name and setting of a point."""
    key, name = m.protocol["sweep"], m.protocol.get("of")
    value: object = m.protocol.get(key) if isinstance(key, str) else None
    if isinstance(value, bool):
        value = str(value).lower()
    if not (isinstance(key, str) and isinstance(name, str) and isinstance(value, int | float | str)):
        raise UserError(
            f"{record.run_id}: {m.name} is of a sweep by {key!r}: its protocol must name what it is `of` and "
            f"hold {key!r} as a number or text"
        )
    return key, name, value


def _add(sweep: Sweep, record: RunRecord, m: Measurement, point: str) -> None:
    key, name, value = _checked(record, m)
    seeds = sweep.found.setdefault((name, m.unit, m.split), {}).setdefault(point, {}).setdefault(value, {})
    if record.seed in seeds:
        raise UserError(f"{record.run_id}: two measurements of {name} ({m.split}) at {key} {value}")
    seeds[record.seed] = m.value
    sweep.unit = sweep.unit or str(m.protocol.get("sweep_unit", ""))
    sweep.seeds.setdefault(point, set()).add(record.seed)


def _fit(sweep: Sweep, comparison: Comparison, record: RunRecord, m: Measurement) -> None:
    """Notes a fitted exponent, beside the published one of the cell that it is measured for, or a crossing."""
    name, point = m.protocol.get("exponent_of"), point_of(record.experiment)
    if not isinstance(name, str):
        sweep.crossings.setdefault(m.protocol["crossing_of"], []).append(m.value)
        return
    sweep.exponents.setdefault(name, {}).setdefault(point, []).append(m.value)
    paper = record.experiment.partition("/")[0]
    for goal in comparison.headers[record.experiment, record.scale].goals:
        entry = comparison.entries[paper, goal.table, goal.row, goal.metric]
        if goal.measured == m.name and entry.published is not None:
            sweep.stated.setdefault((name, point), entry.published)


def _plot(grid: str, scale: str, key: str, sweep: Sweep) -> Plot:
    x_label = f"{key} ({sweep.unit})" if sweep.unit else key
    names = list(sweep.seeds)
    titles = [name for name, _, _ in sweep.found]
    panels = [
        _panel(sweep, measured, x_label, f"{name}, {split}" if titles.count(name) > 1 else name)
        for measured in sweep.found
        for name, _, split in [measured]
    ]
    seeds = over_seeds([len(seeds) for seeds in sweep.seeds.values()])
    chart = Chart(f"{grid}, scale {scale}, {seeds}", names, panels)
    words = caption(grid, scale, f"{', '.join(dict.fromkeys(titles))} by {x_label}, {seeds}")
    return Plot(file_name(grid, f"by-{key}", scale), SWEEPS, words, chart)


def _panel(sweep: Sweep, measured: Measured, x_label: str, title: str) -> Panel:
    name, unit, _ = measured
    points, names = sweep.found[measured], list(sweep.seeds)
    lines = [_line(names.index(point), values) for point, values in points.items()]
    settings = [x for values in points.values() for x in values]
    return Panel(
        x_label,
        unit,
        lines,
        title,
        settings=True,
        log_x=spans(settings, FACTOR_X),
        log_y=spans(scores(lines), FACTOR_Y),
        notes=_notes(sweep, name, names),
        rules=_rules(sweep, name, settings),
    )


def _notes(sweep: Sweep, name: str, names: list[str]) -> list[tuple[int, str]]:
    """The exponents of the lines of a panel."""
    notes = []
    for point, values in sweep.exponents.get(name, {}).items():
        if point in names:
            stated = sweep.stated.get((name, point))
            published = "" if stated is None else f", paper {stated:g}"
            notes.append((names.index(point), f"exponent {sum(values) / len(values):.2f}{published}"))
    return notes


def _rules(sweep: Sweep, name: str, settings: list[Value]) -> list[tuple[float, str]]:
    """Where lines of a panel cross, if that lies within it."""
    values, numbers = sweep.crossings.get(name), [x for x in settings if not isinstance(x, str)]
    if not values or not numbers:
        return []
    where = sum(values) / len(values)
    return [(where, f"cross at {where:,.0f}")] if min(numbers) <= where <= max(numbers) else []


def _line(look: int, values: Values) -> Line:
    """Means in the order of the numbers, then the words; the seeds as dots where there are several."""
    order = sorted(values, key=lambda x: (isinstance(x, str), 0.0 if isinstance(x, str) else x))
    points = [(x, sum(values[x].values()) / len(values[x])) for x in order]
    dots = [(x, y) for x in order for y in values[x].values() if len(values[x]) > 1]
    return Line(look, points, dots)
