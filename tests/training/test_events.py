"""Rows of a real Trainer as events, and signs of life between them."""

from pathlib import Path

import pytest
import torch
from lightning.pytorch.loggers import CSVLogger

from repro.events import EventLog, read
from repro.training.callbacks import Curves
from repro.training.events import EventLogger, Heartbeat
from tests.tasks.toy import train_logged


def kinds(log: EventLog) -> list[tuple[str, int]]:
    return [(event.get("state", event["kind"]), event["step"]) for event in read(log.path)]


@pytest.mark.parametrize(
    ("every_s", "beats"), [(60.0, [("training", 1)]), (-1.0, [("training", step) for step in (1, 2, 2, 3)])]
)
def test_a_run_says_that_it_trains_and_then_only_where_nothing_else_does(
    tmp_path: Path, every_s: float, beats: list[tuple[str, int]]
) -> None:
    log = EventLog(tmp_path)
    train_logged(log, [Curves(2, log), Heartbeat(log, every_s)], steps=3, val_check_interval=2)
    result = kinds(log)
    assert [one for one in result if one[0] == "training"] == beats
    assert [one for one in result if one[0] != "training"] == [("train", 2), ("val", 2), ("train", 3)]


def test_another_logger_has_each_row_at_once_with_its_step(tmp_path: Path) -> None:
    """Nothing is lost if the run is killed."""
    rows = EventLogger(EventLog(tmp_path), lambda: 10, [CSVLogger(tmp_path, name="csv")])
    rows.log_metrics({"val/loss": torch.tensor(0.5)}, 9)
    path = tmp_path / "csv" / "version_0" / "metrics.csv"
    assert path.read_text().split() == ["step,val/loss", "10,0.5"]
    rows.log_metrics({"train/loss": 0.25}, 11)
    assert path.read_text().split() == ["step,train/loss,val/loss", "10,,0.5", "10,0.25,"]
    rows.finalize("success")


def test_numbers_of_tensors_are_numbers(tmp_path: Path) -> None:
    log = EventLog(tmp_path)
    EventLogger(log, lambda: 3).log_metrics({"test/loss": torch.tensor(0.5), "epoch": 1}, 2)
    (event,) = read(log.path)
    assert {name: event[name] for name in ("kind", "step", "test/loss", "epoch")} == {
        "kind": "test", "step": 3, "test/loss": 0.5, "epoch": 1,
    }  # fmt: skip
