"""Runs that a user names, side by side: what differs in settings, scores over seeds, curves in one figure."""

import csv
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from repro.errors import UserError, nearest
from repro.evidence import text
from repro.evidence.judging.statistics import estimate
from repro.recipe import Recipe
from repro.record import RunRecord
from repro.report.plots.chart import Chart
from repro.report.plots.plot import CURVES, Plot, over_seeds
from repro.report.plots.rows import curve_panel, metrics_of
from repro.report.views.runs import settings
from repro.yamls import Config, short

FEW = 4  # scores of a table where none is named
COLUMNS = ("run_id", "scale", "seed", "updates")  # of the export, before settings and scores


@dataclass(frozen=True)
class RunGroup:
    """Runs of one configuration with several seeds.

    Attributes:
        settings: what distinguishes it from the other groups, by name.
        records: one for each seed.
    """

    settings: Mapping[str, str]
    records: Sequence[RunRecord]

    @property
    def label(self) -> str:
        """The settings in one line."""
        words = {key: value for key, value in self.settings.items() if value}
        return ", ".join(value if key == "run" else f"{key} {value}" for key, value in words.items())


def group(records: Sequence[RunRecord]) -> list[RunGroup]:
    """Groups runs by configuration, in the order of what distinguishes those of an experiment and scale.

    A setting that differs within one experiment is shown for the others, too, where they have it.
    """
    places = list(dict.fromkeys((record.experiment, record.scale) for record in records))
    several = len({scale for _, scale in places}) > 1
    alike: dict[tuple[str, str], dict[str, list[RunRecord]]] = {place: {} for place in places}
    for record in records:
        alike[record.experiment, record.scale].setdefault(record.config_hash[:8], []).append(record)
    configs = {r.config_hash[:8]: Recipe(r.experiment, r.scale, r.config).signature for r in records}
    differing = {place: _differing([configs[hashed] for hashed in alike[place]]) for place in places}
    shown = sorted(set[str]().union(*differing.values()))
    groups = []
    for (experiment, scale), keys in differing.items():
        of_place = alike[experiment, scale]
        for hashed in sorted(of_place, key=lambda one: [_in_order(configs[one].get(key)) for key in keys]):
            config, same = configs[hashed], of_place[hashed]
            changes = "" if keys else settings(same[0])
            run = " ".join(filter(None, (experiment, scale if several else "", changes)))
            here = [key for key in shown if key in keys or key in config]
            named = {_name(key, shown): text.word(config.get(key, text.NOTHING)) for key in here}
            groups.append(RunGroup(({"run": run} if len(places) > 1 or not keys else {}) | named, same))
    return groups


def _differing(configs: Sequence[Config]) -> list[str]:
    """The settings in which some configurations differ."""
    pairs = list(itertools.pairwise(configs))
    every = sorted(set[str]().union(*configs))
    return [key for key in every if any(a.get(key) != b.get(key) for a, b in pairs)]


def _in_order(value: object) -> tuple[float, str]:
    """A key that sorts numbers by size, before everything else."""
    return (float(value), "") if isinstance(value, int | float) else (math.inf, str(value))


def _name(key: str, keys: Sequence[str]) -> str:
    """The last part of a key where no other key or column has that name."""
    last = key.rpartition(".")[2]
    alone = sum(one.rpartition(".")[2] == last for one in keys) == 1 and last not in COLUMNS
    return last if alone else short(key)


def scores_of(groups: Sequence[RunGroup], named: Sequence[str] = ()) -> list[str]:
    """The scores that all finished runs have, of the test first; or, of those named, the ones that are no curve alone.

    Raises:
        UserError: a name that no run has, or no score in common.
    """
    records = [record for one in groups for record in one.records]
    ended = [record for record in records if record.checkpoint_sha256 is not None] or records
    every = [{m.name for m in record.metrics} for record in records]
    known = set[str]().union(*every)
    for name in named:
        if name not in known and not any(name in record.curves for record in records):
            raise UserError(f"no run has {name!r}{nearest(name, sorted(known))}")
    first = [m.name for m in ended[0].metrics if "tokens_per_s" not in m.name]
    common = [name for name in dict.fromkeys(first) if all(record.metric(name) for record in ended)]
    common.sort(key=lambda name: not name.startswith("test/"))
    return [name for name in named if name in known] or common[:FEW]


def comparison(groups: Sequence[RunGroup], names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The header and rows of a table: settings, seeds, then each score as mean and 95 % interval over seeds."""
    settings = list(dict.fromkeys(key for one in groups for key in one.settings))
    rows = []
    for one in groups:
        values = [[m.value for r in one.records if (m := r.metric(name))] for name in names]
        means = [text.plus_minus(estimate(some)) if some else text.NOTHING for some in values]
        open_runs = sum(r.checkpoint_sha256 is None for r in one.records)
        seeds = f"{len(one.records)}{f', {open_runs} not finished' if open_runs else ''}"
        rows.append([*(one.settings.get(key, text.NOTHING) for key in settings), seeds, *means])
    return [*settings, "seeds", *names], rows


def as_csv(groups: Sequence[RunGroup]) -> str:
    """A line for each run with its settings and all of its scores."""
    settings = list(dict.fromkeys(key for one in groups for key in one.settings))
    names = list(dict.fromkeys(m.name for one in groups for r in one.records for m in r.metrics))
    out = io.StringIO()
    table = csv.DictWriter(out, [*COLUMNS, *settings, *names], lineterminator="\n")
    table.writeheader()
    for one in groups:
        chosen = {key: value for key, value in one.settings.items() if value != text.NOTHING}
        for r in one.records:
            facts = {"run_id": r.run_id, "scale": r.scale, "seed": r.seed, "updates": r.steps}
            table.writerow(facts | chosen | {m.name: m.value for m in reversed(r.metrics)})
    return out.getvalue()


def curve_names(groups: Sequence[RunGroup], named: Sequence[str] = ()) -> Sequence[str]:
    """The curves that are drawn: those named, or the training loss and the validation scores."""
    return named or metrics_of(record for one in groups for record in one.records)[:FEW]


def curves(groups: Sequence[RunGroup], named: Sequence[str] = ()) -> Plot:
    """A figure with a panel for each curve of :func:`curve_names`.

    Raises:
        UserError: no run has such a curve.
    """
    rows = {one.label: one.records for one in groups}
    panels = [panel for name in curve_names(groups, named) if (panel := curve_panel(rows, name))]
    if not panels:
        known = ", ".join(sorted({name for one in groups for r in one.records for name in r.curves}))
        raise UserError(f"no run has a curve {', '.join(named) or 'yet'}; there is: {known or 'none'}")
    experiments = dict.fromkeys(record.experiment for one in groups for record in one.records)
    about = list(experiments if len(rows) > 1 else rows)
    title = ", ".join([*(about if len(about) < FEW else ()), over_seeds(rows)])
    names = list(rows) if len(rows) > 1 else []
    return Plot("curves", CURVES, f"learning curves: {'; '.join(rows)}", Chart(title, names, panels))
