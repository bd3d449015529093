"""Checkpoints that are written, kept, and used for the final model."""

import math
import os
from pathlib import Path

import pytest
import torch

from repro.errors import ReproError
from repro.events import EVENTS_FILE, EventLog
from repro.events import read as read_events
from repro.experiment.checkpoint import find
from repro.training import saving
from repro.training.callbacks import Curves
from repro.training.checkpoints import DurableIO, checkpoint_path, checkpoints, read
from repro.training.saving import Checkpoints, StepCheckpoints, best_checkpoints, best_path
from tests.tasks.toy import BATCHES, train, train_logged


def names(folder: Path) -> list[str]:
    return [path.name for path in checkpoints(folder)]


def test_checkpoints_come_every_n_updates_and_at_the_end(tmp_path: Path) -> None:
    log, files = EventLog(tmp_path), DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(every_steps=3, keep=3), files)
    train_logged(log, [Curves(5, log), saver], steps=8, val_check_interval=8, plugins=[files])
    assert names(tmp_path) == ["step-00000003.ckpt", "step-00000006.ckpt", "step-00000008.ckpt"]
    loaded = read(tmp_path / "step-00000008.ckpt")
    assert loaded["global_step"] == 8
    assert loaded["callbacks"]["Curves"]["tokens"] == sum(tokens for _, tokens in BATCHES)
    steps = [event["step"] for event in read_events(tmp_path / EVENTS_FILE) if event["kind"] == "train"]
    assert steps == [5, 8], "a checkpoint adds no point to the curves"
    pending = read(tmp_path / "step-00000006.ckpt")["callbacks"]["Curves"]["pending"]
    assert pending["sums"] == [{"loss": 2.0, "tokens": 2.0}], "and loses none of what came since the last"


def test_the_newest_are_kept(tmp_path: Path) -> None:
    files = DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(every_steps=1, keep=2), files)
    train([Curves(), saver], steps=8, val_check_interval=8, plugins=[files])
    assert names(tmp_path) == ["step-00000007.ckpt", "step-00000008.ckpt"]
    assert len(list(tmp_path.iterdir())) == 4, "manifests go with their files"


def test_one_written_in_between_goes_with_the_next_planned_one_and_takes_no_place(tmp_path: Path) -> None:
    class Asked(StepCheckpoints):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):  # type: ignore[no-untyped-def]
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
            if trainer.global_step in (3, 5):
                self.save(trainer)
                seen.append(names(tmp_path))

    seen: list[list[str]] = []
    files = DurableIO()
    saver = Asked(tmp_path, Checkpoints(every_steps=2, average_last=2), files)
    train([Curves(), saver], steps=8, val_check_interval=8, plugins=[files])
    assert seen[0] == ["step-00000002.ckpt", "step-00000003.ckpt"]
    assert seen[1] == ["step-00000002.ckpt", "step-00000004.ckpt", "step-00000005.ckpt"]
    assert (
        [path.name for path in saver.final(8)]
        == names(tmp_path)
        == ["step-00000006.ckpt", "step-00000008.ckpt"]
    )


def test_the_average_is_of_planned_checkpoints() -> None:
    plan = Checkpoints(every_steps=3, average_last=3)
    assert plan.averaged(8) == [3, 6, 8]
    assert plan.averaged(9) == [3, 6, 9]
    assert plan.averaged(2) == [2]
    assert Checkpoints(every_steps=10).averaged(30) == [30]


@pytest.mark.parametrize(("best_is", "step", "kept"), [("min", 2, [2]), ("max", 12, [6, 12])])
def test_the_best_is_kept_now_and_at_each_checkpoint(
    tmp_path: Path, best_is: str, step: int, kept: list[int]
) -> None:
    files = DurableIO()  # the toy's validation loss is the number of its step
    saver = StepCheckpoints(tmp_path, Checkpoints(4, best="val/loss", best_is=best_is), files)  # type: ignore[arg-type]
    train([Curves(), saver], steps=12, val_check_interval=2, plugins=[files])
    (path,) = saver.final(12)
    assert path == best_path(tmp_path, step)
    assert read(path)["global_step"] == step
    assert saver.best == (step, float(step))
    assert best_checkpoints(tmp_path) == [best_path(tmp_path, one) for one in kept], (
        "others that are beaten go"
    )
    os.truncate(checkpoint_path(tmp_path, 12), 100)
    assert find(saver, 12).step == 8, "the checkpoint before the damaged one has its best"


def test_a_validation_that_is_not_finite_is_never_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = iter([math.nan, 3.0, math.inf, math.nan])
    monkeypatch.setattr(saving, "validated", lambda *_: next(values))
    files = DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(4, best="val/loss"), files)
    train([Curves(), saver], steps=8, val_check_interval=2, plugins=[files])
    assert saver.best == (4, 3.0)


def test_what_a_killed_save_left_goes(tmp_path: Path) -> None:
    left = [tmp_path / ".step-00000004.ckpt.x1", tmp_path / ".best-00000004.ckpt.json.x2"]
    for path in left:
        path.write_bytes(b"half")
    files = DurableIO()
    train([Curves(), StepCheckpoints(tmp_path, Checkpoints(4), files)], steps=8, plugins=[files])
    assert [path for path in left if path.exists()] == []


def test_a_best_is_taken_up_where_its_file_is(tmp_path: Path) -> None:
    plan = Checkpoints(4, best="val/loss")
    for there, expected in ((False, None), (True, (2, 2.0))):
        saver = StepCheckpoints(tmp_path, plan, DurableIO())
        if there:
            best_path(tmp_path, 2).touch()
        saver.load_state_dict({"best": (2, 2.0)})
        assert saver.best == expected, "a run that goes on from another's training has a best of its own"


def test_a_best_that_is_not_measured_is_refused(tmp_path: Path) -> None:
    files = DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(4, best="val/bleu"), files)
    with pytest.raises(ReproError, match=r"'val/bleu'.*val/loss"):
        train([Curves(), saver], steps=8, val_check_interval=2, plugins=[files])
    with pytest.raises(ReproError, match="no validation gave a finite number"):
        saver.final(8)


def test_what_excludes_each_other_is_refused() -> None:
    with pytest.raises(ValueError, match=r"average_last 3 and checkpoints.best val/loss"):
        Checkpoints(1, average_last=3, best="val/loss")
    with pytest.raises(ValueError, match=r"every_steps.*1, not 0"):
        Checkpoints(0)


def test_a_failed_save_ends_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    files = DurableIO()
    saver = StepCheckpoints(tmp_path / "file", Checkpoints(2), files)
    with pytest.raises(ReproError, match="cannot write the checkpoint"):
        train([Curves(), saver], steps=8, val_check_interval=8, plugins=[files])


def test_weights_are_those_of_the_step(tmp_path: Path) -> None:
    files = DurableIO()
    saver = StepCheckpoints(tmp_path, Checkpoints(8), files)
    trainer = train([Curves(), saver], steps=8, val_check_interval=8, plugins=[files])
    expected = trainer.lightning_module.state_dict()
    result = read(saver.final(8)[0])["state_dict"]
    assert all(torch.equal(result[name], expected[name]) for name in expected)
