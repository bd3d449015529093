"""Ordering claims: the verdict, and our rows in the order of the paper with their intervals."""

from repro.report import text
from repro.report.claims import Claim, Standing
from repro.report.claims_document import remarks
from repro.report.published import Paper
from repro.report.site import anchors, badges, strips
from repro.report.site.html import Html, bullets, columns, join, scroll, tag
from repro.report.site.material import Material
from repro.report.statistics import Estimate

HEADER = ("Claim", "Scale", "Verdict", "Best first, as published", "Remarks")
HOW = (
    "Rows in the order of the paper, best first, with our mean ± 95 % t-interval and n. Reduced scales are compared "
    "with each other only, never with the paper's numbers. A hollow mark is a single run, which says nothing of the "
    "spread."
)


def claims(material: Material, paper: Paper) -> Html:
    """The claims of one paper, each at every scale that has recipes for it."""
    found = sorted(
        material.claims_of(paper), key=lambda c: (c.verdict not in badges.CLAIMS, badges.rank(c.verdict))
    )
    if not found:
        return Html()
    body = tag("tbody", *(_claim(claim) for claim in found))
    return tag(
        "section",
        tag("h3", "Ordering claims"),
        tag("p", HOW, cls="meta"),
        scroll(f"Ordering claims of {paper.title}", columns(HEADER, frozenset()), body, cls="claims"),
        id=f"claims-{anchors.slug(paper.key)}",
        data_box=True,
    )


def _claim(claim: Claim) -> Html:
    table = claim.paper.tables[claim.trend.table]
    source = tag("a", f"{table.number}, {claim.trend.metric}", href=f"#{anchors.table(claim.paper, table)}")
    ours = (
        tag("small", f"Part of the paper's order, declared {claim.trend.ours}")
        if claim.trend.ours
        else Html()
    )
    return tag(
        "tr",
        tag("th", claim.trend.claim, tag("small", source), ours, scope="row"),
        tag("td", claim.scale or text.NOTHING),
        tag("td", badges.badge(claim.verdict)),
        tag("td", _standings(claim)),
        tag("td", bullets(remarks(claim), "marks")),
        id=anchors.claim(claim),
        data_k="c",
        data_v=badges.key(claim.verdict),
        data_s=claim.scale or False,
    )


def _standings(claim: Claim) -> Html:
    """A line per row that was measured, all on one axis; the whole order above them where rows are missing."""
    order = tag("div", " > ".join(s.row for s in claim.standings), cls="meta")
    found = [(s, s.estimate) for s in claim.standings if s.estimate]
    if not found:
        return order
    span = strips.span_of([best for _, best in found])
    lines = [tag("li", *_standing(s, best, span if len(found) > 1 else None)) for s, best in found]
    return join([order if len(found) < len(claim.standings) else Html(), tag("ol", *lines, cls="standings")])


def _standing(standing: Standing, best: Estimate, span: strips.Span | None) -> list[Html]:
    drawn = strips.interval(best, span) if span else tag("span")
    number = f"{text.plus_minus(best)} (n = {best.n})"
    wanted = standing.sample.wanted if standing.sample else None
    place = f"#{anchors.runs(wanted.experiment, wanted.scale)}" if wanted else None
    return [tag("span", standing.row, cls="who"), drawn, tag("a", number, href=place)]
