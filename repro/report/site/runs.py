"""The runs of an experiment at one scale: their numbers and curves, and the facts that they share or that differ."""

from dataclasses import dataclass
from typing import Any

from repro import text
from repro.evidence.compare import Comparison
from repro.evidence.statistics import estimate
from repro.recipe import SECTIONS, TAKEN, Config
from repro.record import RunRecord
from repro.report.formats.documents import Group, commit, measurements, shared_protocol, some_seeds
from repro.report.formats.headline import named
from repro.report.plots.plot import Plot, file_name
from repro.report.site import anchors, badges
from repro.report.site.material import Material, Runs
from repro.yamls import to_yaml

MAY_BE_SHARED = ("n", "Split", "Items")  # said once where all numbers agree in it
OWN = ("State", "Wall time", "Finished")  # each run says these of itself, also where all agree


@dataclass(frozen=True)
class Grid:
    """A table whose lines begin with a heading.

    Attributes:
        name: for those who hear it.
        titles: of its columns.
        rows: heading, marks behind it, the other cells, and the address of the line, which may be empty.
        shared: what all lines have in common.
    """

    name: str
    titles: list[str]
    rows: list[tuple[str, list[str], list[str], str]]
    shared: str = ""


@dataclass(frozen=True)
class RunsView:
    """One experiment at one scale; its address is within the fold, so that a browser opens it on the way there."""

    id: str
    experiment: str
    scale: str
    verdicts: str
    summary: str
    weaknesses: tuple[str, ...]
    plots: list[Plot]
    metrics: Grid | None
    runs: Grid
    facts: dict[str, str]
    deviations: list[str]
    configurations: list[tuple[str, str]]


def group(material: Material, runs: Runs) -> RunsView:
    """The view of one experiment at one scale."""
    grid, shared = _table(material.comparison, runs)
    return RunsView(
        id=anchors.runs(runs.experiment, runs.scale),
        experiment=runs.experiment,
        scale=runs.scale,
        verdicts=badges.keys(set(runs.verdicts)),
        summary=_summary(runs),
        weaknesses=runs.weaknesses,
        plots=_plots(material, runs),
        metrics=_metrics(runs, material.comparison.derived(runs.experiment, runs.scale)),
        runs=grid,
        facts=shared,
        deviations=list(dict.fromkeys(d for record in runs.records for d in record.deviations)),
        configurations=_configurations(runs.records),
    )


def _summary(runs: Runs) -> str:
    scale = "paper scale" if runs.scale == "paper" else f"reduced scale: {runs.scale}"
    scores = []
    for group in measurements(runs.used):
        if group[0][1].name in named(runs.used[0]):
            m = group[0][1]
            scores.append(f"{m.name} {text.plus_minus(estimate([x.value for _, x in group]))} {m.unit}")
    seeds = text.plural(len(runs.used), "seed") if runs.used else "no record counts"
    return " · ".join([scale, seeds, *scores[:2]])


def _plots(material: Material, runs: Runs) -> list[Plot]:
    """The learning curves of the runs that count, what they drew, and their memories."""
    name = file_name(runs.experiment, runs.scale)
    starts = tuple(f"{name.removesuffix('.svg')}--{part}-s" for part in ("drawn", "memory"))
    return [plot for plot in material.plots if plot.name == name or plot.name.startswith(starts)]


def _metrics(runs: Runs, derived: list[Group]) -> Grid | None:
    """The numbers of the runs that count, and those derived from them; of all runs, where none counts."""
    records = runs.used or runs.records
    groups = _without_repeats(measurements(records))
    if not groups:
        return None
    protocols = [
        [text.mapping({k: v}) for k, v in sorted(shared_protocol(group).items())] for group in groups
    ]
    common = [words for words in protocols[0] if all(words in protocol for protocol in protocols)]
    lines = [_metric(group) for group in groups]
    for line, protocol in zip(lines, protocols, strict=True):
        line["Protocol"] = ", ".join(words for words in protocol if words not in common) or text.NOTHING
    marks = [some_seeds(group, records) for group in groups]
    for group in derived:
        own = {"Protocol": "derived"} | ({"By seed": text.NOTHING} if len(group) < len(records) else {})
        lines.append(_metric(group) | own)
        marks.append([])
    once = {t: lines[0][t] for t in MAY_BE_SHARED if all(line[t] == lines[0][t] for line in lines)}
    common_words = [f"{title.lower()}: {words}" for title, words in once.items() if words != text.NOTHING]
    common_words += [f"protocol: {', '.join(common)}"] if common else []
    titles = [t for t in lines[0] if t not in once and any(line[t] != text.NOTHING for line in lines)]
    rows = [
        (line[titles[0]], mark, [line[t] for t in titles[1:]], "")
        for line, mark in zip(lines, marks, strict=True)
    ]
    name = f"Metrics of {runs.experiment} at scale {runs.scale}"
    which = "All measured numbers" if derived else "All numbers"
    return Grid(name, titles, rows, f"{which}: {'; '.join(common_words)}." if common_words else "")


def _without_repeats(groups: list[Group]) -> list[Group]:
    """The numbers without those of the validation split that are already shown with a test score."""
    beside = {(x.name.removeprefix("test/"), x.unit, r.seed, x.validation) for g in groups for r, x in g}
    return [
        group
        for group in groups
        if not all(
            x.name.startswith("val/") and (x.name.removeprefix("val/"), x.unit, r.seed, x.value) in beside
            for r, x in group
        )
    ]


def _metric(group: Group) -> dict[str, str]:
    """The cells of a line by column title."""
    m, values = group[0][1], [x.value for _, x in group]
    validation = ", ".join(text.number(x.validation) for _, x in group if x.validation is not None)
    return {
        "Metric": m.name,
        "Mean ± 95 %": text.plus_minus(estimate(values)),
        "n": str(len(values)),
        "By seed": ", ".join(f"{r.seed}: {text.number(x.value)}" for r, x in group),
        "Unit": m.unit,
        "Split": m.split,
        "Items": " or ".join(text.count(n) for n in sorted({x.count for _, x in group if x.count}))
        or text.NOTHING,
        "Validation": validation or text.NOTHING,
    }


def facts(comparison: Comparison, record: RunRecord) -> dict[str, str]:
    """The facts about a run besides its numbers, by title."""
    return {
        "State": comparison.explained(record),
        "Commit": commit(record),
        "Wall time": text.duration(record.wall_seconds),
        "Finished": record.finished,
        "GPU hours": f"{record.gpu_hours:.2f}",
        "Peak memory": text.size(record.peak_bytes),
        "Updates": text.count(record.steps),
        "Tokens": text.count(record.tokens),
        "Hardware": text.mapping(record.hardware),
        "Precision": record.precision,
        "Parameters": text.count(record.parameters),
        "Started from": text.mapping(dict(record.start_from)) if record.start_from else text.NOTHING,
        "Command": record.command.replace(f"--seed {record.seed}", "--seed SEED"),
        "Data": _data(record.data),
        "Versions": text.mapping(dict(record.versions)),
        "Configuration": record.config_hash[:8],
        "Code": (record.code_sha256 or text.NOTHING)[:12],
        "Checkpoint": (record.checkpoint_sha256 or text.NOTHING)[:12],
        "Outputs": (record.outputs_sha256 or text.NOTHING)[:12],
        "W&B": record.wandb_url or text.NOTHING,
    }


def _data(data: dict[str, Any]) -> str:
    """The name of the data, how much there is of each split, and their hash."""
    counts = data.get("counts")
    splits = {k: n for k, n in counts.items() if isinstance(n, dict)} if isinstance(counts, dict) else {}
    details = {k: v for k, v in data.items() if k != "name" and not (splits and k == "counts")}
    if isinstance(details.get("manifest_sha256"), str):
        details["manifest_sha256"] = details["manifest_sha256"][:12]
    parts = [
        str(data.get("name", text.NOTHING)),
        *(f"{split}: {text.mapping(n)}" for split, n in splits.items()),
    ]
    return "; ".join([*parts, *([text.mapping(details)] if details else [])])


def _table(comparison: Comparison, runs: Runs) -> tuple[Grid, dict[str, str]]:
    """A line per run with that in which it differs, then what all of them share."""
    by_record = [facts(comparison, record) for record in runs.records]
    differing = [title for title in by_record[0] if title in OWN or len({f[title] for f in by_record}) > 1]
    rows: list[tuple[str, list[str], list[str], str]] = [
        (f"seed {record.seed}", [], [row_facts[title] for title in differing], anchors.run(record))
        for record, row_facts in zip(runs.records, by_record, strict=True)
    ]
    shared = {t: value for t, value in by_record[0].items() if t not in differing and value != text.NOTHING}
    return Grid(f"Runs of {runs.experiment} at scale {runs.scale}", ["Run", *differing], rows), shared


def _configurations(records: tuple[RunRecord, ...]) -> list[tuple[str, str]]:
    """Each configuration once, however many runs had it: its title and its YAML."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for record in records:
        seeds.setdefault((record.config_hash[:8], as_yaml(record.config)), []).append(str(record.seed))
    return [
        (f"Configuration {digits} of seed{'s' if len(those) > 1 else ''} {', '.join(those)}", lines)
        for (digits, lines), those in seeds.items()
    ]


def as_yaml(config: Config) -> str:
    """What decides a run: trainer, model, data, checkpoints, and where it began; ASCII characters only."""
    return to_yaml({key: config[key] for key in (*TAKEN, "start_with", *SECTIONS) if key in config}).strip()
