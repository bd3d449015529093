"""One section per paper: its tables, claims, figures and runs."""

from repro.report.figures import CURVES, DRAWN, KINDS, MEMORIES, Plot
from repro.report.published import Paper
from repro.report.site import anchors, claims, figures, runs, tables
from repro.report.site.html import Html, bullets, join, outside, tag
from repro.report.site.material import Material


def section(material: Material, paper: Paper) -> Html:
    """All there is of one paper."""
    place = anchors.slug(paper.key)
    return tag(
        "section",
        tag("h2", paper.title),
        _citation(paper),
        tag(
            "section",
            tag("h3", "Published tables"),
            *(tables.table(material, paper, one) for one in paper.tables.values()),
            data_box=True,
        ),
        claims.claims(material, paper),
        _figures(material, paper),
        runs.section(material, paper),
        _missing(paper),
        id=anchors.paper(paper.key),
        data_paper=place,
        cls="paper",
    )


def _citation(paper: Paper) -> Html:
    venue = paper.venue if str(paper.year) in paper.venue else f"{paper.venue}, {paper.year}"
    said = f"{', '.join(paper.authors)}. {venue}. "
    return tag("p", said, outside(paper.url), f" Published numbers: {paper.version_used}.", cls="meta")


def _figures(material: Material, paper: Paper) -> Html:
    """Figures of several experiments; those of a single one stand with its runs."""
    parts = []
    for kind, how in KINDS.items():
        here = [plot for plot in material.plots_of(paper) if plot.kind == kind]
        if here and kind not in (CURVES, DRAWN, MEMORIES):
            parts += [tag("h4", kind), tag("p", how, cls="meta"), *map(_figure, here)]
    if not parts:
        return Html()
    return tag("section", tag("h3", "Figures"), join(parts), data_box=True)


def _figure(plot: Plot) -> Html:
    return figures.figure(plot, data_k="f", data_s=plot.name.removesuffix(".svg").rpartition("--")[2])


def _missing(paper: Paper) -> Html:
    if not paper.missing:
        return Html()
    return tag(
        "section", tag("h3", "Not in the published file"), bullets(paper.missing, "notes"), data_box=True
    )
