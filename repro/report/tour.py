"""The tour: one small experiment for each paper's idea, described in ``configs/tour.yaml``, and its page."""

from typing import Any, Self

from pydantic import model_validator

from repro.errors import UserError, nearest
from repro.evidence import text
from repro.evidence.declared.outcomes import Tested
from repro.evidence.published import Model, Paper, Text, read_model
from repro.evidence.table import Evidence
from repro.paths import configs_dirs, files_in
from repro.recipe import Recipe, load_recipe
from repro.record import RunRecord
from repro.report.formats.blocks import Document, Figure, Grid, Heading, Paragraph
from repro.report.plots.chart import Chart
from repro.report.plots.plot import HEADLINES, Plot
from repro.report.plots.rows import panel_of
from repro.report.views.words import at_scale, outcome

FILE = "tour.yaml"
HEAD = (
    Heading(1, "Tour"),
    Paragraph("One small experiment for each paper's idea, run here with one seed."),
)


class TourStage(Model):
    """The experiment of one paper.

    Attributes:
        paper: key of the paper.
        says: two sentences on what the experiment does and shows.
        minutes: time of all its runs on 2 cores.
        runs: experiments by their name in the picture.
        set: settings of all its runs beside their recipes, by dotted key.
        number: the measurement that is shown for each run.
        curve: see :func:`repro.report.plots.rows.panel_of`.
        sweep: see :func:`repro.report.plots.rows.panel_of`.
        attention: a line that the first run translates, in place of a curve or a sweep.
        claim: the claim whose last test stands beside it.
    """

    paper: Text
    says: Text
    minutes: float
    runs: dict[str, Text]
    set: dict[str, Any] = {}
    number: Text
    curve: str = ""
    sweep: str = ""
    attention: str = ""
    claim: Text

    @model_validator(mode="after")
    def _has_a_picture(self) -> Self:
        if [bool(self.curve), bool(self.sweep), bool(self.attention)].count(True) != 1:
            raise ValueError("it needs one of curve, sweep and attention")
        return self

    @property
    def picture(self) -> str:
        """The file name of the picture."""
        return f"{self.paper}.{'png' if self.attention else 'svg'}"


class Tour(Model):
    """All stages, with the scale and the seed of their runs."""

    scale: str
    seed: int
    papers: tuple[TourStage, ...]

    def recipes(self, stage: TourStage) -> dict[str, Recipe]:
        """The recipes of a stage's runs by their name in the picture."""
        settings = list(stage.set.items())
        return {name: load_recipe(run, self.scale, settings) for name, run in stage.runs.items()}

    def stages(self, paper: str | None) -> tuple[TourStage, ...]:
        """The stage of one paper, or all of them.

        Raises:
            UserError: the tour has no such paper.
        """
        stages = tuple(stage for stage in self.papers if paper in (None, stage.paper))
        if not stages:
            keys = ", ".join(stage.paper for stage in self.papers)
            raise UserError(f"--paper {paper!r} is not in the tour; choose from: {keys}")
        return stages


def load_tour() -> Tour:
    """Reads the project's tour.

    Raises:
        UserError: no such file, or one that is not a tour; names the entry.
    """
    return read_model(Tour, files_in(configs_dirs(), FILE).get(FILE, configs_dirs()[0] / FILE))


def claim_test(stage: TourStage, evidence: Evidence) -> Tested:
    """Returns the test over seeds whose outcome is shown with a stage.

    Raises:
        UserError: no such paper, or no test of that claim.
    """
    name = f"{stage.paper}/{stage.claim}"
    tested = {f"{one.paper.key}/{one.test.claim}": one for one in evidence.tests}  # the last attempt at each
    if name not in tested:
        raise UserError(f"{FILE}: no test of {name!r}{nearest(name, tested)}")
    return tested[name]


def stage_document(stage: TourStage, records: dict[str, RunRecord], one: Tested) -> Document:
    """The result of a stage: what it shows, its picture, a number of each run, and the test over seeds.

    Args:
        stage: what was run.
        records: of its runs, by name.
        one: the test of the same claim.

    Raises:
        UserError: a run has no such measurement.
    """
    rows = []
    for name, record in records.items():
        measured = record.metric(stage.number)
        if measured is None:
            close = nearest(stage.number, [m.name for m in record.metrics])
            raise UserError(f"{FILE}: {record.experiment} measures no {stage.number!r}{close}")
        number = f"{stage.number} {text.number(measured.value)} {measured.unit}"
        rows.append((name, number, text.duration(record.wall_seconds)))
    return [
        Heading(2, one.paper.short_title),
        Paragraph(stage.says),
        Figure(stage.picture, stage.says),
        Grid(("Run", "Number", "Time"), tuple(rows)),
        Paragraph(f"Test over seeds: {outcome(one)} ({at_scale(one.test.scale)}): {one.test.says}"),
    ]


def plot_of(stage: TourStage, paper: Paper, records: dict[str, RunRecord]) -> Plot:
    """The figure of a stage that has a curve or a sweep.

    Raises:
        UserError: the records have nothing to show.
    """
    panel = panel_of({name: [record] for name, record in records.items()}, stage.curve, stage.sweep)
    if panel is None:
        raise UserError(f"{FILE}: the runs of {stage.paper} have no {stage.curve or stage.sweep!r}")
    title = f"{paper.short_title}, seed {next(iter(records.values())).seed}"
    return Plot(stage.picture, HEADLINES, stage.says, Chart(title, [], [panel]))
