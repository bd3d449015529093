"""Published tables, with ours below each row."""

from urllib.parse import quote

from repro.recipe import SCALES
from repro.report import text
from repro.report.compare import Cell, Entry
from repro.report.documents import judged
from repro.report.published import Metric, Paper, Row, Table
from repro.report.site import anchors, badges
from repro.report.site.html import Html, bullets, join, scroll, tag
from repro.report.site.material import Material

FEW = 2  # so many recipes of a row are listed at once; more fold
FORMATS = (("csv", "CSV"), ("tex", "LaTeX"), ("md", "Markdown"))


def table(material: Material, paper: Paper, one: Table) -> Html:
    """One table; it is open where something of it was measured."""
    entries = [e for e in material.comparison.of(paper) if e.table is one]
    alike = _alike(entries)
    rows = [
        _row(material, paper, one, row, [e for e in entries if e.row is row], alike)
        for row in one.rows.values()
    ]
    name = f"{one.number}: {one.title}"
    said = [f"No run measures {', '.join(names)}: {why}." for why, names in _by_reason(alike).items()]
    notes = [*said, *_descriptions(one), *([one.notes] if one.notes else [])]
    return tag(
        "details",
        tag("summary", tag("h4", name), _counts(entries)),
        _about(paper, one),
        scroll(name, _header(one), *rows),
        bullets(notes, "notes"),
        id=anchors.table(paper, one),
        cls="table",
        data_box=True,
        open=any(cell.estimate for entry in entries for cell in entry.cells),
    )


def _descriptions(one: Table) -> list[str]:
    """What the metrics are; those that are the same of different data share a line."""
    found: dict[str, list[str]] = {}
    for m in one.metrics.values():
        found.setdefault(f"{m.description}. {judged(m)}", []).append(m.name)
    return [f"{', '.join(names)}: {description}" for description, names in found.items()]


def _alike(entries: list[Entry]) -> dict[str, str]:
    """The metrics that no recipe measures, for one reason in all rows: it is said once, below the table."""
    reasons: dict[str, set[str | None]] = {}
    for entry in entries:
        reasons.setdefault(entry.metric.name if entry.metric else "", set()).add(entry.reason)
    return {name: why for name, found in reasons.items() if len(found) == 1 for why in found if name and why}


def _by_reason(alike: dict[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, why in alike.items():
        found.setdefault(why, []).append(name)
    return found


def _counts(entries: list[Entry]) -> Html:
    """How many numbers have which verdict, for a table that is folded."""
    found = [entry.verdict for entry in entries]
    counts = [f"{found.count(v)} {v}" for v in sorted(set(found), key=badges.rank)]
    return tag("span", ", ".join(counts) or "no numbers", cls="sum")


def _about(paper: Paper, one: Table) -> Html:
    source = "Published by others, not by the paper. " if one.third_party else ""
    said = f"{source}Data: {one.dataset}; split: {one.split}. Checked: {one.checked}. "
    return tag("p", said, downloads(paper), cls="meta")


def downloads(paper: Paper) -> Html:
    """The paper's tables in the other formats."""
    links = [tag("a", name, href=f"tables/{quote(paper.key)}.{suffix}") for suffix, name in FORMATS]
    return tag("span", "All tables of the paper as ", join(links, ", "), cls="files")


def _header(one: Table) -> Html:
    metrics = [
        tag("th", tag("span", m.name), tag("small", f"{m.unit} {_arrow(m)}"), scope="col", cls="n")
        for m in one.metrics.values()
    ]
    first, last = (tag("th", word, scope="col") for word in ("Row", "Verdict, runs, remarks"))
    return tag("thead", tag("tr", first, *metrics, last))


def _arrow(metric: Metric) -> str:
    return "↑" if metric.better == "higher" else "↓"


def _row(
    material: Material, paper: Paper, one: Table, row: Row, entries: list[Entry], alike: dict[str, str]
) -> Html:
    """A published row and ours below it: one group of lines, which a filter shows or hides together."""
    found = [c for e in entries for c in e.cells if c.estimate]
    experiments = dict.fromkeys(c.goal.experiment for e in entries for c in e.ours if c.estimate)
    metrics = list(one.metrics.values())
    return tag(
        "tbody",
        _published(material, one, row, entries, alike),
        *(_ours(material, experiment, metrics, entries) for experiment in experiments),
        id=anchors.row(paper, one, row),
        data_k="r",
        data_v=badges.keys({e.verdict for e in entries}),
        data_s=" ".join(scale for scale in SCALES if scale in {c.goal.scale for c in found}) or None,
    )


def _published(material: Material, one: Table, row: Row, entries: list[Entry], alike: dict[str, str]) -> Html:
    """The paper's numbers. Those without one of ours below say why; all at once where they agree in that."""
    by_name = {e.metric.name: e for e in entries if e.metric}
    missing = [e for e in entries if not any(cell.estimate for cell in e.ours)]
    agree = len(missing) == len(entries) and len({(e.verdict, e.reason) for e in entries}) == 1
    values = []
    for m in one.metrics.values():
        mark = badges.mark("unconfirmed") if m.name in row.unconfirmed else Html()
        entry = by_name.get(m.name)
        why = _verdict(material, entry) if entry in missing and not agree and m.name not in alike else Html()
        values.append(tag("td", text.printed(row.values.get(m.name)), mark, why, cls="n"))
    said = [badges.badge(missing[0].verdict)] if agree else []
    return tag(
        "tr",
        tag("th", row.label, _parameters([row.params]), scope="row"),
        *values,
        tag("td", *said, *_remarks(material, missing, agree, alike)),
    )


def _parameters(counts: list[int] | list[int | None]) -> Html:
    said = " or ".join(text.count(n) for n in counts if n is not None)
    return tag("small", f"{said} parameters") if said else Html()


def _verdict(material: Material, entry: Entry | None) -> Html:
    """The verdict of one number, leading to the runs that there are."""
    if entry is None:
        return Html()
    sign = badges.badge(entry.verdict)
    return tag("a", sign, href=f"#{anchors.runs_of(entry.reduced[0])}") if entry.reduced else sign


def _remarks(material: Material, missing: list[Entry], agree: bool, alike: dict[str, str]) -> list[Html]:
    """Reasons, recipes and runs of the numbers without one of ours, and what weakens these."""
    reasons: dict[str, list[str]] = {}
    for entry in missing:
        name = entry.metric.name if entry.metric else ""
        if entry.reason and name not in alike:
            reasons.setdefault(entry.reason, []).append(name)
    parts = [
        tag("span", f" {why}" if agree else f"{', '.join(names)}: {why}", cls="why")
        for why, names in reasons.items()
    ]
    cells = [cell for entry in missing for cell in (entry.reduced or entry.cells)]
    links = list(dict.fromkeys(_runs_link(material, cell) for cell in cells))
    listed = join(links, ", ")
    if len(links) > FEW:
        parts.append(tag("details", tag("summary", f"{len(links)} recipes"), listed, cls="recipes"))
    elif links:
        parts.append(tag("div", listed, cls="recipes"))
    weak: dict[Html, list[str]] = {}
    for cell in cells:
        if cell.notes:
            weak.setdefault(bullets(cell.notes, "marks"), []).append(_short(cell))
    for said, names in weak.items():
        those = Html() if len(links) == 1 else tag("span", f"{', '.join(dict.fromkeys(names))}:", cls="what")
        parts.append(join([those, said]))
    return parts


def _short(cell: Cell) -> str:
    """The recipe without the paper, in whose section it stands; its scale where that is a reduced one."""
    scale = "" if cell.goal.scale == "paper" else f" ({cell.goal.scale})"
    return cell.goal.experiment.partition("/")[2] + scale


def _runs_link(material: Material, cell: Cell) -> Html:
    words = _short(cell)
    return (
        tag("a", words, href=f"#{anchors.runs_of(cell)}") if material.has_runs(cell) else tag("span", words)
    )


def marks(cell: Cell) -> Html:
    """What weakens a cell."""
    return bullets(cell.notes, "marks")


def _ours(material: Material, experiment: str, metrics: list[Metric], entries: list[Entry]) -> Html:
    """Our numbers of one experiment at the paper's scale, each leading to its runs."""
    cells = {e.metric.name: c for e in entries if e.metric for c in e.ours if c.goal.experiment == experiment}
    records = {id(r): r for c in cells.values() for r in c.sample.records}.values()
    parameters = sorted({r.parameters for r in records})
    weak: dict[Html, list[str]] = {}
    for name, cell in cells.items():
        if cell.notes:
            weak.setdefault(marks(cell), []).append(name)
    remarks = [
        join([tag("span", f"{', '.join(names)}:", cls="what") if len(cells) > 1 else Html(), said])
        for said, names in weak.items()
    ]
    goal = next(iter(cells.values()))
    return tag(
        "tr",
        tag("th", "ours: ", _runs_link(material, goal), _parameters(parameters), scope="row"),
        *(measured(cells.get(m.name)) for m in metrics),
        tag("td", *remarks),
        cls="ours",
    )


def measured(cell: Cell | None) -> Html:
    """One number of ours with n, its difference from the published one, and its verdict."""
    if cell is None or cell.estimate is None:
        return tag("td", text.NOTHING, cls="n")
    change = text.signed(cell.difference, text.digits_after(cell.estimate.mean))
    apart = f"n = {cell.estimate.n}" + (f", {change}" if cell.difference is not None else "")
    number = tag("a", text.plus_minus(cell.estimate), href=f"#{anchors.runs_of(cell)}")
    why = tag("small", cell.why) if cell.why else Html()
    return tag("td", number, tag("small", apart), badges.badge(cell.verdict), why, cls="n")
