"""Curves, checkpoints and progress, driven by a real Trainer on a toy task."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from repro import events
from repro.errors import ReproError
from repro.events import EventLog
from repro.training.callbacks import Curves
from repro.training.checkpoints import DurableIO, checkpoint_path, read
from repro.training.progress import Progress
from repro.training.saving import Checkpoints, StepCheckpoints
from tests.tasks.toy import Toy, train, train_logged


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


def test_a_checkpoint_knows_the_events_up_to_the_point_before_a_validation(tmp_path: Path) -> None:
    files, log = DurableIO(), EventLog(tmp_path)
    log.begin(b"", 0, {})
    curves = Curves(2, log)
    around = [curves, StepCheckpoints(tmp_path, Checkpoints(3), files)]
    train_logged(log, around, steps=4, val_check_interval=3, plugins=[files])
    saved = read(checkpoint_path(tmp_path, 3))["callbacks"]["Curves"]
    again = Curves(2, log)
    again.load_state_dict(saved)
    assert again.curves["train/loss"] == [[2, 7.0 / 3], [3, 8.0 / 4]]
    assert saved["pending"]["sums"] == [{}], "else a run resumed from here logs step 3 a second time"
    assert events.curves(events.read(log.path)) == curves.curves
    with log.path.open("r+b") as file:
        file.truncate(saved["events"] - 1)
    with pytest.raises(ReproError, match="is shorter than when the checkpoint was written"):
        again.load_state_dict(saved)


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


def test_state_survives() -> None:
    curves = Curves(every_steps=1)
    train([curves], steps=2, val_check_interval=8)
    again = Curves()
    again.load_state_dict({**curves.state_dict(), "wall_seconds": 1000.0})
    assert again.tokens == curves.tokens
    assert 1000.0 < again.wall_seconds < 1100.0, "time adds up over restarts"


def test_curves_in_a_checkpoint_from_before_there_were_events_are_read(tmp_path: Path) -> None:
    drawn = {"train/loss": [[1, 2.0], [2, 1.5]], "train/lr": [[1, 0.1], [2, 0.2]], "val/loss": [[2, 1.25]]}
    again = Curves(log=EventLog(tmp_path / "run"))
    again.load_state_dict(
        {"curves": drawn, "tokens": 7, "wall_seconds": 0.0, "pending": {"sums": [], "seconds": 0.0}}
    )
    assert again.curves == drawn
    assert [event["kind"] for event in events.decode(again.known)] == ["train", "train", "val"]


def test_thinned_keeps_at_most_200_points_and_both_ends() -> None:
    curves = Curves()
    curves.curves = {"train/loss": [[step, step / 3] for step in range(1, 1001)]}
    points = curves.thinned()["train/loss"]
    assert len(points) == 200
    assert points[0] == (1, 0.333333)
    assert points[-1][0] == 1000


def test_plain_progress(capsys: pytest.CaptureFixture[str]) -> None:
    curves = Curves(every_steps=1)
    train([curves, Progress(curves, plain_every_s=0.0)], steps=3, val_check_interval=3)
    output = capsys.readouterr().err
    assert "step 2/3  loss 1.000" in output
    assert "tokens/s" in output
    assert "step 3/3  val/loss 3" in output


def test_the_share_of_a_step_sums_to_the_mean_over_all_tokens() -> None:
    task = Toy()
    step_targets = torch.tensor(7)

    class Fake:
        world_size, accumulate_grad_batches = 3, 2

    task._trainer = Fake()  # type: ignore[assignment]
    sums = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]  # three ranks of two micro-batches
    shares: list[Tensor] = [task.share_of_step(torch.tensor(value), step_targets) for value in sums]
    assert float(sum(shares)) / 6 == pytest.approx(63.0 / 7)
