"""The runs of an experiment at one scale: their numbers and curves, what they share, in what they differ."""

from typing import Any

from repro.record import RunRecord
from repro.report import text
from repro.report.compare import Comparison
from repro.report.documents import Group, commit, measurements, shared_protocol, some_seeds
from repro.report.figures import file_name
from repro.report.headline import named
from repro.report.published import Paper
from repro.report.site import anchors, badges, figures
from repro.report.site.config import as_yaml
from repro.report.site.html import Html, bullets, columns, join, outside, scroll, tag, verbatim
from repro.report.site.material import Material, Runs
from repro.report.statistics import estimate

NUMBERS = frozenset(
    ("Mean ± 95 %", "n", "Parameters", "Updates", "Tokens", "Wall time", "GPU hours", "Peak memory")
)
MAY_BE_SHARED = ("n", "Split", "Items")  # said once where all numbers agree in it
OWN = ("State", "Wall time", "Finished")  # each run says these of itself, also where all agree


def section(material: Material, paper: Paper) -> Html:
    """Every run of a paper, by experiment and scale."""
    groups = material.runs_of(paper)
    if not groups:
        return Html()
    said = tag(
        "p", "Every record, by experiment and scale, also those that count for nothing, and why.", cls="meta"
    )
    folded = [group(material, runs) for runs in groups]
    return tag(
        "section", tag("h3", "Runs"), said, *folded, id=f"runs-of-{anchors.slug(paper.key)}", data_box=True
    )


def group(material: Material, runs: Runs) -> Html:
    """One experiment at one scale; its address is within the fold, so that a browser opens it on the way there."""
    parts = [
        bullets(runs.weaknesses, "marks"),
        _figures(material, runs),
        _metrics(runs),
        _table(material.comparison, runs),
        _deviations(runs.records),
        _configurations(runs.records),
    ]
    return tag(
        "details",
        _summary(runs),
        tag("div", *parts, id=anchors.runs(runs.experiment, runs.scale), cls="body"),
        cls="runs",
        data_k="g",
        data_v=badges.keys(set(runs.verdicts)) or None,
        data_s=runs.scale,
    )


def _summary(runs: Runs) -> Html:
    scale = "paper scale" if runs.scale == "paper" else f"reduced scale: {runs.scale}"
    scores = []
    for found in measurements(runs.used):
        if found[0][1].name in named(runs.used[0]):
            m = found[0][1]
            scores.append(f"{m.name} {text.plus_minus(estimate([x.value for _, x in found]))} {m.unit}")
    seeds = text.plural(len(runs.used), "seed") if runs.used else "no record counts"
    weak = badges.mark("see notes") if runs.weaknesses else Html()
    said = tag("span", " · ".join([scale, seeds, *scores[:2]]), cls="sum")
    return tag("summary", tag("h4", tag("code", runs.experiment)), said, weak)


def _figures(material: Material, runs: Runs) -> Html:
    """The learning curves of the runs that count, what they drew, and their memories."""
    name = file_name(runs.experiment, runs.scale)
    starts = tuple(f"{name.removesuffix('.svg')}--{part}-s" for part in ("drawn", "memory"))
    here = [plot for plot in material.plots if plot.name == name or plot.name.startswith(starts)]
    return join([figures.figure(plot) for plot in here])


def _metrics(runs: Runs) -> Html:
    """The numbers of the runs that count; of all, where none does."""
    records = runs.used or runs.records
    found = _without_repeats(measurements(records))
    if not found:
        return tag("p", "No metric was recorded.")
    protocols = [[text.mapping({k: v}) for k, v in sorted(shared_protocol(group).items())] for group in found]
    common = [words for words in protocols[0] if all(words in protocol for protocol in protocols)]
    lines = [_metric(group) for group in found]
    for line, protocol in zip(lines, protocols, strict=True):
        line["Protocol"] = ", ".join(words for words in protocol if words not in common) or text.NOTHING
    once = {t: lines[0][t] for t in MAY_BE_SHARED if all(line[t] == lines[0][t] for line in lines)}
    said = [f"{title.lower()}: {words}" for title, words in once.items() if words != text.NOTHING]
    said += [f"protocol: {', '.join(common)}"] if common else []
    shared = tag("p", f"All numbers: {'; '.join(said)}.", cls="meta") if said else Html()
    titles = [t for t in lines[0] if t not in once and any(line[t] != text.NOTHING for line in lines)]
    rows = [_line(line, titles, some_seeds(group, records)) for line, group in zip(lines, found, strict=True)]
    name = f"Metrics of {runs.experiment} at scale {runs.scale}"
    return join([scroll(name, columns(titles, NUMBERS), tag("tbody", *rows)), shared])


def _without_repeats(groups: list[Group]) -> list[Group]:
    """The numbers less those of the validation split that stand beside a test score already."""
    beside = {(x.name.removeprefix("test/"), x.unit, r.seed, x.validation) for g in groups for r, x in g}
    return [
        group
        for group in groups
        if not all(
            x.name.startswith("val/") and (x.name.removeprefix("val/"), x.unit, r.seed, x.value) in beside
            for r, x in group
        )
    ]


def _metric(found: Group) -> dict[str, str]:
    """What a line says below each title."""
    m, values = found[0][1], [x.value for _, x in found]
    validation = ", ".join(text.number(x.validation) for _, x in found if x.validation is not None)
    return {
        "Metric": m.name,
        "Mean ± 95 %": text.plus_minus(estimate(values)),
        "n": str(len(values)),
        "By seed": ", ".join(f"{r.seed}: {text.number(x.value)}" for r, x in found),
        "Unit": m.unit,
        "Split": m.split,
        "Items": " or ".join(text.count(n) for n in sorted({x.count for _, x in found if x.count}))
        or text.NOTHING,
        "Validation": validation or text.NOTHING,
    }


def _line(line: dict[str, str], titles: list[str], marks: list[str]) -> Html:
    name, *rest = titles
    cells = [tag("td", line[title], cls=_class(title)) for title in rest]
    return tag("tr", tag("th", line[name], *map(badges.mark, marks), scope="row"), *cells)


def _class(title: str) -> str | None:
    return "n" if title in NUMBERS else {"Protocol": "how", "By seed": "s"}.get(title)


def facts(comparison: Comparison, record: RunRecord) -> dict[str, str]:
    """What there is to know of a run besides its numbers, each by its title."""
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
        "Command": tag("code", record.command.replace(f"--seed {record.seed}", "--seed SEED")),
        "Data": _data(record.data),
        "Versions": text.mapping(dict(record.versions)),
        "Configuration": record.config_hash[:8],
        "Code": (record.code_sha256 or text.NOTHING)[:12],
        "Checkpoint": (record.checkpoint_sha256 or text.NOTHING)[:12],
        "Outputs": (record.outputs_sha256 or text.NOTHING)[:12],
        "W&B": outside(record.wandb_url) if record.wandb_url else text.NOTHING,
    }


def _data(data: dict[str, Any]) -> str:
    """The name of the data, how much there is of each split, and their hash."""
    counts = data.get("counts")
    splits = {k: n for k, n in counts.items() if isinstance(n, dict)} if isinstance(counts, dict) else {}
    rest = {k: v for k, v in data.items() if k != "name" and not (splits and k == "counts")}
    if isinstance(rest.get("manifest_sha256"), str):
        rest["manifest_sha256"] = rest["manifest_sha256"][:12]
    said = [
        str(data.get("name", text.NOTHING)),
        *(f"{split}: {text.mapping(n)}" for split, n in splits.items()),
    ]
    return "; ".join([*said, *([text.mapping(rest)] if rest else [])])


def _table(comparison: Comparison, runs: Runs) -> Html:
    """A line per run with that in which it differs, then once what all of them share."""
    said = [facts(comparison, record) for record in runs.records]
    differing = [title for title in said[0] if title in OWN or len({f[title] for f in said}) > 1]
    rows = [_run(record, found, differing) for record, found in zip(runs.records, said, strict=True)]
    shared = {
        title: value for title, value in said[0].items() if title not in differing and value != text.NOTHING
    }
    terms = [tag("div", tag("dt", title), tag("dd", value)) for title, value in shared.items()]
    name = f"Runs of {runs.experiment} at scale {runs.scale}"
    grid = scroll(name, columns(["Run", *differing], NUMBERS), tag("tbody", *rows))
    return join([grid, tag("dl", *terms, cls="facts")])


def _run(record: RunRecord, found: dict[str, str], titles: list[str]) -> Html:
    place = anchors.run(record)
    cells = [tag("td", found[title], cls=_class(title)) for title in titles]
    return tag(
        "tr", tag("th", tag("a", f"seed {record.seed}", href=f"#{place}"), scope="row"), *cells, id=place
    )


def _deviations(records: tuple[RunRecord, ...]) -> Html:
    said = dict.fromkeys(deviation for record in records for deviation in record.deviations)
    if not said:
        return Html()
    return join([tag("h5", "Deviations from the paper"), bullets(list(said), "notes")])


def _configurations(records: tuple[RunRecord, ...]) -> Html:
    """Each configuration once, however many runs had it."""
    seeds: dict[tuple[str, str], list[str]] = {}
    for record in records:
        seeds.setdefault((record.config_hash[:8], as_yaml(record.config)), []).append(str(record.seed))
    folds = []
    for (digits, lines), those in seeds.items():
        title = f"Configuration {digits} of seed{'s' if len(those) > 1 else ''} {', '.join(those)}"
        folds.append(
            tag("details", tag("summary", title), tag("pre", verbatim(lines), tabindex=0), cls="config")
        )
    return join(folds)
