"""The table of ordering claims, independent of its format."""

from repro import text
from repro.evidence.claims import Claim
from repro.report.formats.blocks import Document, Grid, Heading, Paragraph


def claims_document(claims: list[Claim]) -> Document:
    """Every ordering claim at every scale."""
    document: Document = [
        Heading(1, "Ordering claims"),
        Paragraph(
            "Rows in the order of the paper, best first, with our mean ± 95 % t-interval and n. A claim holds where "
            "each row is shown to beat the next (>, one-sided, 5 %), to equal it within the margin where the paper "
            "prints a tie (=), or not to be worse by more than the margin (>=). It does not hold where some pair is "
            "shown to be otherwise (5 % after Holm's correction). A claim that was extended to more seeds is judged at "
            "2.5 %. It is incomplete where a row has no record. docs/results.md gives the rules."
        ),
    ]
    header = ("Claim", "Scale", "Verdict", "Best first, as published", "Remarks")
    for paper in {c.paper.key: c.paper for c in claims}.values():
        own = [c for c in claims if c.paper is paper]
        rows = tuple(
            (_claimed(c), c.scale or text.NOTHING, c.verdict, _standings(c), "; ".join(remarks(c)))
            for c in own
        )
        document += [Heading(2, paper.title), Grid(header, rows)]
    return document


def _claimed(claim: Claim) -> str:
    ours = f" (part of the paper's order, declared {claim.trend.ours})" if claim.trend.ours else ""
    return f"{claim.trend.claim}{ours}"


def remarks(claim: Claim) -> tuple[str, ...]:
    """Remarks on a claim's verdict, first on whether it counts."""
    mechanism = (f"mechanism check, no evidence for the claim: {claim.mechanism}",) if claim.mechanism else ()
    repeats = (f"not counted: the same numbers as {claim.repeats}",) if claim.repeats else ()
    data = (f"data: {', '.join(claim.data)}",) if claim.data and claim.scale != "paper" else ()
    return (*mechanism, *repeats, *data, *claim.notes)


def basis(claim: Claim) -> str:
    """What a verdict rests on: ``n = 3, reduced scale: small, multi30k, mechanism check``."""
    counts = sorted({s.estimate.n for s in claim.standings if s.estimate})
    seeds = f"n = {counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "") if counts else "no records"
    scale = "paper scale" if claim.scale == "paper" else f"reduced scale: {claim.scale}"
    data = ", ".join(claim.data) if claim.scale != "paper" else ""
    parts = (seeds, scale if claim.scale else "", data, "mechanism check" if claim.mechanism else "")
    return ", ".join(filter(None, parts))


def stated(claim: Claim) -> str:
    """A verdict with its basis: ``does not hold (n = 3, paper scale)``."""
    word = "does not hold" if claim.verdict == "does not" else claim.verdict
    return f"{word} ({basis(claim)})"


def _standings(claim: Claim) -> str:
    rows = [
        f"{s.row} {text.plus_minus(s.estimate)} (n = {s.estimate.n})" if s.estimate else s.row
        for s in claim.standings
    ]
    return rows[0] + "".join(f" {is_} {row}" for is_, row in zip(claim.relations, rows[1:], strict=True))
