"""The data of the page, with the look-ups that its parts need."""

from dataclasses import dataclass, field
from functools import cached_property

from repro.evidence.claims import Claim
from repro.evidence.compare import Comparison
from repro.evidence.entries import Cell
from repro.evidence.published import Paper
from repro.recipe import SCALES
from repro.record import RunRecord
from repro.report.plots.plot import Plot

Place = tuple[str, str]  # experiment, scale


@dataclass(frozen=True)
class Runs:
    """The records of one experiment at one scale, in the order of seeds.

    Attributes:
        used: those that count.
        weaknesses: what was left out, and what weakens those that count.
        verdicts: of the published cells and claims that they serve.
    """

    experiment: str
    scale: str
    records: tuple[RunRecord, ...]
    used: tuple[RunRecord, ...]
    weaknesses: tuple[str, ...]
    verdicts: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Material:
    """Numbers, claims and figures."""

    comparison: Comparison
    claims: list[Claim]
    plots: list[Plot]

    @cached_property
    def runs(self) -> dict[Place, Runs]:
        """The runs by experiment and scale: by name, larger scales first."""
        places: dict[Place, list[RunRecord]] = {}
        for record in self.comparison.records:
            places.setdefault((record.experiment, record.scale), []).append(record)
        return {place: self._runs(place, places[place]) for place in sorted(places, key=_order)}

    def _runs(self, place: Place, records: list[RunRecord]) -> Runs:
        selection = self.comparison.selections.get(place)
        ordered = tuple(sorted(records, key=lambda r: (r.seed, r.finished)))
        if selection is None:
            return Runs(*place, ordered, (), ("no recipe of that name",))
        return Runs(
            *place, ordered, selection.used, tuple(selection.weaknesses), self._served.get(place, frozenset())
        )

    @cached_property
    def _served(self) -> dict[Place, frozenset[str]]:
        served: dict[Place, set[str]] = {}
        for entry in self.comparison.entries.values():
            for cell in entry.cells:
                served.setdefault((cell.goal.experiment, cell.goal.scale), set()).add(cell.verdict)
        for claim in self.claims:
            for standing in claim.standings:
                if standing.sample and standing.estimate:
                    goal = standing.sample.wanted
                    served.setdefault((goal.experiment, goal.scale), set()).add(claim.verdict)
        return {place: frozenset(verdicts) for place, verdicts in served.items()}

    def runs_of(self, paper: Paper) -> list[Runs]:
        """The runs of one paper."""
        return [
            runs for (experiment, _), runs in self.runs.items() if experiment.split("/", 1)[0] == paper.key
        ]

    def claims_of(self, paper: Paper) -> list[Claim]:
        """The claims of one paper."""
        return [claim for claim in self.claims if claim.paper is paper]

    def plots_of(self, paper: Paper) -> list[Plot]:
        """The figures of one paper."""
        return [plot for plot in self.plots if plot.name.startswith(f"{paper.key}--")]

    def has_runs(self, cell: Cell) -> bool:
        """Whether there is a record, used or not, that a reader of the cell may look at."""
        return (cell.goal.experiment, cell.goal.scale) in self.runs


def _order(place: Place) -> tuple[str, int, str]:
    experiment, scale = place
    return experiment, SCALES.index(scale) if scale in SCALES else len(SCALES), scale
