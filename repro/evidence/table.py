"""All evidence as flat rows: ``results/evidence.json``, the one generated file that every view is made from.

``numbers``
    One row for each published number and each experiment and scale that measured it; a row without ``experiment``
    where none did.
``tests``
    One row for each declared test, every attempt.
``arithmetic``
    One row for each declared test that a cheaper arithmetic gives the same numbers.
``untested``
    Claims without a test, with what they need.
``rungs``
    One row for each paper.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from repro.evidence.compare import Comparison, compare
from repro.evidence.declared.equality import Equality, equalities
from repro.evidence.declared.fair_tests import Tests
from repro.evidence.declared.outcomes import Effect, RowResult, Tested, outcomes
from repro.evidence.entries import Cell, Entry
from repro.evidence.judging.statistics import Estimate
from repro.evidence.official import read_parity, read_sizes
from repro.evidence.published import Paper
from repro.evidence.rungs import Rungs, rungs

FILE = "evidence.json"


@dataclass(frozen=True)
class Evidence:
    """Numbers, tests and rungs of the papers.

    Attributes:
        comparison: published numbers with records.
        files: declared tests, by paper.
        tested: outcomes of the tests, by paper, in the order of the file.
        equal: outcomes of the tests of arithmetic, by paper.
        rungs: by paper.
    """

    comparison: Comparison
    files: Mapping[str, Tests]
    tested: Mapping[str, list[Tested]]
    equal: Mapping[str, list[Equality]]
    rungs: Mapping[str, Rungs]

    @property
    def papers(self) -> list[Paper]:
        """The papers by year."""
        return sorted(self.comparison.papers, key=lambda paper: (paper.about.year, paper.key))

    @property
    def tests(self) -> list[Tested]:
        """The outcomes of all tests."""
        return [one for tested in self.tested.values() for one in tested]

    def test(self, paper: str, name: str) -> Tested | None:
        """Returns a test by its name, ``<claim>/<attempt>``."""
        return next((t for t in self.tested.get(paper, ()) if t.test.name == name), None)


def read_evidence(paper: str | None = None) -> Evidence:
    """Reads and judges records and tests of one paper, or of all."""
    comparison = compare(paper)
    comparisons, sizes = read_parity(), read_sizes()
    files, tested, equal, lines = {}, {}, {}, {}
    for one in comparison.papers:
        files[one.key], tested[one.key] = outcomes(comparison, one)
        equal[one.key] = equalities(comparison, one.key, files[one.key].arithmetic)
        lines[one.key] = rungs(comparison, one, comparisons, sizes, tested[one.key])
    return Evidence(comparison, files, tested, equal, lines)


def table(evidence: Evidence) -> dict[str, list[dict[str, Any]]]:
    """Returns the flat rows by kind."""
    return {
        "numbers": [row for entry in evidence.comparison.entries.values() for row in numbers(entry)],
        "tests": [_test(one) for one in evidence.tests],
        "arithmetic": [_equality(one) for found in evidence.equal.values() for one in found],
        "untested": [
            {"paper": key, "claim": claim, "out_of_reach": reason.out_of_reach, "needs": str(reason)}
            for key, file in evidence.files.items()
            for claim, reason in file.untested.items()
        ],
        "rungs": [asdict(line) for line in evidence.rungs.values()],
    }


def as_json(flat: Mapping[str, list[dict[str, Any]]]) -> str:
    """Returns the content of ``results/evidence.json``, one row a line, from the rows of :func:`table`."""
    lines = {kind: ",\n".join(map(json.dumps, rows)) for kind, rows in flat.items()}
    return "{\n" + ",\n".join(f'"{kind}": [\n{rows}\n]' for kind, rows in lines.items()) + "\n}\n"


def numbers(entry: Entry) -> list[dict[str, Any]]:
    """Returns the flat rows of a published number, those at the paper's scale first."""
    rules, metric = entry.rules, entry.metric
    fixed = {
        "paper": entry.paper.key,
        "table": entry.table.id,
        "row": entry.row.id,
        "label": entry.row.label,
        "metric": metric.name if metric else None,
        "unit": metric.unit if metric else None,
        "better": metric.better if metric else None,
        "published": entry.published,
        "unconfirmed": metric is not None and metric.name in entry.row.unconfirmed,
        "class": rules.kind if rules else None,
        "margin": str(rules.margin) if rules and rules.margin else None,
        "updates": rules.updates if rules else None,
        "counted": entry.is_counted,
    }
    cells = [*entry.paper_cells, *(cell for cell in entry.cells if cell.goal.scale != "paper")]
    if not cells:
        unmeasured = {"experiment": None, "scale": None, "measured": None, **_estimate(None)}
        return [fixed | unmeasured | {"verdict": entry.verdict, "why": entry.reason or "", "notes": []}]
    return [fixed | _cell(cell) for cell in cells]


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "experiment": cell.goal.experiment,
        "scale": cell.goal.scale,
        "measured": cell.goal.measured,
        **_estimate(cell.estimate),
        "verdict": cell.verdict,
        "why": cell.why,
        "notes": list(cell.notes),
    }


def _estimate(best: Estimate | None) -> dict[str, Any]:
    if best is None:
        return {"n": 0, "mean": None, "low": None, "high": None}
    low, high = rounded(best.low), rounded(best.high)
    return {"n": best.n, "mean": rounded(best.mean), "low": low, "high": high}


def rounded(value: float | None) -> float | None:
    """Rounds to ten significant digits: more differ between builds of the libraries that compute intervals."""
    return None if value is None else float(f"{value:.10g}")


def _test(one: Tested) -> dict[str, Any]:
    return {
        "paper": one.paper.key,
        "test": one.test.name,
        "claim": one.test.claim,
        "attempt": one.test.attempt,
        "attempts": one.attempts,
        "changed": one.test.changed,
        "says": one.test.says,
        "paper_says": one.claim.says,
        "check": one.test.check,
        "scale": one.test.scale,
        "measured": one.test.measured,
        "unit": one.unit,
        "column": one.column.name,
        "margin": str(one.margin) if one.margin else None,
        "declared": one.test.declared,
        "core_hours": one.test.core_hours,
        "verdict": one.verdict,
        "why": one.why,
        "gate": [asdict(condition) for condition in one.conditions],
        "rows": [_row_result(result) for result in one.results],
        "effects": [_effect(effect) for effect in one.effects],
        "notes": list(one.notes),
    }


def _effect(effect: Effect) -> dict[str, Any]:
    numbers = {"percent": effect.ours, "low": effect.low, "high": effect.high, "published": effect.published}
    return {"rows": list(effect.rows), **{name: rounded(value) for name, value in numbers.items()}}


def _equality(one: Equality) -> dict[str, Any]:
    gap = one.difference
    low, high = gap.interval(0.95) if gap else (None, None)
    ends = {"difference": rounded(gap.value if gap else None), "low": rounded(low), "high": rounded(high)}
    return {
        "paper": one.paper,
        **one.test.model_dump(mode="json", exclude={"margin"}),
        "unit": one.own.unit,
        "margin": str(one.margin) if one.margin else None,
        "own": _estimate(one.own.estimate),
        "other": _estimate(one.other.estimate),
        **ends,
        "verdict": one.verdict,
        "why": one.why,
    }


def _row_result(result: RowResult) -> dict[str, Any]:
    return {
        "row": result.row,
        "label": result.label,
        "experiment": result.run.run,
        "config": result.config[:8],
        "measured": result.run.measured or None,
        "relation": result.relation,
        "published": result.published,
        **_estimate(result.estimate),
        "scores": [rounded(score) for score in result.scores()],
        "path": [rounded(value) for value in result.path],
    }
