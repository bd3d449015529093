"""Tests of claims: a table of them, and a document of each."""

import shlex
from collections.abc import Collection, Iterable
from itertools import pairwise, zip_longest

from repro.evidence import text
from repro.evidence.declared.fair_tests import Sweep
from repro.evidence.declared.outcomes import PARTS, Tested
from repro.evidence.published import Paper
from repro.evidence.table import Evidence
from repro.grouping import grouped
from repro.report.competence import simple_methods
from repro.report.formats.blocks import Bullets, Document, Figure, Grid, Heading, Link, Paragraph, VerdictWord
from repro.report.plots.plot import Plot
from repro.report.views.words import PARAGRAPHS, at_scale, effect_words, outcome, percent
from repro.seeds import show_ranges

FILE = "tests.md"


def name_of(one: Tested) -> str:
    """The name of a test's page, without its suffix."""
    return f"{one.paper.key}--{one.test.claim}-{one.test.attempt}"


def _heading(one: Tested) -> Heading:
    return Heading(3, f"{one.test.claim}, attempt {one.test.attempt}")


def link_to(one: Tested, words: str) -> Link:
    """A link to a test."""
    return Link(words, f"{name_of(one)}.html", f"{FILE}#{_heading(one).anchor}")


def grid_of_tests(tested: Iterable[Tested]) -> Grid:
    """A line for each test."""
    rows = []
    for one in tested:
        attempt, effects = f"{one.test.attempt} of {one.attempts}", map(effect_words, one.effects)
        cells = (link_to(one, one.test.says), attempt, at_scale(one.test.scale), outcome(one))
        rows.append((*cells, "; ".join(effects) or text.NOTHING))
    return Grid(("Test", "Attempt", "Scale", "Outcome", "Each row ahead of the next by (95 %)"), tuple(rows))


def untested_grid(found: Evidence, paper: Paper) -> Document:
    """Claims without a test, and what they take; nothing where every claim has one."""
    rows = []
    for claim, reason in found.files[paper.key].untested.items():
        state = VerdictWord("out of reach" if reason.out_of_reach else "not run")
        rows.append((paper.claims[claim].says, state, str(reason)))
    return [Grid(("Claim without a test", "State", "Why"), tuple(rows))] if rows else []


def document_of_tests(found: Evidence) -> Document:
    """Every test, every attempt, and the claims without one."""
    document: Document = [Heading(1, "Tests of claims"), Paragraph(PARAGRAPHS["tests"])]
    for paper in found.papers:
        document.append(Heading(2, paper.short_title))
        for one in found.tested[paper.key]:
            document += [_heading(one), Paragraph(one.test.says), *_body(found, one)]
        document += [*_arithmetic(found, paper), *untested_grid(found, paper)]
    return document


def _arithmetic(found: Evidence, paper: Paper) -> Document:
    """Tests that a cheaper arithmetic gives the same numbers; nothing without any."""
    rows = []
    for one in found.equal[paper.key]:
        test, gap = one.test, one.difference
        both = "".join(f", {key} {value}" for key, value in (test.settings | test.cheaper).items())
        settings = "".join(f" --{key} {value}" for key, value in test.settings.items())
        rows.append((
            f"{test.run}{both}",
            f"{test.measured}, margin {one.margin or test.margin or 'of its unit'}",
            text.plus_minus(one.own.estimate),
            text.plus_minus(one.other.estimate),
            "{} to {}".format(*map(text.signed, gap.interval(0.95))) if gap else text.NOTHING,
            VerdictWord(one.verdict, one.why),
            f"repro run {shlex.quote(test.run)} --scale {test.scale} --seeds {show_ranges(test.seeds)}{settings}",
        ))  # fmt: skip
    estimates = ("Recipe's own ± 95 %", "Cheaper ± 95 %", "Difference (95 %)")
    titles = ("Cheaper arithmetic", "Measured", *estimates, "Outcome", "Command of the recipe's own")
    return [Grid(titles, tuple(rows), frozenset({2, 3}))] if rows else []


def one_test(found: Evidence, one: Tested, plots: Collection[Plot]) -> Document:
    """The page of one test, with its curves and the effects of the paper's tests."""
    names = [f"{one.paper.key}--test--{one.test.claim}-{one.test.attempt}.svg"]
    names += [f"{one.paper.key}--effects.svg"] if one.effects else []
    figures = [Figure(plot.name, plot.caption) for name in names for plot in plots if plot.name == name]
    claim = f"{one.paper.title}. Claim {one.test.claim}, attempt {one.test.attempt} of {one.attempts}."
    return [Heading(1, one.test.says), Paragraph(claim), *_body(found, one), *figures]


def _body(found: Evidence, one: Tested) -> Document:
    test, table = one.test, one.paper.tables[one.claim.table]
    verdict = Grid(("Outcome", "Scale"), ((outcome(one), at_scale(test.scale)),))
    says = Paragraph(f"The paper: {one.claim.says} ({table.number}, {one.column.name})")
    document: Document = [verdict, says]
    document += [Paragraph(f"Check of the code: {test.check}")] if test.check else []
    document.append(_rows(one))
    document += [_path(one)] if any(value is not None for s in one.results for value in s.path) else []
    if one.conditions:
        gate = tuple((c.name, text.word(c.met), c.why) for c in one.conditions)
        document.append(Grid(("Gate", "Met", "Figures"), gate))
    document += [_attempts(found, one)] if one.attempts > 1 else []
    return [*document, Bullets((*_facts(one), *_commands(one), *one.notes))]


def _rows(one: Tested) -> Grid:
    """The runs of the test, in the order of the paper, best first."""
    rows = []
    for s, effect in zip_longest(one.results, one.effects):
        seeds = f"{len(s.scores())} of {len(one.test.seeds_of(s.row))}"
        ours = f"{text.plus_minus(s.estimate)} {one.unit if s.estimate else ''}".strip()
        ahead = effect_words(effect) if effect else text.NOTHING
        cells = (s.label, s.relation, text.printed(s.published), ours, seeds, ahead)
        rows.append((*cells, s.run.run, s.config[:8] or text.NOTHING))
    titles = ("Row, best first", "Claimed", "Paper", "Ours ± 95 %", "Seeds", "Ahead of the next by (95 %)")
    return Grid((*titles, "Experiment", "Configuration"), tuple(rows), frozenset({2, 3, 4}))


def _path(one: Tested) -> Grid:
    """The validation metric at parts of the budget, and by how many per cent each row is ahead of the next.

    Rows that are validated in different windows are not compared.
    """
    rows = [(s.label, *map(text.number, s.path)) for s in one.results]
    tasks = [r.config.get("model", {}).get("init_args", {}) for s in one.results for r in s.sample.records]
    alike = all(task.get("validation") == tasks[0].get("validation") for task in tasks)
    for a, b in pairwise(one.results) if alike and one.test.curve_is_own else ():
        pairs = zip(a.path, b.path, strict=True)
        gaps = (100 * one.sign * (x - y) / abs(y) if x is not None and y else None for x, y in pairs)
        words = (text.NOTHING if gap is None else f"{percent(gap)} %" for gap in gaps)
        rows.append((f"{a.row} ahead of {b.row} by", *words))
    header = (f"{one.test.settled_curve} after", *(f"{100 * part:g} % of the updates" for part in PARTS))
    return Grid(header, tuple(rows), frozenset(range(1, len(header))))


def _attempts(found: Evidence, one: Tested) -> Grid:
    rows = []
    for other in (t for t in found.tested[one.paper.key] if t.test.claim == one.test.claim):
        link, changed = link_to(other, f"attempt {other.test.attempt}"), other.test.changed or "the first"
        rows.append((link, at_scale(other.test.scale), outcome(other), changed))
    return Grid(("All attempts", "Scale", "Outcome", "Changed"), tuple(rows))


def _facts(one: Tested) -> list[str]:
    """The declaration of the test."""
    test, level, tuned = one.test, one.test.competent, one.test.tuned
    margin, declared = one.margin or "none", test.declared or "not yet"
    facts = [f"Measured: {test.measured}; margin {margin}; declared {declared}"]
    own = [f"{row}: {run.measured}" for row, run in test.rows.items() if run.measured]
    facts += [f"Measured of single rows: {'; '.join(own)}"] if own else []
    facts += [f"Another quantity than the column's: {test.other_quantity}"] if test.other_quantity else []
    facts += [f"Competence: {level.row} must reach {level.level:g} ({level.method})"] if level else []
    records = [record for result in one.results for record in result.sample.records]
    if simple := simple_methods(records[0], test.measured) if records else []:
        scores = (f"{method} {text.number(value)}" for method, value in simple)
        facts.append(f"Simple methods: {'; '.join(scores)}")
    if isinstance(tuned, Sweep):
        values = ", ".join(f"{value:g}" for value in tuned.values)
        facts.append(f"Tuned: {tuned.key} from {values}, on seeds {show_ranges(tuned.seeds)}")
    return facts + ([f"Price: {test.core_hours:g} core-hours a row"] if test.core_hours else [])


def _commands(one: Tested) -> list[str]:
    """The commands of the rows that today's recipes make; those that name a configuration are older."""
    current = [(row, run.run) for row, run in one.test.rows.items() if not run.config]
    by_seeds = grouped((show_ranges(one.test.seeds_of(row)), shlex.quote(run)) for row, run in current)
    return [
        f"Command: repro reproduce {' '.join(dict.fromkeys(runs))} --scale {one.test.scale} --seeds "
        + (seeds if {"-", ","} & set(seeds) else f"{seeds}-{seeds}")
        for seeds, runs in by_seeds.items()
    ]
