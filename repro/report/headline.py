"""The few lines that a reader wants first: what holds, paper by paper. For the README and the page."""

from collections import Counter

from repro.record import Measurement, RunRecord
from repro.report import text
from repro.report.blocks import Bullets, Document, Grid, Paragraph
from repro.report.claims import Claim
from repro.report.compare import Comparison, Entry
from repro.report.documents import measurements, some_seeds
from repro.report.intervals import Estimate, estimate
from repro.report.published import Paper

_SHOWN = ("reproduced", "near", "gap", "reduced scale", "not run", "no config")
_MOST = 12


def headline(comparison: Comparison, claims: list[Claim]) -> Document:
    """Counts per paper, our numbers at paper scale, then (labelled) the runs at reduced scale."""
    document: Document = [_counts(comparison, claims)]
    ours = _ours(comparison)
    if ours.rows:
        document += [Paragraph("Measured at paper scale:"), ours]
    else:
        document.append(Paragraph("No run at paper scale has been recorded yet."))
    reduced = _reduced(comparison)
    if reduced:
        document.append(Paragraph("Runs at reduced scale, not comparable with the papers' rows:"))
        document.append(Bullets(tuple(reduced[:_MOST])))
        if len(reduced) > _MOST:
            document.append(Paragraph(f"{len(reduced) - _MOST} more stand in the tables."))
    return document


def _counts(comparison: Comparison, claims: list[Claim]) -> Grid:
    header = (
        "Paper",
        "Numbers",
        *(word.capitalize() for word in _SHOWN),
        "Claims: hold / do not / undecided",
    )
    rows = []
    for paper in comparison.papers:
        own = counted(comparison, paper)
        found = Counter(e.verdict for e in own)
        said = Counter(c.verdict for c in claims if c.paper is paper)
        decided = " / ".join(str(said[v]) for v in ("holds", "does not", "undecided"))
        rows.append((paper.title, str(len(own)), *(str(found[word]) for word in _SHOWN), decided))
    return Grid(header, tuple(rows), frozenset(range(1, len(header))))


def counted(comparison: Comparison, paper: Paper) -> list[Entry]:
    """The published numbers that a paper must be held to: not others' reruns, nor others' systems without a recipe."""
    numbers = [e for e in comparison.of(paper) if e.published is not None and not e.table.third_party]
    return [e for e in numbers if e.row.is_this_papers_model or e.cells]


def measured_at_paper_scale(comparison: Comparison) -> list[Entry]:
    """The published metrics for which there is a number of ours."""
    return [e for e in comparison.entries.values() if e.metric and any(cell.estimate for cell in e.ours)]


def _ours(comparison: Comparison) -> Grid:
    header = ("Row", "Metric", "Paper", "Ours", "n", "Difference", "Verdict")
    rows = []
    for entry in measured_at_paper_scale(comparison):
        cell = next(c for c in entry.ours if c.estimate)
        assert cell.estimate is not None
        assert entry.metric is not None
        where = f"{entry.row.label} ({entry.paper.key}, {entry.table.number})"
        published = text.printed(entry.published) + (" (unconfirmed)" if entry.unconfirmed else "")
        change = text.signed(cell.difference, text.digits_after(cell.estimate.mean))
        numbers = (published, text.plus_minus(cell.estimate), str(cell.estimate.n), change)
        verdict = cell.verdict + (" (see notes)" if cell.notes else "")
        rows.append((where, f"{entry.metric.name} ({entry.metric.unit})", *numbers, verdict))
    return Grid(header, tuple(rows), frozenset(range(2, 6)))


def _reduced(comparison: Comparison) -> list[str]:
    """One line per experiment and reduced scale: the scores that its recipe names."""
    lines = []
    for (experiment, scale), selection in comparison.selections.items():
        if scale == "paper" or not selection.used:
            continue
        wanted = named(selection.used[0])
        scores = [
            " ".join([_score(group[0][1], best), *(f"({m})" for m in some_seeds(group, selection.used))])
            for group in measurements(selection.used)
            if group[0][1].name in wanted
            for best in [estimate([m.value for _, m in group])]
        ]
        n, weak = len(selection.used), selection.weaknesses
        marks = f" ({'; '.join(weak)})" if weak else ""
        lines.append(
            f"{experiment}, scale {scale}, {text.plural(n, 'seed')}: {'; '.join(scores) or 'no score'}{marks}"
        )
    return lines


def _score(m: Measurement, best: Estimate) -> str:
    where = "" if m.split == "none" else f" on {m.split}"
    return f"{m.name} {text.plus_minus(best)} {m.unit}{where}"


def named(record: RunRecord) -> set[str]:
    """The measurements that a recipe holds against a row or a claim; without one, the first of its test."""
    cells = [*(record.config.get("reproduces") or ()), *(record.config.get("supports") or ())]
    names = {str(cell["measured"]) for cell in cells if cell.get("measured")}
    there = [m.name for m in record.metrics]
    return names & set(there) or set([name for name in there if name.startswith("test/")][:1])
