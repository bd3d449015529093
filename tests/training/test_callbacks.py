"""Curves, checkpoints, progress and the status file, driven by a real Trainer on a toy task."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.checkpoints import DurableIO, checkpoint_path, read
from repro.errors import ReproError
from repro.training import callbacks
from repro.training.callbacks import Curves, StatusFile, read_status, slurm_job
from repro.training.progress import Progress, clock
from repro.training.saving import Checkpoints, StepCheckpoints
from tests.tasks.toy import Toy, train


def test_points_are_sums_over_sums() -> None:
    curves = Curves(every_steps=2)
    train([curves], steps=4, val_check_interval=4)
    assert curves.curves["train/loss"] == [[2, 7.0 / 3], [4, 11.0 / 5]]
    assert curves.tokens == 8
    assert curves.curves["val/loss"] == [[4, 4.0]]


def test_a_point_without_targets_is_0() -> None:
    class Silent(Toy):
        def training_step(self, *given: Any) -> dict[str, Any]:
            step = super().training_step(*given)
            return step | {"sums": {name: 0.0 * value for name, value in step["sums"].items()}}

    curves = Curves(every_steps=1)
    train([curves], steps=2, task=Silent(), val_check_interval=8)
    assert curves.curves["train/loss"] == [[1, 0.0], [2, 0.0]]


def test_the_point_before_a_validation_comes_before_the_checkpoint_of_its_step(tmp_path: Path) -> None:
    files, curves = DurableIO(), Curves(every_steps=2)
    train(
        [curves, StepCheckpoints(tmp_path, Checkpoints(3), files)],
        steps=4,
        val_check_interval=3,
        plugins=[files],
    )
    saved = read(checkpoint_path(tmp_path, 3))["callbacks"]["Curves"]
    assert saved["curves"]["train/loss"] == [[2, 7.0 / 3], [3, 8.0 / 4]]
    assert saved["pending"]["sums"] == [{}], "else a run resumed from here logs step 3 a second time"


def test_the_rate_is_that_of_the_update_itself() -> None:
    class Halved(Toy):
        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
            schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    curves = Curves(every_steps=1)
    train([curves], steps=3, task=Halved(), val_check_interval=8)
    assert curves.curves["train/lr"] == [[1, 1.0], [2, 0.5], [3, 0.25]]


def test_a_bar_that_is_disabled_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    curves = Curves(every_steps=1)
    progress = Progress(curves, plain_every_s=0.0)
    progress.disable()
    train([curves, progress], steps=2, val_check_interval=8)
    assert "step" not in capsys.readouterr().err


def test_micro_batches_count_as_one_update() -> None:
    curves = Curves(every_steps=1)
    train([curves], steps=4, micro_batches=2, val_check_interval=8)
    assert curves.curves["train/loss"] == [[1, 7.0 / 3], [2, 11.0 / 5], [3, 7.0 / 7], [4, 13.0 / 4]]


def test_a_repeated_step_replaces_what_came_after_it() -> None:
    curves = Curves()
    for step, value in ((1, 1.0), (2, 2.0), (3, 3.0), (2, 2.5)):
        curves._keep(step, {"train/loss": value})
    assert curves.curves["train/loss"] == [[1, 1.0], [2, 2.5]]


def test_state_survives() -> None:
    curves = Curves(every_steps=1)
    train([curves], steps=2, val_check_interval=8)
    again = Curves()
    again.load_state_dict(curves.state_dict())
    assert (again.curves, again.tokens) == (curves.curves, curves.tokens)
    again.load_state_dict({**curves.state_dict(), "wall_seconds": 1000.0})
    assert 1000.0 < again.wall_seconds < 1100.0, "time adds up over restarts"


def test_thinned_keeps_at_most_200_points_and_both_ends() -> None:
    curves = Curves()
    curves.curves = {"train/loss": [[step, step / 3] for step in range(1, 1001)]}
    points = curves.thinned()["train/loss"]
    assert len(points) == 200
    assert points[0] == [1, 0.333333]
    assert points[-1][0] == 1000


def test_status_and_plain_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curves = Curves(every_steps=1)
    progress = Progress(curves, plain_every_s=0.0)
    status = StatusFile(tmp_path / "status.json", curves, progress, every_s=0.0)
    train([curves, progress, status], steps=3, val_check_interval=3)
    written = json.loads((tmp_path / "status.json").read_text())
    assert (written["state"], written["step"], written["max_steps"], written["seconds_left"]) == (
        "training",
        3,
        3,
        0,
    )
    assert written["train/loss"] == 8.0 / 4
    said = capsys.readouterr().err
    assert "step 2/3  loss 1.000" in said
    assert "tokens/s" in said
    assert "step 3/3  val/loss 3" in said


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65.4, "1:05"), (3723, "1:02:03")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_the_share_of_a_step_sums_to_the_mean_over_all_tokens() -> None:
    task = Toy()
    step_targets = torch.tensor(7)

    class Fake:
        world_size, accumulate_grad_batches = 3, 2

    task._trainer = Fake()  # type: ignore[assignment]
    sums = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]  # three ranks of two micro-batches
    shares: list[Tensor] = [task.share_of_step(torch.tensor(value), step_targets) for value in sums]
    assert float(sum(shares)) / 6 == pytest.approx(63.0 / 7)


def test_the_first_to_say_why_a_run_failed_is_believed(tmp_path: Path) -> None:
    curves = Curves()
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves))
    status.begin(resumed_from=7)
    status.fail("NaN in\n layer 3")
    status.fail("Connection closed by peer")  # of a rank that noticed later
    found = read_status(status.path)
    assert (found["state"], found["message"]) == ("failed", "NaN in layer 3")
    assert (found["attempt"], found["resumed_from"], found["step"]) == (1, 7, 7)
    status.begin(resumed_from=7)
    found = read_status(status.path)
    assert (found["state"], found["attempt"]) == ("starting", 2)
    assert "message" not in found


def test_a_full_disk_ends_no_training_by_its_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, _: bytes) -> None:
        raise ReproError(f"no space left to write {path}")

    curves = Curves(every_steps=1)
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves), every_s=0.0)
    status.begin(resumed_from=0)
    with monkeypatch.context() as patch:
        patch.setattr(callbacks, "write_atomic", full)
        train([curves, status], steps=3)
        status.write("requeue", step=3)
        with pytest.raises(ReproError, match="no space"):
            status.begin(resumed_from=3)
    assert capsys.readouterr().err.count("no space left to write") == 1
    status.write("done", step=3)
    assert read_status(status.path)["state"] == "done", "it is written again once there is space"


def test_how_long_a_job_took_to_its_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = {"now": 5100.0}
    monkeypatch.setattr(time, "time", lambda: clock["now"])
    monkeypatch.setenv("REPRO_BEGAN", "5000")
    curves = Curves()
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves), every_s=0.0)
    status.begin(resumed_from=0)
    clock["now"] = 5160.0
    status.write("requeue", step=0)
    assert read_status(status.path)["startup_s"] == 160, "it was asked to stop before a step"
    clock["now"] = 5170.0
    train([curves, status], steps=2)
    clock["now"] = 9000.0
    status.write("requeue", step=2)
    assert read_status(status.path)["startup_s"] == 170
    monkeypatch.delenv("REPRO_BEGAN")
    status = StatusFile(tmp_path / "status.json", curves, Progress(curves))
    status.begin(resumed_from=2)
    assert "startup_s" not in read_status(status.path), "not in a job"


@pytest.mark.parametrize("text", ["", "{", "[1]", "\udcff"])
def test_a_status_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_bytes(text.encode(errors="surrogateescape"))
    assert read_status(tmp_path / "status.json") == {}


def test_the_job_is_named_as_slurm_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    assert slurm_job() is None
    monkeypatch.setenv("SLURM_JOB_ID", "15")
    assert slurm_job() == "15"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "12")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert slurm_job() == "12_0"
