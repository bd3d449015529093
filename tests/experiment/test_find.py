"""An interrupted run resumes from the newest sound checkpoint, or begins again."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from repro.errors import ReproError, UserError
from repro.experiment import checkpoint
from repro.experiment.checkpoint import find
from repro.experiment.run import run
from repro.recipe import Recipe, load_recipe
from repro.training.checkpoints import DurableIO, checkpoint_path, checkpoints, manifest_path, write
from repro.training.saving import Checkpoints, StepCheckpoints, best_path
from tests.workshop import TINY, Workshop


def saver_of(folder: Path, steps: list[int], **plan: Any) -> StepCheckpoints:
    for step in steps:
        write(checkpoint_path(folder, step), {"state_dict": {}, "global_step": step})
    return StepCheckpoints(folder, Checkpoints(**{"every_steps": 10, **plan}), DurableIO())


def break_(folder: Path, step: int) -> None:
    os.truncate(checkpoint_path(folder, step), 100)


def test_nothing_there_is_a_beginning(tmp_path: Path) -> None:
    result = find(saver_of(tmp_path, []), 100)
    assert (result.path, result.step, result.damaged, result.later) == (None, 0, {}, [])


def test_the_newest_sound_one_is_found_and_damaged_ones_are_named(tmp_path: Path) -> None:
    saver = saver_of(tmp_path, [10, 20, 30, 34])
    assert find(saver, 100).step == 34
    break_(tmp_path, 34)
    manifest_path(checkpoint_path(tmp_path, 30)).unlink()
    result = find(saver, 100)
    assert result.step == 20
    first, second = result.damaged.values()
    assert first.startswith("it has 100 bytes, not ")
    assert second == "it has no manifest, so it was never finished"


def test_all_damaged_is_a_beginning(tmp_path: Path) -> None:
    saver = saver_of(tmp_path, [10, 20])
    break_(tmp_path, 10)
    break_(tmp_path, 20)
    result = find(saver, 100)
    assert (result.path, len(result.damaged)) == (None, 2)


def test_a_run_goes_back_to_before_a_damaged_one_that_would_be_averaged(tmp_path: Path) -> None:
    saver = saver_of(tmp_path, [60, 70, 80, 90, 94], average_last=3, keep=4)
    break_(tmp_path, 80)
    result = find(saver, 100)  # the final model is the mean of 80, 90 and 100
    assert result.step == 70
    assert result.later == [checkpoint_path(tmp_path, 94), checkpoint_path(tmp_path, 90)]
    assert find(saver, 1000).step == 94, "80 is not among the last three of a longer run"
    assert find(saver, 1000, early=True).step == 70, "it may end at 94 or 95"
    saver = saver_of(tmp_path, [], average_last=2, keep=4)
    assert find(saver, 1000, early=True).step == 94, "the mean of 90 and 94"


def test_a_run_goes_back_to_before_a_damaged_best(tmp_path: Path) -> None:
    saver = saver_of(tmp_path, [10], best="val/loss")
    for step, best in ((20, 10), (30, 30), (40, 30)):
        callbacks = {saver.state_key: {"best": (best, 1.0)}}
        write(checkpoint_path(tmp_path, step), {"state_dict": {}, "callbacks": callbacks})
        write(best_path(tmp_path, best), {"state_dict": {}})
    assert find(saver, 100).step == 40
    os.truncate(best_path(tmp_path, 30), 100)
    result = find(saver, 100)
    assert (result.step, list(result.damaged)) == (20, [best_path(tmp_path, 30)])
    assert result.later == [checkpoint_path(tmp_path, 40), checkpoint_path(tmp_path, 30)]


def test_a_run_goes_back_to_before_events_that_are_gone(tmp_path: Path) -> None:
    saver = saver_of(tmp_path / "checkpoints", [])
    for step in (10, 20, 30):
        callbacks = {"Curves": {"events": 10 * step}}
        write(checkpoint_path(saver.folder, step), {"state_dict": {}, "callbacks": callbacks})
    (tmp_path / "events.jsonl").write_bytes(200 * b" ")
    result = find(saver, 100)
    (wrong,) = result.damaged.values()
    assert (result.step, wrong) == (20, "events.jsonl is shorter than when it was written")
    (tmp_path / "events.jsonl").write_bytes(99 * b" ")
    assert find(saver, 100).path is None
    (tmp_path / "events.jsonl").unlink()
    assert find(saver, 100).step == 30, "it is refused, since nothing fits"


SIZES = {"trainer.max_steps": 6, "trainer.val_check_interval": 3, "checkpoints.every_steps": 2}


def tiny(experiment: str = TINY, **more: Any) -> Recipe:
    return load_recipe(experiment, "cpu", list({**SIZES, **more}.items()))


def forget(workshop: Workshop, folder: Path) -> None:
    """The run's record is lost, here and in the results."""
    (folder / "record.json").unlink()
    shutil.rmtree(workshop.results / "runs")


def test_a_damaged_checkpoint_is_set_aside_aloud_and_the_run_ends_the_same(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(tiny(), 1, "x")
    folder = tiny().run_dir(1)
    forget(workshop, folder)
    break_(folder / "checkpoints", 6)
    capsys.readouterr()
    again = run(tiny(), 1, "x")
    output = capsys.readouterr()
    assert "step-00000006.ckpt is damaged (it has 100 bytes" in output.err
    assert "resuming from step 4" in output.out
    assert again.metrics == expected.metrics
    names = [p.name for p in (folder / "checkpoints").iterdir() if "damaged" in p.name]
    assert sorted(names) == ["step-00000006.ckpt.damaged", "step-00000006.ckpt.damaged.json"]


def test_a_run_whose_events_were_shortened_ends_the_same(
    workshop: Workshop, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = run(tiny(), 1, "x")
    folder = tiny().run_dir(1)
    forget(workshop, folder)
    lines = (folder / "events.jsonl").read_bytes().splitlines(True)
    last = next(i for i, line in enumerate(lines) if b'"step": 6' in line)
    (folder / "events.jsonl").write_bytes(b"".join(lines[:last]))
    again = run(tiny(), 1, "x")
    output = capsys.readouterr()
    assert "step-00000006.ckpt is damaged (events.jsonl is shorter than when it was written)" in output.err
    assert "resuming from step 4" in output.out
    assert (again.metrics, again.curves["val/loss"]) == (expected.metrics, expected.curves["val/loss"])


def test_a_folder_that_was_copied_from_another_seed_is_refused(workshop: Workshop) -> None:
    """Neither its record nor its checkpoints are those of the seed."""
    run(tiny(), 1, "x")
    shutil.copytree(tiny().run_dir(1), tiny().run_dir(2))
    with pytest.raises(
        UserError, match=r"record\.json is the record of .*/s1-\w+: a copy; remove its folder"
    ):
        run(tiny(), 2, "x")
    (tiny().run_dir(2) / "record.json").unlink()
    with pytest.raises(UserError, match=r"step-00000006\.ckpt is of seed 1, not 2"):
        run(tiny(), 2, "x")


def test_damage_that_comes_during_the_run_is_found_when_averaging(workshop: Workshop) -> None:
    recipe = tiny()
    run(recipe, 1, "x")
    folder = recipe.run_dir(1)
    forget(workshop, folder)
    manifest_path(checkpoint_path(folder / "checkpoints", 4)).write_text("{}")
    with pytest.raises(ReproError, match=r"step-00000004\.ckpt"):
        checkpoint.average(checkpoints(folder / "checkpoints"))
    run(recipe, 1, "x")
    assert (folder / "record.json").is_file()
