"""``index.html``: readable on a phone, in light and dark, on paper, without JavaScript; at most 2 MB."""

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from repro import text
from repro.evidence.claims import Claim
from repro.evidence.compare import Comparison
from repro.evidence.published import Paper
from repro.recipe import SCALES
from repro.report import crossover as study
from repro.report import parity
from repro.report.formats.claims_document import basis
from repro.report.plots.files import size
from repro.report.plots.headlines import headline_name
from repro.report.plots.plot import CURVES, DRAWN, HEADLINES, KINDS, MEMORIES, Plot
from repro.report.site import anchors, badges, intervals
from repro.report.site.claims import claims
from repro.report.site.material import Material
from repro.report.site.overview import SHOWN, overview
from repro.report.site.runs import group
from repro.report.site.tables import table

SITE = Path(__file__).parent
INLINE = 400_000  # bytes of figures within the page; the others are separate files, loaded when they come into view
STYLE, SCRIPT = "page.css", "page.js"
NUMBERS = frozenset(
    ("Mean ± 95 %", "n", "Parameters", "Updates", "Tokens", "Wall time", "GPU hours", "Peak memory")
)


def render(comparison: Comparison, claims: list[Claim], plots: list[Plot], drawn: dict[str, bytes]) -> str:
    """The page; the same records and figures give the same bytes.

    Args:
        comparison: the records.
        claims: the ordering claims.
        plots: all figures.
        drawn: the bytes of each figure's file by its name.
    """
    material = Material(comparison, claims, plots)
    return rendered(
        "page.html",
        overview=overview(material),
        papers=[_paper(material, paper) for paper in comparison.papers],
        parity=_parity(material),
        study=_study(material),
        scales=_scales(material),
        shown=_figures(material, drawn),
    )


def _parity(material: Material) -> dict[str, Any] | None:
    """Comparisons with the official codes, where there are any."""
    found = parity.read_parity()
    if not found:
        return None
    titles = {paper.key: paper.title for paper in material.comparison.papers}
    return {
        "title": parity.TITLE,
        "says": parity.SAYS,
        "plot": next((plot for plot in material.plots if plot.name == parity.PICTURE), None),
        "grid": parity.summary(found, titles.__getitem__),
    }


def _study(material: Material) -> dict[str, Any] | None:
    """The study of all mixers, where it has records."""
    found = study.crossover(material.comparison)
    if found is None:
        return None
    return {
        "title": study.TITLE,
        "says": study.SAYS,
        "measured": study.MEASURED,
        "plot": next((plot for plot in material.plots if plot.name == study.PICTURE), None),
        "grids": [study.scores(found), *study.costs(found)],
        "machines": study.machines(found),
    }


def rendered(template: str, **values: Any) -> str:
    """A page with the style, the script and the policy that every page has."""
    page = _environment().get_template(template).render(
        style=Markup(read(STYLE)), script=Markup(read(SCRIPT)), policy=_policy(), **values
    )  # fmt: skip
    return f"{page.strip()}\n"


def read(name: str) -> str:
    """The style sheet or the script, as included in the page."""
    return (SITE / name).read_text(encoding="utf-8").strip()


@cache
def _environment() -> Environment:
    """Templates in which every text is escaped, and none holds a control character."""
    environment = Environment(
        loader=PackageLoader("repro.report.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: value if isinstance(value, Markup) else text.clean(value),
    )
    environment.globals.update(
        anchors=anchors, badges=badges, basis=basis, intervals=intervals, text=text, SHOWN=SHOWN
    )
    environment.filters.update(path=quote, lines=_lines)
    environment.tests.update(number=NUMBERS.__contains__, address=re.compile(r"https?://[^\s/]").match)
    return environment


def _lines(content: str) -> Markup:
    """Several lines unchanged, for ``pre``; :func:`as_yaml` leaves no control characters in them."""
    return Markup.escape(content)


def _policy() -> str:
    """What a browser may load and run: our style and script by their hashes, and figures beside the page."""
    style, script = (
        f"'sha256-{base64.b64encode(hashlib.sha256(read(name).encode()).digest()).decode()}'"
        for name in (STYLE, SCRIPT)
    )
    return (
        f"default-src 'none'; img-src 'self'; style-src {style}; script-src {script}; "
        "base-uri 'none'; form-action 'none'"
    )


def _scales(material: Material) -> list[str]:
    """The scales of numbers and runs, larger ones first."""
    scales = {
        cell.goal.scale for e in material.comparison.entries.values() for cell in e.cells if cell.estimate
    }
    scales |= {runs.scale for runs in material.runs.values()}
    return [scale for scale in SCALES if scale in scales]


def _paper(material: Material, paper: Paper) -> dict[str, Any]:
    """Everything about one paper. Figures of a single experiment are shown with its runs."""
    several = _several(material, paper)
    return {
        "paper": paper,
        "venue": paper.venue if str(paper.year) in paper.venue else f"{paper.venue}, {paper.year}",
        "tables": [table(material, paper, published) for published in paper.tables.values()],
        "claims": claims(material, paper),
        "figures": {k: shown for k in KINDS if (shown := [plot for plot in several if plot.kind == k])},
        "how": KINDS,
        "runs": [group(material, runs) for runs in material.runs_of(paper)],
    }


def _several(material: Material, paper: Paper) -> list[Plot]:
    """The figures of several experiments."""
    return [
        plot for plot in material.plots_of(paper) if plot.kind not in (CURVES, DRAWN, HEADLINES, MEMORIES)
    ]


def _figures(material: Material, drawn: dict[str, bytes]) -> dict[str, dict[str, Any]]:
    """Each figure as the page shows it: those of the first screen within the page, as far as there is room."""
    figures, room = {}, INLINE
    first = {headline_name(paper) for paper in material.comparison.papers}
    for plot in material.plots:
        width, height = size(drawn[plot.name])
        inline = plot.name in first and len(drawn[plot.name]) <= room
        room -= len(drawn[plot.name]) if inline else 0
        markup = Markup(re.sub("(?s)<style>.*?</style>", "", drawn[plot.name].decode())) if inline else None
        scale = plot.name.rpartition(".")[0].rpartition("--")[2]
        figures[plot.name] = {"markup": markup, "width": width, "height": height, "scale": scale}
    return figures
