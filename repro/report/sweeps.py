"""Sweeps: what was measured against what was set, one panel per measurement, one line per point of a grid.

A measurement is a point of a sweep where its protocol holds ``{"sweep": KEY, "of": NAME, KEY: number or text}``;
``"sweep_unit"`` is the unit of KEY.
"""

from dataclasses import dataclass, field
from typing import Any

from repro.errors import UserError
from repro.record import Measurement, RunRecord
from repro.report.axes import Value, of_scores, of_settings
from repro.report.compare import Comparison
from repro.report.figures import SWEEPS, Plot, caption, file_name, grid_of, over_seeds, point_of
from repro.report.panels import Line, Panel, draw

Measured = tuple[str, str, str]  # name, unit, split: what one panel shows
Values = dict[Value, dict[int, float]]  # {setting: {seed: value}}


@dataclass
class Sweep:
    """What was measured of one grid at one scale against one key.

    Attributes:
        unit: of the key; empty where nobody says it.
        found: by what a panel shows, then by point of the grid.
        seeds: those of each point.
    """

    unit: str = ""
    found: dict[Measured, dict[str, Values]] = field(default_factory=dict)
    seeds: dict[str, set[int]] = field(default_factory=dict)


def sweeps(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--by-<key>--<scale>.svg`` per grid, scale and key.

    Raises:
        UserError: a measurement that is only half a point of a sweep, or two values at one place.
    """
    there: dict[tuple[str, str, str], Sweep] = {}
    for (experiment, scale), selection in comparison.selections.items():
        for record in selection.used:
            for m in record.metrics:
                if "sweep" in m.protocol:
                    key = _checked(record, m)[0]
                    _add(there.setdefault((grid_of(experiment), scale, key), Sweep()), record, m)
    return [_plot(*place, sweep) for place, sweep in there.items()]


def _checked(record: RunRecord, m: Measurement) -> tuple[str, str, Value]:
    """Key, name and setting of a point."""
    key, name = m.protocol["sweep"], m.protocol.get("of")
    value: Any = m.protocol.get(key) if isinstance(key, str) else None
    if isinstance(value, bool):
        value = str(value).lower()
    if not (isinstance(key, str) and isinstance(name, str) and isinstance(value, int | float | str)):
        raise UserError(
            f"{record.run_id}: {m.name} is of a sweep by {key!r}: its protocol must name what it is `of` and "
            f"hold {key!r} as a number or text"
        )
    return key, name, value


def _add(sweep: Sweep, record: RunRecord, m: Measurement) -> None:
    key, name, value = _checked(record, m)
    point = point_of(record.experiment)
    seeds = sweep.found.setdefault((name, m.unit, m.split), {}).setdefault(point, {}).setdefault(value, {})
    if record.seed in seeds:
        raise UserError(f"{record.run_id}: two measurements of {name} ({m.split}) at {key} {value}")
    seeds[record.seed] = m.value
    sweep.unit = sweep.unit or str(m.protocol.get("sweep_unit", ""))
    sweep.seeds.setdefault(point, set()).add(record.seed)


def _plot(grid: str, scale: str, key: str, sweep: Sweep) -> Plot:
    across = f"{key} ({sweep.unit})" if sweep.unit else key
    names = list(sweep.seeds)
    titles = [name for name, _, _ in sweep.found]
    panels = []
    for (name, unit, split), points in sweep.found.items():
        lines = [_line(names.index(point), values) for point, values in points.items()]
        drawn = [*(p for line in lines for p in line.points), *(d for line in lines for d in line.dots)]
        x = of_settings(x for values in points.values() for x in values)
        y = of_scores(y for _, y in drawn if y is not None)
        heading = f"{name}, {split}" if titles.count(name) > 1 else name
        panels.append(Panel(across, unit, x, y, lines, heading, marked=True))
    seeds = over_seeds([len(seeds) for seeds in sweep.seeds.values()])
    svg = draw(f"{grid}, scale {scale}, {seeds}", f"by {key}", names, panels)
    said = caption(grid, scale, f"{', '.join(dict.fromkeys(titles))} by {across}, {seeds}")
    return Plot(file_name(grid, f"by-{key}", scale), SWEEPS, said, svg.encode())


def _line(look: int, values: Values) -> Line:
    """Means in the order of the numbers, then the words; the seeds as dots where there are several."""
    order = sorted(values, key=lambda x: (isinstance(x, str), 0.0 if isinstance(x, str) else x))
    points = [(x, sum(values[x].values()) / len(values[x])) for x in order]
    dots = [(x, y) for x in order for y in values[x].values() if len(values[x]) > 1]
    return Line(look, points, dots)
