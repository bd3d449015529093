"""Of what whoever follows a run is told: numbers that are none, a stall, preemption again and again."""

from typing import Any

import pytest
import torch
from lightning.pytorch.loggers.logger import Logger

from repro import tracking
from repro.experiment.run import count_requeues
from repro.experiment.session import prepare
from repro.recipe import load_recipe
from repro.tasks import Translation
from repro.training.callbacks import read_status
from tests.workshop import TINY, Workshop, call


class Noted(Logger):
    """A logger that only notes what it is given."""

    name, version, url = "noted", "abc", None

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[str, Any]] = []

    def log_metrics(self, *_: Any, **__: Any) -> None:
        """Not noted."""

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Not noted."""

    def alert(self, title: str, text: str, level: str = "WARN") -> None:
        self.said.append(("alert", (title, text, level)))

    def close(self, limit_s: float, code: int = 0) -> None:
        self.said.append(("end", code))


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Noted:
    """What runs give to W&B, without W&B."""
    made = Noted()
    monkeypatch.setattr(tracking, "logger", lambda *given: made)
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
    kind, (title, text, level) = noted.said[-2]
    assert (kind, title, level) == ("alert", "Not finite", "ERROR")
    assert "step 1" in text


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
    current.logger = noted  # type: ignore[assignment]
    current.status.path.unlink()
    current.status.path.mkdir()  # so that the status cannot be written
    with pytest.raises(Exception, match=r"status\.json"):
        current.watchdog.farewell("nothing moved for 5 s")
    assert noted.said == [("alert", ("Stalled", "nothing moved for 5 s", "WARN")), ("end", 1)]


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
