"""What W&B is told of a run beside its rows."""

import json
from typing import Any

import pytest

from repro.experiment import recording
from repro.experiment.recording import artifacts, close_tracking, known_at_start
from repro.experiment.run import ready, run
from repro.experiment.session import prepare
from repro.pictures import Picture, to_line
from repro.recipe import load_recipe
from repro.record import Measurement, RunRecord
from repro.tracking.labels import OUTPUTS_LIMIT
from tests.workshop import TINY, Workshop


def record(**more: Any) -> RunRecord:
    """A record of no run."""
    metrics = [Measurement("test/a", 1.0, "u", "s"), Measurement("test/a", 2.0, "u", "s", {"beam": 4})]
    given: dict[str, Any] = {
        "experiment": "p/r", "scale": "cpu", "seed": 1, "run_id": "p/r/cpu/s1-0", "command": "c", "config": {},
        "config_hash": "0" * 64, "commit": None, "dirty": None, "versions": {}, "hardware": {}, "precision": "32-true",
        "data": {}, "parameters": 5, "steps": 7, "tokens": 1, "wall_seconds": 1.0, "gpu_hours": 0.0, "peak_bytes": 1,
        "metrics": metrics, "curves": {}, "checkpoint_sha256": "abc", "outputs_sha256": None, "finished": "2026",
    }  # fmt: skip
    return RunRecord(**given | more)


class Given:
    """A logger and a task in one: notes what it is given."""

    def __init__(self) -> None:
        self.said: dict[str, Any] = {}
        self.artifacts: list[dict[str, Any]] = []
        self.mirror = self

    url = None

    def log_metrics(self, values: Any, step: int) -> None:
        self.said["metrics"] = values, step

    def log_table(self, key: str, columns: Any, data: Any) -> None:
        self.said[key] = columns, data

    def log_picture(self, key: str, png: bytes, caption: str) -> None:
        self.said[key] = png[:4], caption

    def log_summary(self, values: Any) -> None:
        self.said["summary"] = values

    def log_artifact(self, one: dict[str, Any]) -> None:
        self.artifacts.append(one)

    def close(self, limit_s: float, code: int) -> None:
        self.said["end"] = code

    def samples(self) -> tuple[list[str], list[list[str]]]:
        return ["source"], [["x"]]


def test_a_run_ends_with_metrics_samples_summary_and_what_it_made() -> None:
    given = Given()
    outputs = to_line(Picture(2, 2, 1, b"abcd"))
    close_tracking(given, record(), given, outputs, {"test/a": 27.3})
    assert given.said == {
        "metrics": ({"test/a": 1.0}, 7),
        "samples": (["source"], [["x"]]),
        "drawn": (b"\x89PNG", "p/r/cpu/s1-0"),
        "summary": {"test/a": 1.0, "published/test/a": 27.3},
        "end": 0,
    }
    assert [one["type"] for one in given.artifacts] == ["model", "record"]


def test_without_pictures_or_samples_there_are_none() -> None:
    given = Given()
    given.samples = lambda: ([], [])  # type: ignore[method-assign]
    close_tracking(given, record(), given, "a translation", {})
    assert set(given.said) == {"metrics", "summary", "end"}
    close_tracking(None, record(), given, None, {})


def test_large_outputs_stay_here_and_weights_always_do() -> None:
    model, told = artifacts(record(), "é" * (OUTPUTS_LIMIT // 2))
    assert set(told["files"]) == {"record.json", "outputs.txt"}
    assert json.loads(told["files"]["record.json"])["run_id"] == "p/r/cpu/s1-0"
    assert (model["metadata"]["sha256"], model["metadata"]["parameters"], model["metadata"]["steps"]) == (
        "abc",
        5,
        7,
    )
    _, told = artifacts(record(), "é" * (OUTPUTS_LIMIT // 2) + "x")
    assert set(told["files"]) == {"record.json"}
    assert [one["type"] for one in artifacts(record(checkpoint_sha256=None), None)] == ["record"]


@pytest.mark.parametrize("kind", ["translation", "stream", "bits"])
def test_what_is_known_at_the_start_is_what_the_record_will_say(workshop: Workshop, kind: str) -> None:
    name = {"translation": lambda: TINY, "stream": workshop.stream, "bits": workshop.bits}[kind]()
    current = prepare(load_recipe(name, "cpu"), 1)
    ready(current)
    told = known_at_start(current)
    assert set(told) >= {"commit", "dirty", "data", "versions", "hardware", "precision", "start_from"}
    assert len(told["data"]["manifest_sha256"]) == 64
    assert all(sum(counts.values()) > 0 for counts in told["data"]["counts"].values())
    assert str(workshop.root) not in json.dumps(told)


def test_a_translation_shows_what_it_looked_at(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given()

    def close(_: Any, *rest: Any) -> None:
        close_tracking(given, *rest)

    monkeypatch.setattr(recording, "close_tracking", close)
    made = run(load_recipe(TINY, "cpu", [("trainer.gradient_clip_val", 0.5)]), 1, "x")
    assert made.overrides == ["--trainer.gradient_clip_val=0.5"]
    assert given.said["attention"] == (b"\x89PNG", made.run_id)
    assert [one["type"] for one in given.artifacts] == ["model", "record"]
