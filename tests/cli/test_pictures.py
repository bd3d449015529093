"""attention: the picture of a trained run's continuous memory."""

from pathlib import Path

import pytest
import torch

from repro.experiment import checkpoint
from repro.experiment.build import build_task
from repro.recipe import load_recipe
from tests.conftest import TrainedRun
from tests.experiment.pictures.test_memory_pictures import NAME, SORTING
from tests.workshop import TINY, Workshop, call


@pytest.fixture
def sorter(workshop: Workshop) -> Path:
    """The folder of a run with random weights."""
    workshop.recipe(SORTING.replace("LENGTH", "28"), "one", paper="infinity-former")
    recipe = load_recipe(NAME, "paper")
    torch.manual_seed(0)
    task = build_task(recipe)
    folder = recipe.run_dir(1)
    folder.mkdir(parents=True)
    mark = checkpoint.stamp(recipe.signature, None)
    checkpoint.write_model(folder / "model.pt", task.state_dict(), recipe.config, mark)
    return folder


def test_the_sheet_is_written_and_smaller_for_one_layer(sorter: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.png", tmp_path / "part.png"
    output = call("attention", NAME, "--out", str(whole))
    assert (output.code, output.out) == (0, ""), output.err
    assert call("attention", str(sorter), "--layers", "2", "--out", str(part)).code == 0
    height, less = (int.from_bytes(path.read_bytes()[20:24], "big") for path in (whole, part))
    assert whole.read_bytes().startswith(b"\x89PNG")
    assert less < height


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--layers", "3"), "layer 3"), (("--heads", "0"), "head 0"), (("--layers", "x"), "'x'")],
)
def test_what_is_not_there_is_refused(
    sorter: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "x.png"
    call("attention", NAME, "--out", str(out), *words).refused(message)
    assert not out.exists()


def test_a_run_without_a_continuous_memory_is_refused(trained: TrainedRun, tmp_path: Path) -> None:
    call("attention", TINY, "--out", str(tmp_path / "x.png")).refused(TINY, "continuous memory")
    call("attention", "nope", "--out", str(tmp_path / "x.png")).refused("'nope'")
