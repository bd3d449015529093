"""The verdicts of each paper: the summary in the README, and the overview with every result."""

from collections import Counter

from repro import text
from repro.evidence.claims import DECIDED as DECIDED_CLAIMS
from repro.evidence.claims import Claim
from repro.evidence.compare import Comparison
from repro.evidence.entries import DECIDED, Cell, Entry
from repro.evidence.published import Paper
from repro.record import RunRecord
from repro.report.formats.blocks import Bullets, Document, Grid, Paragraph
from repro.report.formats.claims_document import basis

JUDGED = (*DECIDED, "undecided")
CLAIMS = ("holds", "does not", "undecided", "incomplete", "out of reach")


def summary(comparison: Comparison, claims: list[Claim]) -> Document:
    """Counts per paper: one line each."""
    return [Paragraph(COUNTS), _counts(comparison, claims)]


def headline(comparison: Comparison, claims: list[Claim]) -> Document:
    """The summary, trained results at paper scale, a line for each other class of numbers, decided claims."""
    document = summary(comparison, claims)
    ours = trained(comparison)
    if ours:
        document += [Paragraph("Trained results at the paper's scale:"), _grid(ours)]
    else:
        document.append(Paragraph("No counted result at the paper's scale has been recorded yet."))
    others = asides(comparison)
    document += [Bullets(tuple(others))] if others else []
    decided = [c for c in claims if c.is_counted and c.verdict in DECIDED_CLAIMS]
    if decided:
        lines = [f"{c.verdict}: {c.trend.claim} ({c.paper.key}, {basis(c)})" for c in decided]
        document += [Paragraph("Claims that are decided, mechanism checks left out:"), Bullets(tuple(lines))]
    return document


def totals(comparison: Comparison) -> str:
    """The counts of all papers together, in a sentence."""
    own = [entry for paper in comparison.papers for entry in counted(comparison, paper)]
    verdicts = Counter(entry.verdict for entry in own)
    words = ", ".join(f"{verdicts[word]} {word}" for word in JUDGED)
    return (
        f"Numbers at the papers' own scale: {len(own)} counted, of these {words}. "
        "The others have no such verdict; most were not run at that scale."
    )


COUNTS = (
    "Counted: confirmed scores of models that the authors trained and whose configuration is public, each measurement "
    "once. Verdicts compare runs at the paper's scale only. A claim is an order of rows; smaller runs can test it."
)


def _counts(comparison: Comparison, claims: list[Claim]) -> Grid:
    header = (
        "Paper",
        "Counted",
        *(word.capitalize() for word in JUDGED),
        "Claims at each scale: hold / do not hold / undecided / incomplete / out of reach",
    )
    rows = []
    for paper in comparison.papers:
        own = counted(comparison, paper)
        verdicts = Counter(e.verdict for e in own)
        decisions = claim_counts([c for c in claims if c.paper is paper])
        decided = " / ".join(str(n) for _, n in decisions)
        rows.append((paper.title, str(len(own)), *(str(verdicts[word]) for word in JUDGED), decided))
    return Grid(header, tuple(rows), frozenset(range(1, len(header))))


def claim_counts(claims: list[Claim]) -> list[tuple[str, int]]:
    """The number of counted claims by verdict."""
    return [(word, sum(c.verdict == word and c.is_counted for c in claims)) for word in CLAIMS]


def counted(comparison: Comparison, paper: Paper) -> list[Entry]:
    """The published numbers that a paper is held to."""
    return [entry for entry in comparison.of(paper) if entry.is_counted]


def trained(comparison: Comparison) -> list[tuple[Entry, Cell]]:
    """The counted numbers with a verdict, and our cell of each."""
    return [(e, cell) for e, cell in measured(comparison) if e.is_counted and cell.verdict in JUDGED]


def measured(comparison: Comparison) -> list[tuple[Entry, Cell]]:
    """The numbers for which there is one of ours at paper scale, and our cell of each."""
    pairs = []
    for entry in comparison.entries.values():
        cell = next((c for c in entry.ours if c.estimate), None)
        if cell is not None and entry.metric:
            pairs.append((entry, cell))
    return pairs


def _grid(pairs: list[tuple[Entry, Cell]]) -> Grid:
    header = ("Row", "Metric", "Paper", "Ours", "n", "Difference", "Margin", "Verdict")
    rows = []
    for entry, cell in pairs:
        assert cell.estimate is not None
        assert entry.metric is not None
        assert entry.rules is not None
        where = f"{entry.row.label} ({entry.paper.key}, {entry.table.number})"
        change = text.signed(cell.difference, text.digits_after(cell.estimate.mean))
        numbers = (
            text.printed(entry.published),
            text.plus_minus(cell.estimate),
            str(cell.estimate.n),
            change,
        )
        verdict = (
            cell.verdict + (f": {cell.why}" if cell.why else "") + (" (see notes)" if cell.notes else "")
        )
        metric = f"{entry.metric.name} ({entry.metric.unit})"
        rows.append((where, metric, *numbers, str(entry.rules.margin), verdict))
    return Grid(header, tuple(rows), frozenset(range(2, 7)))


def asides(comparison: Comparison) -> list[str]:
    """One line for each class of numbers that are measured and not counted as results."""
    shown = {id(entry) for entry, _ in trained(comparison)}
    groups: dict[str, list[tuple[Entry, Cell]]] = {}
    for entry, cell in measured(comparison):
        if id(entry) not in shown:
            groups.setdefault(_group(entry, cell), []).append((entry, cell))
    return [f"{title}: {_group_line(title, groups[title])}." for title in GROUPS if title in groups]


COMPUTED, TIMED, DERIVED = (
    "Computed from definitions",
    "Timed on our machine, no verdict",
    "Derived, no verdict",
)
CHANCE, SHORT = "At chance, as in the paper", "Short budget"
AGAIN = "Printed in several tables, counted once"
UNCONFIRMED, OURS = "Published number unconfirmed, not counted", "Configuration not published, not counted"
OTHERS, UNPRINTED = "Not the paper's own result, not counted", "Not printed by the paper"
GROUPS = (COMPUTED, TIMED, DERIVED, CHANCE, SHORT, AGAIN, UNCONFIRMED, OURS, OTHERS, UNPRINTED)
LISTED = (CHANCE, SHORT, UNCONFIRMED, OURS)  # groups whose numbers are named one by one

PLURAL = {"agrees": "agree", "differs": "differ"}


def _group(entry: Entry, cell: Cell) -> str:
    rules = entry.rules
    assert rules is not None
    by_verdict = {
        "agrees": COMPUTED,
        "differs": COMPUTED,
        "timed": TIMED,
        "derived": DERIVED,
        "unpublished": UNPRINTED,
    }
    if cell.verdict in by_verdict:
        return by_verdict[cell.verdict]
    if rules.same_as is not None:
        return AGAIN
    if entry.unconfirmed:
        return UNCONFIRMED
    if cell.verdict in ("at chance", "short budget"):
        return CHANCE if cell.verdict == "at chance" else SHORT
    return OURS if rules.configuration == "ours" else OTHERS


def _group_line(title: str, pairs: list[tuple[Entry, Cell]]) -> str:
    """How many numbers a group has, and in which tables; in some groups each number."""
    if title in LISTED:
        return "; ".join(_number(entry, cell) for entry, cell in pairs)
    words = Counter(cell.verdict for _, cell in pairs)
    counts = ", ".join(f"{n} {word if n == 1 else PLURAL.get(word, word)}" for word, n in words.items())
    verdicts = f" ({counts})" if title in (COMPUTED, AGAIN) else ""
    places = dict.fromkeys(f"{entry.paper.key}, {entry.table.number}" for entry, _ in pairs)
    return f"{text.plural(len(pairs), 'number')}{verdicts}: {'; '.join(places)}"


def _number(entry: Entry, cell: Cell) -> str:
    assert entry.metric is not None
    assert cell.estimate is not None
    where = f"{entry.row.label}, {entry.metric.name} ({entry.paper.key}, {entry.table.number})"
    numbers = (
        f"{text.plus_minus(cell.estimate)} beside {text.printed(entry.published)}, n = {cell.estimate.n}"
    )
    return f"{where} {numbers}, {cell.verdict}{f' ({cell.why})' if cell.why else ''}"


def named(record: RunRecord) -> set[str]:
    """The measurements that a recipe compares with a row or a claim; without one, the first of its test."""
    cells = [*(record.config.get("reproduces") or ()), *(record.config.get("supports") or ())]
    names = {str(cell["measured"]) for cell in cells if cell.get("measured")}
    measured = [m.name for m in record.metrics]
    return names & set(measured) or set([name for name in measured if name.startswith("test/")][:1])
