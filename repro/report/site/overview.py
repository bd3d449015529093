"""The overview: how much of each paper holds, the numbers measured at its scale, the decided claims."""

from dataclasses import dataclass

from repro import text
from repro.evidence.entries import Cell, Entry
from repro.evidence.published import Paper
from repro.report.formats.blocks import Grid, Heading, Paragraph
from repro.report.formats.claims_document import basis
from repro.report.formats.documents import verified_records
from repro.report.formats.headline import asides, claim_counts, counted, trained
from repro.report.plots.headlines import headline_name, headline_of, in_order, short_title
from repro.report.plots.plot import Plot
from repro.report.site import anchors, badges, intervals
from repro.report.site.material import Material
from repro.report.site.tables import Link, Number, measured

SHOWN = (
    "reproduced", "better", "worse", "undecided", "at chance", "short budget", "reduced scale", "not run", "no recipe",
)  # fmt: skip


@dataclass(frozen=True)
class PaperLine:
    """The number of numbers and claims of a paper by verdict; each count links to them."""

    title: str
    href: str
    numbers: int
    counts: list[Link]


@dataclass(frozen=True)
class TrainedLine:
    """A trained result at the paper's scale."""

    label: str
    href: str
    where: str
    metric: str
    published: str
    unconfirmed: bool
    number: Number
    strip: intervals.Strip | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PanelView:
    """A paper on the first screen: its headline claim with the verdict, and the figure that shows it, if any."""

    title: str
    year: int
    href: str
    claim: str
    claim_href: str
    verdict: str
    basis: str
    plot: Plot | None


@dataclass(frozen=True)
class Overview:
    """The part above the papers."""

    lead: str
    panels: list[PanelView]
    papers: list[PaperLine]
    trained: list[TrainedLine]
    asides: list[str]
    decided: list[tuple[str, str, str, str]]
    verified: tuple[str, str, Grid] | None


def overview(material: Material) -> Overview:
    """The introduction of the page."""
    return Overview(
        lead=_lead(material),
        panels=_panels(material),
        papers=[_paper(material, paper) for paper in material.comparison.papers],
        trained=[_trained(entry, cell) for entry, cell in trained(material.comparison)],
        asides=asides(material.comparison),
        decided=_decided(material),
        verified=_verified(material),
    )


def _lead(material: Material) -> str:
    records = material.comparison.records
    numbers = sum(len(counted(material.comparison, paper)) for paper in material.comparison.papers)
    latest = max((record.finished[:10] for record in records), default="")
    counts = (
        f"{text.plural(len(material.comparison.papers), 'paper')}, {text.count(numbers)} counted numbers, "
        f"{text.plural(len(material.claims), 'ordering claim')} to check, {text.plural(len(records), 'recorded run')}"
    )
    return counts + (f", the latest of {latest}." if latest else ".")


def _panels(material: Material) -> list[PanelView]:
    plots = {plot.name: plot for plot in material.plots}
    panels = []
    for paper in in_order(material.comparison.papers):
        claim = headline_of(material.claims, paper)
        if claim is not None:
            panels.append(
                PanelView(
                    title=short_title(paper),
                    year=paper.year,
                    href=f"#{anchors.paper(paper.key)}",
                    claim=claim.trend.claim,
                    claim_href=f"#{anchors.claim(claim)}",
                    verdict=claim.verdict,
                    basis=basis(claim),
                    plot=plots.get(headline_name(paper)),
                )
            )
    return panels


def _paper(material: Material, paper: Paper) -> PaperLine:
    own = counted(material.comparison, paper)
    numbers = [(word, sum(e.verdict == word for e in own)) for word in SHOWN]
    numbers += claim_counts(material.claims_of(paper))
    start = f"#?paper={anchors.slug(paper.key)}&verdict="
    counts = [(str(n), f"{start}{badges.key(word)}" if n else "") for word, n in numbers]
    return PaperLine(paper.title, f"#{anchors.paper(paper.key)}", len(own), counts)


def _trained(entry: Entry, cell: Cell) -> TrainedLine:
    return TrainedLine(
        label=entry.row.label,
        href=f"#{anchors.row(entry.paper, entry.table, entry.row)}",
        where=f"{entry.paper.title}, {entry.table.number}",
        metric=f"{entry.metric.name} ({entry.metric.unit})" if entry.metric else "",
        published=text.printed(entry.published),
        unconfirmed=entry.unconfirmed,
        number=measured(cell),
        strip=intervals.difference(entry, cell),
        notes=tuple(cell.notes),
    )


def _decided(material: Material) -> list[tuple[str, str, str, str]]:
    """Verdict, claim, address and place of the claims that count and are decided."""
    decided = [c for c in material.claims if c.is_counted and c.verdict in ("holds", "does not")]
    return [
        (c.verdict, c.trend.claim, f"#{anchors.claim(c)}", f"{c.paper.title}, {_scaled(c.scale)}")
        for c in sorted(decided, key=lambda c: badges.rank(c.verdict))
    ]


def _verified(material: Material) -> tuple[str, str, Grid] | None:
    match verified_records(material.comparison):
        case [Heading(text=title), Paragraph(text=how), Grid() as grid]:
            return title, how, grid
    return None


def _scaled(scale: str | None) -> str:
    return "paper scale" if scale == "paper" else f"reduced scale: {scale}"
