"""The rungs of evidence for each paper in one line, from the same function to the same number."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from repro.evidence.compare import Comparison
from repro.evidence.declared.outcomes import ORDERS, WAITING, Tested
from repro.evidence.entries import Entry
from repro.evidence.official import CodeComparison, Size, largest
from repro.evidence.published import Paper
from repro.grouping import grouped

JUDGED = ("reproduced", "higher", "lower", "open", "at chance", "short budget")
SEEDS = 3  # of each experiment that is still to be run


@dataclass(frozen=True)
class Rungs:
    """The rungs of a paper.

    Attributes:
        cases: comparisons of outputs and gradients with a published code, under the same weights.
        function: the largest difference of an output or a gradient; None without a case.
        runs, updates: training runs that were compared with the loop of a published code, and their updates.
        by_authors: whether the code of some of these runs is the authors' own, not a reimplementation.
        losses, weights: the largest differences of a loss and of a final weight; None without a run.
        sizes: published parameter counts with a recipe; ``equal`` agree, ``explained`` differ for a known reason.
        tests: tests by verdict, as of :func:`summarised`.
        checks: checks of the code whose outcome agrees with the paper, and all that have records.
        counted: published numbers that the paper is held to.
        numbers: counted numbers by verdict; those without one are left out.
        gpu_hours: price of the counted numbers that have no run, with three seeds; None where a recipe states no hours.
    """

    paper: str
    cases: int
    function: float | None
    runs: int
    updates: int
    by_authors: bool
    losses: float | None
    weights: float | None
    sizes: int
    equal: int
    explained: int
    tests: dict[str, int]
    checks: tuple[int, int]
    counted: int
    numbers: dict[str, int]
    gpu_hours: float | None


def rungs(
    comparison: Comparison,
    paper: Paper,
    met: Sequence[CodeComparison],
    sizes: Sequence[Size],
    tested: Sequence[Tested],
) -> Rungs:
    """The rungs of a paper.

    Args:
        comparison: numbers and records.
        paper: the paper.
        met: all comparisons with official codes.
        sizes: all comparisons of parameter counts.
        tested: outcomes of the paper's tests.
    """
    mine = [one for one in met if one.paper == paper.key]
    passes, runs = [one for one in mine if not one.updates], [one for one in mine if one.updates]
    counts = [size for size in sizes if size.paper == paper.key]
    checks = [t for t in tested if t.is_check and t.verdict in ORDERS]
    own = [entry for entry in comparison.entries_of(paper) if entry.is_counted]
    verdicts = Counter(entry.verdict for entry in own)
    return Rungs(
        paper=paper.key,
        cases=len(passes),
        function=largest(passes, "outputs", "gradients"),
        runs=len(runs),
        updates=sum(one.updates for one in runs),
        by_authors=any(_is_official(one, paper) for one in runs),
        losses=largest(runs, "losses"),
        weights=largest(runs, "weights"),
        sizes=len(counts),
        equal=sum(size.agrees for size in counts),
        explained=sum(not size.agrees and size.explanation is not None for size in counts),
        tests=dict(Counter(t.verdict for t in summarised(tested))),
        checks=(sum(t.verdict == "same order" for t in checks), len(checks)),
        counted=len(own),
        numbers={word: verdicts[word] for word in JUDGED if verdicts[word]},
        gpu_hours=_price(comparison, own),
    )


def summarised(tested: Iterable[Tested]) -> list[Tested]:
    """Every fair test, every declared one whose runs are missing, and of a claim without these its last attempt.

    A later fair attempt does not replace an earlier one: both are counted. Checks of the code are left out.
    """
    attempts = grouped((one.test.claim, one) for one in tested if not one.is_check)
    shown: list[Tested] = []
    for tried in attempts.values():
        shown += [one for one in tried if one.counts or one.verdict in WAITING] or tried[-1:]
    return shown


def _is_official(comparison: CodeComparison, paper: Paper) -> bool:
    """Checks whether one of the compared repositories is the authors' own."""
    official = {url.partition("github.com/")[2] for url in paper.about.official_code}
    return any(code.partition("@")[0] in official for code in comparison.codes)


def _price(comparison: Comparison, entries: Iterable[Entry]) -> float | None:
    """GPU hours of the experiments behind numbers that no run has measured."""
    names = {cell.goal.experiment for e in entries if e.verdict not in JUDGED for cell in e.cells[:1]}
    prices = []
    for name in sorted(names):
        config = comparison.recipes[name, "paper"].config
        if "hours" not in config:
            return None
        prices.append(config["hours"] * max(1, config.get("devices", 0)) * SEEDS)
    return sum(prices)
