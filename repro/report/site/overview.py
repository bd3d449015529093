"""What a reader wants first: how much of each paper holds, what was measured at its scale, which claims are decided."""

from repro.report import text
from repro.report.blocks import Grid, Heading, Paragraph
from repro.report.compare import Cell, Entry
from repro.report.documents import verified_records
from repro.report.headline import asides, claim_counts, counted, trained
from repro.report.published import Paper
from repro.report.site import anchors, badges, strips
from repro.report.site.html import Html, bullets, columns, join, scroll, tag
from repro.report.site.material import Material
from repro.report.site.tables import marks, measured

SHOWN = (
    "reproduced", "better", "worse", "undecided", "at chance", "short budget", "reduced scale", "not run", "no recipe",
)  # fmt: skip


def overview(material: Material) -> Html:
    """The part above the papers."""
    return tag(
        "section",
        tag("h2", "Overview"),
        _said(material),
        _papers(material),
        _measured(material),
        _claims(material),
        _verified(material),
        tag("section", tag("h3", "How to read the verdicts"), badges.legend(), id="legend"),
        id="overview",
    )


def _said(material: Material) -> Html:
    records = material.comparison.records
    numbers = sum(len(counted(material.comparison, paper)) for paper in material.comparison.papers)
    latest = max((record.finished[:10] for record in records), default="")
    said = (
        f"{text.plural(len(material.comparison.papers), 'paper')}, {text.count(numbers)} counted numbers, "
        f"{text.plural(len(material.claims), 'ordering claim')} to check, {text.plural(len(records), 'recorded run')}"
    )
    return tag("p", said + (f", the latest of {latest}." if latest else "."), cls="lead")


def _papers(material: Material) -> Html:
    titles = [tag("th", "Paper", scope="col"), tag("th", "Numbers", scope="col", cls="n")]
    titles += [tag("th", badges.badge(word), scope="col", cls="n") for word in (*SHOWN, *badges.CLAIMS)]
    groups = tag(
        "tr",
        tag("td", colspan=2),
        tag("th", "Counted numbers that are", scope="colgroup", colspan=len(SHOWN)),
        tag("th", "Claims, at any scale", scope="colgroup", colspan=len(badges.CLAIMS)),
        cls="groups",
    )
    rows = [_paper(material, paper) for paper in material.comparison.papers]
    head = tag("thead", groups, tag("tr", *titles))
    return scroll("Numbers and claims of each paper by verdict", head, tag("tbody", *rows), cls="counts")


def _paper(material: Material, paper: Paper) -> Html:
    own = counted(material.comparison, paper)
    found = [(word, sum(e.verdict == word for e in own)) for word in SHOWN]
    found += claim_counts(material.claims_of(paper))
    cells = [tag("td", _filtered(paper, word, n), cls="n") for word, n in found]
    title = tag("th", tag("a", paper.title, href=f"#{anchors.paper(paper.key)}"), scope="row")
    return tag("tr", title, tag("td", str(len(own)), cls="n"), *cells)


def _filtered(paper: Paper, verdict: str, n: int) -> Html:
    """A count that leads to what it counts."""
    if not n:
        return tag("span", "0", cls="zero")
    return tag("a", str(n), href=f"#?paper={anchors.slug(paper.key)}&verdict={badges.key(verdict)}")


def _measured(material: Material) -> Html:
    found = trained(material.comparison)
    others = bullets(asides(material.comparison), "notes")
    if not found:
        return join([tag("p", "No counted result at the paper's scale has been recorded yet."), others])
    titles = ("Row", "Metric", "Published", "Ours", "Distance in margins", "Remarks")
    name, head = "Trained results at the paper's scale", columns(titles, frozenset({"Published", "Ours"}))
    how = "The tick is the published number, the band its margin, the bar our 95 % interval; arrows point beyond 4."
    rows = [_entry(entry, cell) for entry, cell in found]
    return join([tag("h3", name), tag("p", how, cls="meta"), scroll(name, head, tag("tbody", *rows)), others])


def _entry(entry: Entry, cell: Cell) -> Html:
    place = tag("a", entry.row.label, href=f"#{anchors.row(entry.paper, entry.table, entry.row)}")
    where = tag("small", f"{entry.paper.title}, {entry.table.number}")
    metric = f"{entry.metric.name} ({entry.metric.unit})" if entry.metric else ""
    mark = badges.mark("unconfirmed") if entry.unconfirmed else Html()
    return tag(
        "tr",
        tag("th", place, where, scope="row"),
        tag("td", metric),
        tag("td", text.printed(entry.published), mark, cls="n"),
        measured(cell),
        tag("td", strips.difference(entry, cell)),
        tag("td", marks(cell)),
    )


def _claims(material: Material) -> Html:
    decided = [c for c in material.claims if c.is_counted and c.verdict in ("holds", "does not")]
    if not decided:
        return Html()
    items = []
    for claim in sorted(decided, key=lambda c: badges.rank(c.verdict)):
        link = tag("a", claim.trend.claim, href=f"#{anchors.claim(claim)}")
        small = tag("small", f"{claim.paper.title}, {_scaled(claim.scale)}")
        items.append(tag("li", badges.badge(claim.verdict), tag("span", link, small)))
    return join([tag("h3", "Claims that are decided"), tag("ul", *items, cls="decided")])


def _verified(material: Material) -> Html:
    found = verified_records(material.comparison)
    if not found:
        return Html()
    title, how, grid = found
    assert isinstance(title, Heading)
    assert isinstance(how, Paragraph)
    assert isinstance(grid, Grid)
    rows = [tag("tr", *(tag("td", cell) for cell in row)) for row in grid.rows]
    body = scroll(title.text, columns(grid.header, frozenset()), tag("tbody", *rows))
    return join([tag("h3", title.text), tag("p", how.text, cls="meta"), body])


def _scaled(scale: str | None) -> str:
    return "paper scale" if scale == "paper" else f"reduced scale: {scale}"
