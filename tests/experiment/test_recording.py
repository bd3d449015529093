"""The first and the last events of a run."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from repro.errors import ReproError
from repro.events import EVENTS_FILE, Event, EventLog, read
from repro.experiment import recording
from repro.experiment.recording import first_event, slurm_job, wandb_id, write_last_events
from repro.experiment.run import ready, run
from repro.experiment.session import Run, prepare
from repro.recipe import load_recipe
from repro.record import Measurement, RunRecord
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
    """A task that has samples."""

    rows: ClassVar[list[list[str]]] = [["x"]]

    def samples(self) -> tuple[list[str], list[list[str]]]:
        return ["source"], self.rows


def last_events(folder: Path, task: Given, outputs: str) -> list[Event]:
    made = record(config={"reproduces": [{"measured": "test/a"}, {"measured": "test/b"}]})
    parts = SimpleNamespace(task=task)
    current = SimpleNamespace(events=EventLog(folder), parts=parts, published={"test/a": 27.3})
    write_last_events(current, made, outputs)  # type: ignore[arg-type]
    return read(folder / EVENTS_FILE)


def test_a_run_ends_with_metrics_samples_summary_and_pictures(tmp_path: Path) -> None:
    metrics, samples, summary, drawn = last_events(tmp_path, Given(), "2x2x1:eNpLTEpOAQAD2AGL")
    assert (metrics["kind"], metrics["step"], metrics["test/a"]) == ("test", 7, 1.0)
    assert (samples["table"], samples["columns"], samples["rows"]) == ("samples", ["source"], [["x"]])
    assert summary["summary"] == {
        "test/a": 1.0,
        "published/test/a": 27.3,
        "score/name": "test/a",
        "score/ours": 1.0,
        "score/published": 27.3,
        "wall_seconds": 1.0,
        "gpu_hours": 0.0,
    }
    assert (drawn["picture"], drawn["file"], drawn["caption"]) == ("drawn", "drawn.png", "p/r/cpu/s1-0")
    assert (tmp_path / "drawn.png").read_bytes()[:4] == b"\x89PNG"


def test_without_pictures_or_samples_there_are_none(tmp_path: Path) -> None:
    given = Given()
    given.rows = []  # type: ignore[misc]
    assert [event["kind"] for event in last_events(tmp_path, given, "a translation")] == ["test", "note"]


@pytest.mark.parametrize("killed_in", ["write_last_events", "write_record", "write_atomic"])
def test_a_run_that_is_killed_while_it_is_recorded_ends_by_the_same_command(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    """Its last events, from which W&B knows how it ended, are there in the end."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    recipe = load_recipe(TINY, "cpu")
    folder = recipe.run_dir(1)
    monkeypatch.setenv("WANDB_MODE", "offline")
    with monkeypatch.context() as patch:
        patch.setattr(recording, killed_in, kill)
        with pytest.raises(KeyboardInterrupt):
            run(recipe, 1, "x")
    run(recipe, 1, "x")
    events = read(folder / EVENTS_FILE)
    assert (folder / "record.json").is_file()
    assert events[-1]["state"] == "done"
    assert sum("summary" in event for event in events) == 1


def test_a_run_whose_events_are_gone_has_no_record(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have no attempts."""
    recipe = load_recipe(TINY, "cpu")
    assemble = recording.assemble

    def lose(current: Run, *rest: Any) -> RunRecord:
        current.events.path.write_bytes(b"\n")
        return assemble(current, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(recording, "assemble", lose)
        with pytest.raises(ReproError, match="it was shortened or removed"):
            run(recipe, 1, "x")
    assert not workshop.records()
    assert run(recipe, 1, "x").attempts


def test_an_error_in_the_last_events_does_not_lose_the_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(recording, "write_last_events", None)
    recipe = load_recipe(TINY, "cpu")
    run(recipe, 1, "x")
    assert (recipe.run_dir(1) / "record.json").is_file()
    assert read(recipe.run_dir(1) / EVENTS_FILE)[-1]["state"] == "done"


def test_two_people_have_two_runs_on_wandb_and_attempts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_RUN_ID", "WANDB_SWEEP_ID"):
        monkeypatch.delenv(name, raising=False)
    first, other = wandb_id([]), wandb_id([])
    assert first != other
    assert wandb_id([{"run": "x", "wandb_id": first}, {"run": "x", "wandb_id": "later"}]) == first
    monkeypatch.setenv("WANDB_RUN_ID", "abcd1234")
    assert wandb_id([]) != "abcd1234", "set for no sweep"
    monkeypatch.setenv("WANDB_SWEEP_ID", "s")
    assert wandb_id([]) == "abcd1234"


def test_the_job_is_named_as_slurm_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    assert slurm_job() is None
    monkeypatch.setenv("SLURM_JOB_ID", "15")
    assert slurm_job() == "15"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "12")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert slurm_job() == "12_0"


@pytest.mark.parametrize("kind", ["translation", "stream", "bits"])
def test_what_is_known_at_the_start_is_what_the_record_will_say(workshop: Workshop, kind: str) -> None:
    name = {"translation": lambda: TINY, "stream": workshop.stream, "bits": workshop.bits}[kind]()
    current = prepare(load_recipe(name, "cpu"), 1)
    ready(current)
    first = first_event(current)
    messages = first["config"]
    assert first["run"] == current.recipe.run_id(1)
    assert (messages["paper"], messages["scale"]) == (name.partition("/")[0], "cpu")
    assert set(messages) >= {
        "max_steps",
        "commit",
        "dirty",
        "data",
        "versions",
        "hardware",
        "precision",
        "start_from",
    }
    assert len(messages["data"]["manifest_sha256"]) == 64
    assert all(sum(counts.values()) > 0 for counts in messages["data"]["counts"].values())
    assert str(workshop.root) not in json.dumps(first)


def test_a_run_knows_what_was_changed(workshop: Workshop) -> None:
    made = run(load_recipe(TINY, "cpu", [("trainer.gradient_clip_val", 0.5)]), 1, "x")
    assert made.overrides == ["--trainer.gradient_clip_val=0.5"]
