"""Verbs for a first look: tour (one small experiment for each paper's idea, with its picture), init."""

import argparse
import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from repro.cli.arguments import Verbs, add, add_verb
from repro.cli.runs import require_writable, train
from repro.errors import UserError
from repro.paths import SHARED, files_in, published_files, results_dir, runs_dir
from repro.record import RunRecord, finished_record, write_atomic

TEMPLATE = Path(__file__).with_name("project_template")
PROFILE = "slurm/clusters/my-cluster.yaml"

if TYPE_CHECKING:
    from repro.evidence.declared.outcomes import Tested
    from repro.report.formats.blocks import Document
    from repro.report.tour import Tour, TourStage


def register(verbs: Verbs) -> None:
    """Adds this family's verbs."""
    tour = add_verb(verbs, "tour", take_tour)
    add(tour, "--paper", "only this one", metavar="PAPER", words=published_files)

    init = add_verb(verbs, "init", make_project)
    add(init, "folder", "it may exist; no file in it is replaced", metavar="DIR", type=Path)


def take_tour(args: argparse.Namespace) -> None:
    """Run one small experiment for each paper's idea, with its picture (about 10 minutes on 2 cores)."""
    from repro.evidence.table import read_evidence
    from repro.report.formats.documents import page
    from repro.report.formats.terminal import WIDTH, render
    from repro.report.tour import HEAD, claim_test, load_tour

    tour = load_tour()
    stages = tour.stages(args.paper)
    evidence = read_evidence()  # with the project's own records, before the tour's folders stand in for them
    tests = {stage.paper: claim_test(stage, evidence) for stage in tour.papers}
    with apart(runs_dir().absolute() / "tour") as folder:
        for i, stage in enumerate(stages):
            left = sum(minutes_left(tour, later) for later in stages[i:])
            time_left = f"about {left:.0f} min left" if left >= 1 else "less than a minute left"
            print(f"\n[{i + 1} of {len(stages)}] {tests[stage.paper].paper.title}; {time_left}")
            print(textwrap.fill(stage.says, WIDTH), flush=True)
            done = _records(tour, stage)
            for number, (name, recipe) in enumerate(tour.recipes(stage).items(), 1):
                if name not in done:
                    print(f"run {number} of {len(stage.runs)}: {name}, {recipe.experiment}", flush=True)
                    train(recipe, tour.seed)
            results = {one.paper: _result_of(tour, one, tests[one.paper], folder) for one in tour.papers}
            document = [*HEAD, *chain.from_iterable(results.values())]
            write_atomic(folder / "index.html", page(document, plots=".").encode())
            result = results[stage.paper][2:]  # the title and what it says came before the runs
            print(f"{render(result)}\npicture  {folder / stage.picture}")
        print(f"\npage     {folder / 'index.html'}")


@contextmanager
def apart(folder: Path) -> Iterator[Path]:
    """Writes runs and records below a separate folder, which no table reads, and sends nothing to W&B."""
    results = str(folder / "results")
    before = dict(os.environ)
    os.environ.update(
        REPRO_RUNS=str(folder), REPRO_RESULTS=results, REPRO_TRIALS=results, WANDB_MODE="disabled"
    )
    try:
        require_writable(results_dir() / "runs")
        yield folder
    finally:
        os.environ.clear()
        os.environ.update(before)


def _records(tour: "Tour", stage: "TourStage") -> dict[str, RunRecord]:
    """Returns the records of a stage's finished runs, by name."""
    folders = {name: recipe.run_dir(tour.seed) for name, recipe in tour.recipes(stage).items()}
    return {name: record for name, folder in folders.items() if (record := finished_record(folder))}


def minutes_left(tour: "Tour", stage: "TourStage") -> float:
    """Estimates the minutes of a stage's unfinished runs on 2 cores."""
    return stage.minutes * (1 - len(_records(tour, stage)) / len(stage.runs))


def _result_of(tour: "Tour", stage: "TourStage", test: "Tested", folder: Path) -> "Document":
    """Returns the result of a stage and draws its picture in the tour's folder; empty while runs are missing."""
    from repro.experiment.trained import best_translations, draw_attention, load_trained
    from repro.report.plots.files import content
    from repro.report.tour import plot_of, stage_document

    records = _records(tour, stage)
    if len(records) < len(stage.runs):
        return []
    picture = folder / stage.picture
    if not stage.attention:
        write_atomic(picture, content(plot_of(stage, test.paper, records), picture))
    elif not picture.is_file():
        trained = load_trained(str(folder / next(iter(records.values())).run_id))
        ((_, translation),) = best_translations(trained, [stage.attention])
        write_atomic(picture, draw_attention(trained, stage.attention, translation))
    return stage_document(stage, records, test)


def make_project(args: argparse.Namespace) -> None:
    """Make a project folder: an example recipe, a list of plugins, a cluster profile, a README."""
    files = {
        ".gitignore": TEMPLATE / "gitignore",
        PROFILE: SHARED / "slurm" / "clusters" / "example.yaml",
        **files_in([TEMPLATE], "**/*.*"),
    }
    for name in files:
        if (args.folder / name).exists():
            raise UserError(
                f"{args.folder / name} exists; `repro init` replaces no file, choose another folder"
            )
    for name, path in files.items():
        write_atomic(args.folder / name, path.read_bytes())
        print(args.folder / name)
