"""Published numbers, each with all measurements for it.

The verdicts of a number at paper scale are those of :mod:`repro.evidence.judging.judge`. Others: ``reduced scale``
(records only at reduced scales), ``not run`` (a recipe, but no usable record), ``no value`` (a derived number whose
records do not give it), ``no recipe``, and ``unpublished`` (we measured what the paper shows without a number).
"""

from dataclasses import dataclass, field

from repro.evidence.goals import Goal
from repro.evidence.judging.statistics import Estimate
from repro.evidence.published import Metric, Paper, PublishedTable, Row, Rules
from repro.evidence.selection import Sample

DERIVED = "derived"  # `measured` of a derived number
UNEXPLAINED = "neither a recipe nor a derivation"  # no published number has it


@dataclass(frozen=True)
class Cell:
    """The result of one experiment, at one scale, for one published number.

    Attributes:
        why: reason of the verdict, where it is not obvious.
        difference: our mean less the published number, in the metric's unit; None at reduced scales.
        notes: what weakens the statement: missing seeds, mixed or dirty commits.
    """

    goal: Goal
    sample: Sample
    verdict: str
    why: str
    difference: float | None
    notes: tuple[str, ...]

    @property
    def estimate(self) -> Estimate | None:
        """Mean over seeds, or None without a usable record."""
        return self.sample.estimate


@dataclass
class Entry:
    """A published number with all measurements for it."""

    paper: Paper
    table: PublishedTable
    row: Row
    metric: Metric | None
    cells: list[Cell] = field(default_factory=list)

    @property
    def published(self) -> float | None:
        """The paper's number; None without a printed one."""
        return self.row.values.get(self.metric.name) if self.metric else None

    @property
    def rules(self) -> Rules | None:
        """The rules by which the number is judged; None for a row without numbers."""
        return self.row.rules[self.metric.name] if self.metric else None

    @property
    def is_counted(self) -> bool:
        """Whether the number belongs to the paper's denominator, which no recipe or record changes."""
        return self.metric is not None and self.row.is_counted(self.metric.name)

    @property
    def paper_cells(self) -> list[Cell]:
        """Cells at paper scale, measured ones first; of several experiments the best on validation is first."""
        sign = self.metric.sign if self.metric else 1
        own = (cell for cell in self.cells if cell.goal.scale == "paper")
        return sorted(own, key=lambda cell: (*preference(cell.sample, sign), cell.goal.experiment))

    @property
    def reduced(self) -> list[Cell]:
        """Cells at reduced scales that have a number."""
        return [cell for cell in self.cells if cell.goal.scale != "paper" and cell.estimate]

    @property
    def verdict(self) -> str:
        """The verdict of the first experiment, as listed in the module's docstring."""
        if not self.cells:
            return "no recipe"
        first = self.paper_cells[0].verdict if self.paper_cells else "not run"
        return "reduced scale" if first == "not run" and self.reduced else first

    @property
    def reason(self) -> str | None:
        """The reason why there is no recipe; None where there is one."""
        if self.cells:
            return None
        declared = self.rules.no_recipe if self.rules else self.row.no_recipe
        if declared:
            return declared
        if self.table.third_party:
            return "third-party reproduction"
        if not self.row.is_this_papers_model:
            return "not the paper's own model"
        return "the paper prints no number" if self.metric is None else UNEXPLAINED


def preference(sample: Sample, sign: int) -> tuple[bool, float]:
    """Returns a sort key: the first experiment for a number counts. Test scores play no part."""
    best = sample.validation
    return sample.estimate is None, float("inf") if best is None else -best * sign
