"""repro tour: tiny stages run, resume and stay apart from the project's records; its own tour fits its recipes."""

import os
import re
import signal
from pathlib import Path

import pytest
import yaml

from repro.evidence.table import read_evidence
from repro.experiment import run as running
from repro.experiment.build import build
from repro.record import read_records
from repro.report.plots.rows import panel_of
from repro.report.tour import claim_test, load_tour, stage_document
from repro.seeds import TUNING
from tests.workshop import BITS, PAPER, PROJECT, STREAM, TINY, Workshop, call

TOURS = sorted((PROJECT / "configs").glob("tour*.yaml"))
STREAMS = {
    "paper": "transformer-xl",
    "says": "It reads. It remembers.",
    "minutes": 2,
    "runs": {"with memory": STREAM},
    "number": "test/accuracy",
    "curve": "val/accuracy",
    "claim": "memory-beats-vanilla",
}
BIT_STRINGS = {
    "paper": "frozen-pretrained-transformer",
    "says": "It is frozen. It learns.",
    "minutes": 1,
    "runs": {"frozen": BITS},
    "number": "test/accuracy",
    "curve": "val/accuracy",
    "claim": "random-transformer-beats-lstm-xor",
}
SENTENCES = {
    "paper": PAPER,
    "says": "It translates. It attends.",
    "minutes": 1,
    "runs": {"tiny": TINY},
    "number": "test/bleu",
    "attention": "one",
    "claim": "head-count-optimum",
}


def plan(workshop: Workshop, *entries: dict[str, object], **changes: object) -> None:
    tour = {"scale": "cpu", "seed": 100, "papers": list(entries), **changes}
    (workshop.configs / "tour.yaml").write_text(yaml.safe_dump(tour, allow_unicode=True), encoding="utf-8")


@pytest.fixture
def tour(workshop: Workshop) -> Workshop:
    """A tour of two tiny stages."""
    workshop.stream()
    workshop.bits()
    plan(workshop, STREAMS, BIT_STRINGS)
    return workshop


def folder(workshop: Workshop) -> Path:
    return workshop.runs / "tour"


def test_each_stage_has_its_runs_numbers_picture_and_verdict(tour: Workshop) -> None:
    before = {name: os.environ.get(name) for name in ("REPRO_RUNS", "REPRO_RESULTS", "WANDB_MODE")}
    output = call("tour")
    assert output.code == 0, output.err
    assert "[1 of 2] Transformer-XL" in output.out
    assert "about 3 min left" in output.out
    assert re.search(r"^with memory  test/accuracy [\d.]+ percent of symbols  +\d", output.out, re.M)
    file = yaml.safe_load((tour.results / "tests" / "transformer-xl.yaml").read_text(encoding="utf-8"))
    *_, shown = (t for t in file["tests"] if t["claim"] == STREAMS["claim"])
    words = " ".join(output.out.split())
    assert words.count("It reads. It remembers.") == 1
    assert "Test over seeds: not run" in words  # its outcome in this project
    assert f"(reduced scale: {shown['scale']}): {shown['says']}" in words
    for name in ("transformer-xl.svg", "frozen-pretrained-transformer.svg"):
        assert "<svg" in (folder(tour) / name).read_text()
        assert str(folder(tour) / name) in output.out
    page = (folder(tour) / "index.html").read_text()
    assert page.index("It reads. It remembers.") < page.index("It is frozen. It learns.")
    assert 'src="./transformer-xl.svg"' in page
    assert {name: os.environ.get(name) for name in before} == before


def test_no_record_or_table_of_the_project_is_touched(tour: Workshop) -> None:
    call("tour", "--paper", "transformer-xl")
    assert tour.records() == []
    assert {path.name for path in tour.results.iterdir()} == {"published", "tests"}
    (record,) = read_records(folder(tour) / "results" / "runs").good
    assert (record.experiment, record.seed, record.wandb_url) == (STREAM, 100, None)
    assert record.command == f"repro run {STREAM} --scale cpu --seed 100"


def test_a_stage_may_change_settings_of_its_runs(tour: Workshop) -> None:
    plan(tour, STREAMS | {"set": {"trainer.max_steps": 6}})
    output = call("tour")
    assert output.code == 0, output.err
    (record,) = read_records(folder(tour) / "results" / "runs").good
    assert record.steps == 6
    assert record.overrides == ["--trainer.max_steps=6"]
    assert record.command == f"repro run {STREAM} --scale cpu --seed 100 --trainer.max_steps=6"


def test_given_again_it_goes_on_where_it_was(tour: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def counted(*args, _fit=running.fit):  # type: ignore[no-untyped-def]
        trained.append(args[0].recipe.experiment)
        if len(trained) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return _fit(*args)

    monkeypatch.setattr(running, "fit", counted)
    stopped = call("tour")
    stopped.refused("resumes", code=130)
    assert "transformer-xl.svg" in (folder(tour) / "index.html").read_text()
    assert not (folder(tour) / "frozen-pretrained-transformer.svg").exists()
    output = call("tour")
    assert output.code == 0, output.err
    assert "about 1 min left" in output.out
    assert trained == [STREAM, BITS, BITS]
    assert len(read_records(folder(tour) / "results" / "runs").good) == 2
    call("tour")
    assert len(trained) == 3


def test_one_paper_alone_keeps_the_others_on_the_page(tour: Workshop) -> None:
    call("tour", "--paper", "transformer-xl")
    output = call("tour", "--paper", "frozen-pretrained-transformer")
    assert "[1 of 1] Pretrained" in output.out
    page = (folder(tour) / "index.html").read_text()
    assert 'src="./transformer-xl.svg"' in page
    assert 'src="./frozen-pretrained-transformer.svg"' in page


def test_attention_while_a_line_is_translated(workshop: Workshop) -> None:
    plan(workshop, SENTENCES)
    output = call("tour")
    assert output.code == 0, output.err
    assert (folder(workshop) / f"{PAPER}.png").read_bytes().startswith(b"\x89PNG")


def test_a_paper_that_is_not_in_the_tour(tour: Workshop) -> None:
    call("tour", "--paper", "bogus").refused("'bogus'", "transformer-xl", "frozen-pretrained-transformer")
    assert not folder(tour).exists()


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"sayz": "Bad."}, "sayz"),
        ({"sweep": "test/x"}, "one of curve, sweep and attention"),
        ({"curve": ""}, "one of curve, sweep and attention"),
        ({"paper": "transformer-xxl"}, "transformer-xl"),
        ({"claim": ""}, "claim"),
        ({"claim": "memory-beats-vanila"}, "memory-beats-vanilla"),
        ({"number": "test/accurate"}, "test/accuracy"),
        ({"curve": "val/nothing"}, "val/nothing"),
        ({"runs": {"a": "transformer-xl/streem"}}, "transformer-xl/stream"),
    ],
)
def test_a_wrong_entry_is_one_clear_line(tour: Workshop, change: dict[str, object], part: str) -> None:
    plan(tour, STREAMS | change)
    call("tour").refused(part)


def test_a_project_without_a_tour(workshop: Workshop) -> None:
    call("tour").refused("tour.yaml")


@pytest.mark.parametrize("path", TOURS, ids=lambda path: path.name)
def test_the_projects_tour_fits_its_recipes_and_their_records(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REPRO_RESULTS", "REPRO_CONFIGS"):
        monkeypatch.delenv(name, raising=False)
    assert path.name == "tour.yaml"
    tour, result = load_tour(), read_evidence()
    assert tour.seed >= TUNING
    years = {paper.key: paper.about.year for paper in result.papers}
    assert sorted(stage.paper for stage in tour.papers) == sorted(years)
    assert [years[stage.paper] for stage in tour.papers] == sorted(years.values())
    assert sum(stage.minutes for stage in tour.papers) <= 10
    for stage in tour.papers:
        records = {
            name: next(
                r for r in result.comparison.records if (r.experiment, r.scale) == (experiment, tour.scale)
            )
            for name, experiment in stage.runs.items()
        }
        assert stage_document(stage, records, claim_test(stage, result))
        assert stage.attention or panel_of({n: [r] for n, r in records.items()}, stage.curve, stage.sweep)
        for recipe in tour.recipes(stage).values():
            assert recipe.paper == stage.paper
            build(recipe, meta=True)
