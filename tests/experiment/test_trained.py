"""A trained run in use: what training needed is folded away, and nothing that it says changes."""

import os
from pathlib import Path

import pytest
import torch

from repro.errors import UserError
from repro.experiment.build import build_task
from repro.experiment.run import run
from repro.experiment.session import MODEL_FILE
from repro.experiment.trained import best_translations, find_run, load_trained
from repro.nn.layers.shortcut import weighted_stacks
from repro.nn.layers.sublayer import WeightedShortcut
from repro.recipe import load_recipe
from repro.training.checkpoints import read
from tests.workshop import RECIPE, TINY, Workshop

LINES = ["forty-two", "the third of May", "nine hundred and one"]


def test_weighted_shortcuts_are_folded_away_where_a_model_is_used(workshop: Workshop) -> None:
    deeper = RECIPE.replace("coder_layers: 1", "coder_layers: 2").replace(
        "nn.PostNorm", "nn.WeightedPostNorm"
    )
    workshop.recipe(deeper)
    recipe = load_recipe(TINY, "cpu")
    made = run(recipe, 1, "x")
    trained = load_trained(made.run_id)
    unfolded = build_task(recipe)
    unfolded.load_state_dict(read(recipe.run_dir(1) / MODEL_FILE)["state_dict"])
    assert weighted_stacks(unfolded.net)
    left = [name for name, m in trained.task.net.named_modules() if isinstance(m, WeightedShortcut)]
    assert left == [f"{side}.layers.0.mix.shortcut" for side in ("encoder", "decoder")]
    ids, lengths = trained.sources(LINES)
    target = torch.randint(4, 300, (3, 5))
    with torch.no_grad():
        a, b = (net.eval()(ids, lengths, target).y for net in (trained.task.net, unfolded.net))
    assert float((a - b).abs().max()) < 1e-4
    assert len(best_translations(trained, LINES)) == 3


def test_of_several_runs_the_newest_is_found_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path))
    files = [tmp_path / TINY / "cpu" / name / MODEL_FILE for name in ("s1-0123", "s2-0123")]
    for age, file in enumerate(files):
        file.parent.mkdir(parents=True)
        file.touch()
        os.utime(file, (9 - age, 9 - age))
    damaged = files[0].parents[1] / "s3-0123" / "checkpoints"
    damaged.mkdir(parents=True)
    for step in (2, 3):
        (damaged / f"step-{step:08}.ckpt").touch()
    with pytest.raises(UserError, match="no run"):
        find_run(TINY, "cpu", 3)
    assert find_run(TINY, "cpu", 2) == files[1].parent
    assert capsys.readouterr().err == ""
    assert find_run(TINY, None, None) == files[0].parent
    assert capsys.readouterr().err == f"2 runs of {TINY}; taken: {files[0].parent}\n"
