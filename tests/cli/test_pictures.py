"""attention: the picture of a trained run's continuous memory."""

import shutil
from pathlib import Path

from repro.experiment.pictures.memory_pictures import load_captures, profiles
from repro.experiment.run import run
from repro.recipe import load_recipe
from tests.conftest import TrainedRun
from tests.experiment.pictures.test_memory_pictures import NAME, SORTING
from tests.workshop import TINY, Workshop, call


def test_the_figure_has_where_attention_falls_and_what_is_sampled(workshop: Workshop, tmp_path: Path) -> None:
    text = SORTING.replace("LENGTH", "28").replace("samples: 6", "samples: 6, bins: 7")
    workshop.recipe(text, "one", paper="infinity-former")
    made = run(load_recipe(NAME, "paper"), 1, "x")
    folder = load_recipe(NAME, "paper").run_dir(1)
    for word, suffix, begins in ((NAME, "png", b"\x89PNG"), (folder, "svg", b"<svg")):
        out = tmp_path / f"memory.{suffix}"
        output = call("attention", str(word), "--out", str(out))
        assert (output.code, output.out) == (0, ""), output.err
        assert out.read_bytes().startswith(begins)
    words = out.read_text()
    for shown in ("density of attention", "draws by bin", "share of attention by bin", "layer 2"):
        assert shown in words
    assert f"{NAME}, scale paper, seed 1" in words
    assert made.profiles.keys() == profiles(load_captures(NAME)[1]).keys(), "as on the page of its record"


def test_other_files_and_folders_are_refused(workshop: Workshop, tmp_path: Path) -> None:
    call("attention", NAME, "--out", str(tmp_path / "x.gif")).refused("x.gif", ".svg")
    workshop.recipe(SORTING.replace("LENGTH", "28"), "one", paper="infinity-former")
    run(load_recipe(NAME, "paper"), 1, "x")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(load_recipe(NAME, "paper").run_dir(1) / "model.pt", alone)
    call("attention", str(alone), "--out", str(tmp_path / "x.png")).refused(
        "alone", "no record.json or events.jsonl that names its run; copy one of the two"
    )
    assert not (tmp_path / "x.png").exists()


def test_a_run_without_a_continuous_memory_is_refused(trained: TrainedRun, tmp_path: Path) -> None:
    call("attention", TINY, "--out", str(tmp_path / "x.png")).refused(TINY, "continuous memory")
    call("attention", "nope", "--out", str(tmp_path / "x.png")).refused("'nope'")
