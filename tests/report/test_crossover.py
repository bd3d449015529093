"""The study of all mixers: its tables and its picture follow from records and from what was measured."""

import dataclasses
import json
import shutil

import pytest

from repro import recipe
from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.table import read_evidence
from repro.record import Measurement, write_record
from repro.report.competence import simple_methods
from repro.report.crossover import (
    FILE,
    GRID,
    NEAR,
    PICTURE,
    SEGMENTS,
    costs,
    crossover,
    machines,
    picture,
    scores,
)
from repro.report.render import figures_of
from tests.report.fakes import House, make_record
from tests.report.pages import files_of
from tests.workshop import PROJECT

CELL = {"machine": "A CPU, 4 cores", "threads": 2, "date": "2026-11-23", "quiet": True}


def score(house: House, mixer: str, seed: int, near: float) -> None:
    made = make_record(f"{GRID}@{mixer}", seed, 0.0, "small")
    metrics = [
        Measurement(name, value, "bits per byte", "test", {}, 50)
        for name, value in ((SEGMENTS, 9), (NEAR, near))
    ]
    write_record(dataclasses.replace(made, metrics=metrics), house.results / "runs")


@pytest.fixture
def study(house: House) -> House:
    shutil.copytree(PROJECT / "configs" / "crossover", house.configs / "crossover")
    recipe.forget_files()
    for seed, better in ((1, 0.0), (2, 0.1), (3, 0.2)):
        score(house, "full", seed, 2.5 - better)
        score(house, "linear", seed, 2.9 - better)
    score(house, "linear", 100, 1.0)  # a trial
    lines = [
        CELL | {"mixer": mixer, "context": context, "what": what, "tokens_per_s": speed / context, "mib": 1.0}
        for mixer, speed in (("full", 1e6), ("linear", 2e6))
        for context in (256, 1024)
        for what in ("training", "generation")
    ]
    lines[0]["quiet"] = False
    (house.results / FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return house


def test_scores_are_means_over_judged_seeds_best_first(study: House) -> None:
    result = crossover(compare())
    assert result is not None
    rows = scores(result).rows
    assert [(row[0], row[3]) for row in rows] == [("full", "3"), ("linear", "3")]
    assert rows[0][1].startswith("2.400 ±")
    assert rows[1][1].startswith("2.800 ±")


def test_costs_are_shown_by_context(study: House) -> None:
    result = crossover(compare())
    assert result is not None
    first = costs(result)[0]
    assert first.header == ("Training, bytes/s", "256", "1,024")
    assert first.rows == (("full", "3,910", "977"), ("linear", "7,810", "1,950"))
    assert machines(result) == (
        "A CPU, 4 cores, 2 threads, 2026-11-23",
        "others used the machine during 1 of 8 measurements",
    )
    panels = picture(result).content.panels  # type: ignore[union-attr]
    assert [line.points for line in panels[0].lines] == [
        [(pytest.approx(3906.25), pytest.approx(2.4))],
        [(pytest.approx(7812.5), pytest.approx(2.8))],
    ]


def test_table_picture_and_page_are_generated(study: House) -> None:
    files = files_of(study)
    assert "| full | 2.40" in files["tables/crossover.md"]
    assert PICTURE in figures_of(read_evidence())
    assert f'src="../plots/{PICTURE}"' in files["pages/crossover.html"]


def test_without_measurements_the_scores_stand_alone(study: House) -> None:
    (study.results / FILE).unlink()
    assert PICTURE not in figures_of(read_evidence())
    assert "Training" not in files_of(study)["tables/crossover.md"]


def test_without_records_there_is_no_study(house: House) -> None:
    assert crossover(compare()) is None
    assert "tables/crossover.md" not in files_of(house)


@pytest.mark.parametrize("content", ["<<<<<<< HEAD\n[]\n", "[1]\n"])
@pytest.mark.parametrize(
    ("name", "script"), [("competence.json", "competence --again"), ("crossover.jsonl", "crossover")]
)
def test_a_damaged_file_is_named_with_its_remedy(house: House, name: str, script: str, content: str) -> None:
    made = make_record(house.recipe("big"), 1, 1.0)
    (house.results / name).write_text(content)
    with pytest.raises(
        UserError, match=rf"{name} is damaged: .*; `python -m benchmarks.{script}` makes it anew"
    ):
        simple_methods(made, "test/bleu") if name == "competence.json" else crossover(compare())
