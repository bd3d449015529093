"""Of what whoever follows a run is told: numbers that are none, a stall, preemption again and again."""

from typing import Any

import pytest
import torch

from repro import tracking
from repro.experiment.run import count_requeues
from repro.experiment.session import prepare
from repro.recipe import load_recipe
from repro.tasks import Translation
from repro.tasks.callbacks import read_status
from repro.tracking.lightning_logger import WandbMirror
from tests.workshop import TINY, Workshop, call


class Noted:
    """A mirror that only notes what it is given."""

    def __init__(self) -> None:
        self.id, self.url = "abc", None
        self.said: list[tuple[str, Any]] = []

    def put(self, kind: str, what: Any, dying: bool = False) -> None:
        self.said.append((kind, what | ({"dying": True} if dying else {})))

    def close(self, limit_s: float, code: int = 0) -> None:
        self.said.append(("end", code))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """What runs give to W&B, without W&B."""
    made = Noted()
    monkeypatch.setattr(tracking, "logger", lambda *given: WandbMirror(made))  # type: ignore[arg-type]
    return made


def test_a_loss_that_is_no_number_is_told_before_the_run_ends(
    workshop: Workshop, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Translation.training_step
    monkeypatch.setattr(
        Translation, "training_step", lambda *given: step(*given) | {"loss": step(*given)["loss"] * torch.nan}
    )
    said = call("run", TINY, "--scale", "cpu")
    assert said.code == 1
    assert noted.said[-1] == ("end", 1)
    kind, alert = noted.said[-2]
    assert (kind, alert["title"], alert["level"], alert["dying"]) == ("alert", "Not finite", "ERROR", True)
    assert alert["text"].startswith("step 1 is not finite, nothing was updated: rank 0: the loss is nan")


def test_another_failure_is_no_alert(
    workshop: Workshop, noted: Noted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(Translation, "training_step", fails)
    assert call("run", TINY, "--scale", "cpu").code == 1
    assert [kind for kind, _ in noted.said] == ["end"]


def test_a_stall_is_told_by_whoever_has_a_logger(workshop: Workshop, noted: Noted) -> None:
    current = prepare(load_recipe(TINY, "cpu"), 1)
    current.status.path.parent.mkdir(parents=True)
    current.watchdog.farewell("nothing moved for 5 s")
    assert read_status(current.status.path)["message"] == "nothing moved for 5 s"
    current.logger = tracking.logger()
    current.status.path.unlink()
    current.status.path.mkdir()  # so that the status cannot be written
    with pytest.raises(Exception, match=r"status\.json"):
        current.watchdog.farewell("nothing moved for 5 s")
    told = {"title": "Stalled", "text": "nothing moved for 5 s", "level": "WARN", "dying": True}
    assert noted.said == [("alert", told)]


@pytest.mark.parametrize(
    ("earlier", "slurm", "count"),
    [
        ({}, "", 0),
        ({"state": "failed", "attempt": 7}, "", 0),
        ({"state": "requeue", "attempt": 1}, "", 1),
        ({"state": "requeue", "requeues": 1}, "", 2),
        ({"state": "training", "requeues": 1}, "", 1),
        ({"state": "training"}, "3", 3),
        ({"state": "requeue", "requeues": 4}, "3", 5),
        ({"state": "requeue", "requeues": None}, "x", 1),
    ],
)
def test_requeues_are_counted(
    earlier: dict[str, Any], slurm: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_RESTART_COUNT", slurm)
    assert count_requeues(earlier) == count


def test_alerts_are_one_short_line_and_without_a_logger_none() -> None:
    tracking.alert(None, "title", "text")
    made = Noted()
    tracking.alert(WandbMirror(made), "t" * 100, "a\nb\t" + "c" * 1000)  # type: ignore[arg-type]
    ((_, said),) = made.said
    assert (len(said["title"]), said["text"][:4], len(said["text"])) == (64, "a b ", 500)


def test_pictures_summaries_and_tables_go_through_the_file() -> None:
    made = Noted()
    logger = WandbMirror(made)  # type: ignore[arg-type]
    logger.log_picture("drawn", b"\x89PNG", "caption", 3)
    logger.log_summary({"a": torch.tensor(2.5)})
    logger.log_artifact({"name": "x"})
    assert made.said == [
        ("picture", {"key": "drawn", "png": "iVBORw==", "caption": "caption", "step": 3}),
        ("summary", {"a": 2.5}),
        ("artifact", {"name": "x"}),
    ]
