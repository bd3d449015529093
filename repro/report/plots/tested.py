"""Figures of declared tests: curves of their rows, effects, and the picture of each paper."""

from dataclasses import replace

from repro.evidence import text
from repro.evidence.declared.gate import LAST
from repro.evidence.declared.outcomes import PARTS, Effect, Tested
from repro.evidence.table import Evidence
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Forest, Panel
from repro.report.plots.plot import EFFECTS, HEADLINES, TESTS, Plot, file_name, over_seeds
from repro.report.plots.rows import panel_of

ALL = "pictures.svg"


def each_test(evidence: Evidence) -> list[Plot]:
    """A figure ``<paper>--test--<claim>-<attempt>.svg`` for each test whose records have its curve or its sweep."""
    plots = []
    for one in evidence.tests:
        if chart := _chart(one, one.test.says):
            name = file_name(one.paper.key, "test", f"{one.test.claim}-{one.test.attempt}")
            plots.append(Plot(name, TESTS, _caption(one), chart))
    return plots


def effects(evidence: Evidence) -> list[Plot]:
    """A forest ``<paper>--effects.svg`` for each paper whose tests have effects."""
    plots = []
    for key, tested in evidence.tested.items():
        if groups := [
            (f"{t.test.says} {status_line(t)}", t.counts, _labelled(t)) for t in tested if t.effects
        ]:
            words = f"{key}: by how many per cent each row is ahead of the next, ours and the paper's"
            plots.append(Plot(file_name(key, "effects"), EFFECTS, words, Forest(groups)))
    return plots


def _labelled(one: Tested) -> list[Effect]:
    """The effects of a test, its rows by their labels."""
    label = {result.row: result.label for result in one.results}
    return [replace(e, rows=(label[e.rows[0]], label[e.rows[1]])) for e in one.effects]


def pictures(evidence: Evidence) -> list[Plot]:
    """``<paper>--picture.svg`` of the test that stands for a paper, where it counts; ``pictures.svg`` with all."""
    plots, panels = list[Plot](), list[Panel]()
    for paper in evidence.papers:
        one = evidence.test(paper.key, evidence.files[paper.key].picture)
        head = f"{paper.short_title} ({paper.about.year})"
        if one and one.counts and (chart := _chart(one, head, one.test.says)):
            plots.append(Plot(file_name(paper.key, "picture"), HEADLINES, _caption(one), chart))
            panels.extend(chart.panels)
    words = f"tests of claims of {text.plural(len(panels), 'paper')} with their outcomes"
    return [*plots, Plot(ALL, HEADLINES, words, Chart("", [], panels))] if panels else []


def status_line(one: Tested) -> str:
    """``Scale small: not a fair test (not settled, tuned).``"""
    check = "check of the code, " if one.is_check else ""
    failed = f" (not {one.failed})" if one.failed else ""
    return f"Scale {one.test.scale}: {check}{one.verdict}{failed}."


def _caption(one: Tested) -> str:
    return f"{one.paper.key} · {one.test.name}: {one.test.says} {status_line(one)}"


def _chart(one: Tested, head: str, *words: str) -> Chart | None:
    """Plots the rows of a test with a title, its scale and verdict; None where its records have no such curve."""
    test, rows = one.test, _rows(one)
    name, level = test.sweep or test.curve or test.settled_curve, test.competent
    panel = panel_of(rows, "" if test.sweep else name, test.sweep)
    if panel is None:
        return None
    panel = replace(panel, title="\n".join([head, "", *words, f"{status_line(one)} {over_seeds(rows)}."]))
    if level and (level.measured or test.measured_of(level.row)).partition("/")[2] == name.partition("/")[2]:
        panel = replace(panel, levels=[(level.level, f"{level.method}: {level.level:g}")])
    budget, *others = {record.steps for records in rows.values() for record in records}
    if not test.sweep and not others:
        marks = [(part * budget, f"{100 * part:.0f} %") for part in PARTS if part < LAST]
        panel = replace(panel, rules=marks, shaded=LAST * budget)
    return Chart("", [], [panel])


def _rows(one: Tested) -> dict[str, list[RunRecord]]:
    """Returns the records of each row by its label with its number; rows with the same records share a line."""
    rows: dict[str, list[RunRecord]] = {}
    for result in one.results:
        name = f"{result.label} {text.plus_minus(result.estimate)}"
        records = result.sample.records
        known = next((other for other, kept in rows.items() if kept == records), None)
        if known:
            rows[f"{known}; {name}"] = rows.pop(known)
        elif records:
            rows[name] = records
    return rows
