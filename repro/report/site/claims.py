"""Ordering claims: the verdict, and our rows in the order of the paper with their intervals."""

from dataclasses import dataclass

from repro import text
from repro.evidence.claims import Claim
from repro.evidence.published import Paper
from repro.report.formats.claims_document import remarks
from repro.report.site import anchors, badges, intervals
from repro.report.site.material import Material


@dataclass(frozen=True)
class StandingView:
    """A row of a claim that was measured; its strip is None where it is the only one."""

    row: str
    strip: intervals.Strip | None
    number: str
    href: str


@dataclass(frozen=True)
class ClaimView:
    """A line of the table of claims."""

    id: str
    claim: str
    source: str
    source_href: str
    declared: str
    scale: str
    verdict: str
    order: str
    standings: tuple[StandingView, ...]
    remarks: tuple[str, ...]


def claims(material: Material, paper: Paper) -> list[ClaimView]:
    """The claims of one paper, each at every scale that has recipes for it, decided ones first."""
    ordered = sorted(
        material.claims_of(paper), key=lambda c: (c.verdict not in badges.CLAIMS, badges.rank(c.verdict))
    )
    return [_claim(claim) for claim in ordered]


def _claim(claim: Claim) -> ClaimView:
    table, standings = claim.paper.tables[claim.trend.table], _standings(claim)
    whole = len(standings) == len(claim.standings)  # then the rows themselves show the order
    return ClaimView(
        id=anchors.claim(claim),
        claim=claim.trend.claim,
        source=f"{table.number}, {claim.trend.metric}",
        source_href=f"#{anchors.table(claim.paper, table)}",
        declared=f"Part of the paper's order, declared {claim.trend.ours}" if claim.trend.ours else "",
        scale=claim.scale or "",
        verdict=claim.verdict,
        order="" if whole else " > ".join(s.row for s in claim.standings),
        standings=standings,
        remarks=remarks(claim),
    )


def _standings(claim: Claim) -> tuple[StandingView, ...]:
    """The rows that were measured, all on one axis."""
    measured = [(s, s.estimate) for s in claim.standings if s.estimate]
    if not measured:
        return ()
    span = intervals.span_of([best for _, best in measured])
    views = []
    for standing, best in measured:
        goal = standing.sample.wanted if standing.sample else None
        href = f"#{anchors.runs(goal.experiment, goal.scale)}" if goal else ""
        strip = intervals.interval(best, span) if len(measured) > 1 else None
        views.append(StandingView(standing.row, strip, f"{text.plus_minus(best)} (n = {best.n})", href))
    return tuple(views)
