"""One experiment from recipe to record; interrupted and resumed; refused where it must be."""

import contextlib
import errno
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import (
    DeviceStatsMonitor,
    EarlyStopping,
    EMAWeightAveraging,
    ModelSummary,
    ProgressBar,
)

from repro.data.store_data import StoreDataModule
from repro.errors import ReproError, UserError
from repro.evidence.ledger import unfinished
from repro.experiment import checkpoint, session
from repro.experiment import run as running
from repro.experiment.build import build
from repro.experiment.checkpoint import Resume
from repro.experiment.compiling import ENDED
from repro.experiment.run import claimed, run
from repro.experiment.session import MODEL_FILE, prepare
from repro.experiment.trained import load_with_data
from repro.experiment.trainer import make_trainer
from repro.files import lock
from repro.ledger import HEADER, read_ledger
from repro.recipe import Recipe, load_recipe
from repro.record import LEDGER, RECORD_FILE, RunRecord
from repro.tasks.metrics.bleu import WAYS
from repro.training.checkpoints import DurableIO, checkpoint_path, checkpoints, fault, read, write
from tests.workshop import TINY, Workshop

SIZES = {"trainer.max_steps": 6, "trainer.val_check_interval": 3, "checkpoints.every_steps": 2}


def tiny(**more: Any) -> Recipe:
    return load_recipe(TINY, "cpu", list({**SIZES, **more}.items()))


def test_a_run_without_a_trainer_section_is_refused_in_one_line(workshop: Workshop) -> None:
    recipe = tiny()
    del recipe.config["trainer"]
    with pytest.raises(UserError, match="the recipe has no section trainer"):
        session.prepare(recipe, 1)


def test_a_run_may_be_without_a_progress_bar(workshop: Workshop) -> None:
    trainer = session.prepare(tiny(**{"trainer.enable_progress_bar": False}), 1).trainer
    assert not [one for one in trainer.callbacks if isinstance(one, ProgressBar)]


def test_a_run_leaves_model_tokeniser_status_and_record(workshop: Workshop) -> None:
    recipe = tiny()
    record = run(recipe, seed=1, command="repro run ...")
    folder = recipe.run_dir(1)
    assert record.run_id == f"{TINY}/cpu/s1-{recipe.hash8}"
    assert record.steps == 6
    assert record.tokens > 500
    assert [path.name for path in checkpoints(folder / "checkpoints")] == [
        "step-00000004.ckpt",
        "step-00000006.ckpt",
    ]
    assert {"config.yaml", "events.jsonl", MODEL_FILE, RECORD_FILE, "tokenizer.json"} <= {
        p.name for p in folder.iterdir()
    }
    (written,) = (workshop.results / "runs").rglob("*.json")
    assert RunRecord.from_json(written.read_text()).to_json() == record.to_json()
    assert written.with_suffix(".outputs.txt").read_text().count("\n") == 15
    names = {m.name for m in record.metrics}
    bleus = {f"test/{way}" for way in WAYS}
    assert names == {
        *bleus,
        "test/exact_match",
        "test/nll",
        "test/ppl",
        "test/loss",
        "val/diverged",
        "val/failed",
    }
    assert all(m.validation is not None for m in record.metrics)
    assert str(workshop.root) not in record.to_json(), "a record holds no absolute path"
    mean = checkpoint.average(checkpoints(folder / "checkpoints"))
    final = read(folder / MODEL_FILE)["state_dict"]
    assert all(torch.equal(final[name], mean[name]) for name in mean)


def test_a_finished_run_is_not_run_again(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(tiny(), seed=1, command="x")
    monkeypatch.setattr(running, "fit", None)
    assert run(tiny(), seed=1, command="x").to_json() == first.to_json()


def test_a_run_that_another_process_finished_meanwhile_is_not_run_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, read_record = run(tiny(), 1, "x"), running.finished_record
    answers = iter([None])  # before the wait for the folder
    monkeypatch.setattr(running, "finished_record", lambda folder: next(answers, read_record(folder)))
    monkeypatch.setattr(running, "start", lambda *_: pytest.fail("it runs again"))
    assert run(tiny(), 1, "x") == first


def test_mixed_precision_trains_decodes_and_says_so(workshop: Workshop) -> None:
    exact, rough = (run(tiny(**more), 1, "x") for more in ({}, {"trainer.precision": "bf16-mixed"}))
    assert (exact.precision, rough.precision) == ("32-true", "bf16-mixed")
    (loss, other) = (made.metric("test/loss") for made in (exact, rough))
    assert loss is not None
    assert other is not None
    assert 0 < abs(loss.value - other.value) < 0.02 * loss.value


class Averaging(EMAWeightAveraging):
    """A user's own callback that averages weights."""


class Early(pl.Callback):
    """A user's own callback that ends training."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        trainer.should_stop = trainer.global_step >= 3


class Stop(pl.Callback):
    """Ends the process's work after an update, as a kill would, just behind a checkpoint."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise RuntimeError("stopped")


class EndsEagerly(Stop):
    """Also lets the network's method end eagerly, as one that met too many shapes."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        setattr(pl_module, ENDED, {f"Task.step{self.step}"})


def final_weights(recipe: Recipe) -> dict[str, torch.Tensor]:
    weights: dict[str, torch.Tensor] = read(recipe.run_dir(1) / MODEL_FILE)["state_dict"]
    return weights


def test_an_interrupted_run_resumes_and_ends_the_same(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny()
    whole = run(recipe, seed=1, command="x")
    expected = final_weights(recipe)
    shutil.rmtree(workshop.runs)
    shutil.rmtree(workshop.results / "runs")

    original = session.make_trainer
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: original(given, [*calls, Stop(4)], *rest)
    )
    with pytest.raises(RuntimeError, match="stopped"):
        run(recipe, seed=1, command="x")
    monkeypatch.setattr(session, "make_trainer", original)
    resumed = run(recipe, seed=1, command="x")
    result = final_weights(recipe)
    assert all(torch.equal(result[name], expected[name]) for name in expected)
    assert (whole.mixed, resumed.mixed, len(resumed.attempts)) == (False, False, 2)
    assert resumed.tokens == whole.tokens
    assert resumed.curves["train/loss"] == whole.curves["train/loss"]


def test_the_record_names_what_ended_eagerly_in_any_attempt(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, original = tiny(), session.make_trainer
    for step in (2, 4, 100):
        monkeypatch.setattr(
            session,
            "make_trainer",
            lambda given, calls, *rest, step=step: original(given, [*calls, EndsEagerly(step)], *rest),
        )
        with pytest.raises(RuntimeError, match="stopped") if step < 100 else contextlib.nullcontext():
            run(recipe, seed=1, command="x")
    (written,) = (workshop.results / "runs").rglob("*.json")
    eager = [line for line in RunRecord.from_json(written.read_text()).deviations if "eagerly" in line]
    assert eager == [
        f"compile: Task.step{step} met too many shapes and ended eagerly" for step in (100, 2, 4)
    ]


def test_a_run_is_not_resumed_with_other_code_unless_that_is_accepted(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record names the code of each attempt, and does not count."""
    recipe, original, now = tiny(), session.make_trainer, session.source()
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: original(given, [*calls, Stop(4)], *rest)
    )
    with pytest.raises(RuntimeError, match="stopped"):
        run(recipe, seed=1, command="x")
    monkeypatch.setattr(session, "make_trainer", original)
    monkeypatch.setattr(session, "source", lambda: replace(now, commit="c" * 40, sha256="d" * 64))
    with pytest.raises(UserError, match=f"code {now.sha256[:8]} → dddddddd.*--accept-changes"):
        run(recipe, seed=1, command="x")
    record = run(recipe, seed=1, command="x", accept_changes=True)
    assert record.mixed
    (written,) = (workshop.results / "runs").rglob("*.json")
    first, last = RunRecord.from_json(written.read_text()).attempts
    assert (first["commit"], first["code_sha256"], first["first"], first["last"]) == (
        now.commit,
        now.sha256,
        0,
        4,
    )
    assert (last["commit"], last["code_sha256"], last["first"], last["last"]) == ("c" * 40, "d" * 64, 4, 6)


def test_a_run_is_not_resumed_on_other_data(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, original = tiny(), session.make_trainer
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: original(given, [*calls, Stop(4)], *rest)
    )
    with pytest.raises(RuntimeError, match="stopped"):
        run(recipe, seed=1, command="x")
    monkeypatch.setattr(session, "make_trainer", original)
    monkeypatch.setattr(StoreDataModule, "manifest_sha256", "d" * 64)
    with pytest.raises(UserError, match=r"data [0-9a-f]{8} → dddddddd.*--accept-changes"):
        run(recipe, seed=1, command="x")
    record = run(recipe, seed=1, command="x", accept_changes=True)
    assert record.mixed
    assert [one["data"]["manifest_sha256"] == "d" * 64 for one in record.attempts] == [False, True]
    load_with_data(record.run_id)
    monkeypatch.setattr(StoreDataModule, "manifest_sha256", "e" * 64)
    with pytest.raises(UserError, match=r"was trained on another .* \(manifest dddddddd, here eeeeeeee\)"):
        load_with_data(record.run_id)


def test_a_checkpoint_from_before_there_were_events_is_resumed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, original = tiny(), session.make_trainer
    whole = run(recipe, seed=1, command="x")
    folder = recipe.run_dir(1)
    shutil.rmtree(folder)
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: original(given, [*calls, Stop(4)], *rest)
    )
    with pytest.raises(RuntimeError, match="stopped"):
        run(recipe, seed=1, command="x")
    monkeypatch.setattr(session, "make_trainer", original)
    for path in checkpoints(folder / "checkpoints"):
        loaded = read(path)
        del loaded["repro"]["made_by"]
        state = loaded["callbacks"]["Curves"]
        points = {
            name: [p for p in curve if p[0] <= loaded["global_step"]] for name, curve in whole.curves.items()
        }
        del state["events"]
        state["curves"] = points
        write(path, loaded)
    (folder / "events.jsonl").rename(folder / "status.json")
    with pytest.raises(UserError, match="--accept-changes"):
        run(recipe, seed=1, command="x")
    again = run(recipe, seed=1, command="x", accept_changes=True)
    assert again.checkpoint_sha256 == whole.checkpoint_sha256
    assert again.curves["val/loss"] == whole.curves["val/loss"]
    assert again.curves["train/loss"] == whole.curves["train/loss"]
    assert again.mixed, "nobody knows what wrote the checkpoint"


def ledger_of(workshop: Workshop) -> Path:
    path = workshop.results / "runs" / LEDGER
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}\n")
    return path


def test_a_judged_seed_is_in_the_ledger_before_its_first_update_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, recipe, original = ledger_of(workshop), tiny(), running.fit

    def checked(current: session.Run, resume: Resume) -> None:
        (line,) = read_ledger(ledger.parent)
        assert (line.event, line.path, line.sha256) == ("started", recipe.run_id(1), recipe.config_hash)
        assert not list(recipe.run_dir(1).rglob("*.ckpt")) or resume.step
        original(current, resume)

    monkeypatch.setattr(running, "fit", checked)
    make = session.make_trainer
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: make(given, [*calls, Stop(4)], *rest)
    )
    with pytest.raises(RuntimeError, match="stopped"):
        run(untouched(recipe), seed=1, command="x")
    monkeypatch.setattr(session, "make_trainer", make)
    assert unfinished(ledger.parent) == [recipe.run_id(1)]
    run(untouched(recipe), seed=1, command="x")
    assert len(read_ledger(ledger.parent)) == 1, "resuming adds no line"
    assert unfinished(ledger.parent) == []


def stopped(*_: object) -> None:
    raise RuntimeError("stopped")


def untouched(recipe: Recipe) -> Recipe:
    """The recipe as if its file had all its settings."""
    return replace(recipe, overrides=())


@pytest.mark.parametrize(
    ("overrides", "seed", "lines"),
    [((), 100, 0), ((), 99, 1), (("--trainer.accelerator=cpu",), 1, 1), (("--model.beam=1",), 1, 0)],
)
def test_only_what_may_be_judged_is_in_the_ledger(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], seed: int, lines: int
) -> None:
    ledger = ledger_of(workshop)
    monkeypatch.setattr(running, "fit", stopped)
    with pytest.raises(RuntimeError, match="stopped"):
        run(replace(tiny(), overrides=overrides), seed, command="x")
    assert len(read_ledger(ledger.parent)) == lines


def test_a_start_that_cannot_be_noted_stops_the_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_of(workshop)
    ledger.write_text("no ledger\n")
    monkeypatch.setattr(running, "fit", stopped)
    with pytest.raises(UserError, match="malformed"):
        run(untouched(tiny()), seed=1, command="x")
    assert ledger.read_text() == "no ledger\n"

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ledger.write_text(f"{HEADER}\n")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReproError, match="no space left"):
        run(untouched(tiny()), seed=1, command="x")
    assert ledger.read_text() == f"{HEADER}\n"


STOP = [("stop", {"metric": "val/loss", "at_least": 0.0, "validations": 2})]  # any loss is good enough


def stopping(**more: Any) -> Recipe:
    return load_recipe(TINY, "cpu", [*{**SIZES, "trainer.val_check_interval": 2, **more}.items(), *STOP])


def test_a_run_that_meets_its_stop_rule_is_the_shorter_run(workshop: Workshop) -> None:
    recipe = stopping()
    made = run(recipe, seed=1, command="x")
    assert made.steps == 4
    assert [step for step, _ in made.curves["val/loss"]] == [2, 4]
    expected = final_weights(recipe)
    shorter = tiny(**{"trainer.val_check_interval": 2, "trainer.max_steps": 4})
    run(shorter, seed=1, command="x")
    assert all(torch.equal(expected[name], value) for name, value in final_weights(shorter).items())


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "last-checkpoint-lost"])
def test_a_run_that_met_its_stop_rule_is_not_trained_further(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    recipe = stopping(**{"checkpoints.average_last": 1, "checkpoints.every_steps": 3})
    run(recipe, seed=1, command="x")
    folder = recipe.run_dir(1)
    expected = final_weights(recipe)
    (folder / RECORD_FILE).unlink()
    (folder / MODEL_FILE).unlink()
    shutil.rmtree(workshop.results / "runs")
    if lost:
        checkpoint_path(folder / "checkpoints", 4).unlink()
    else:
        monkeypatch.setattr(pl.Trainer, "fit", None)
    assert run(recipe, seed=1, command="x").steps == 4
    assert all(torch.equal(expected[name], value) for name, value in final_weights(recipe).items())


def test_a_stop_rule_names_a_metric_that_is_measured(workshop: Workshop) -> None:
    recipe = load_recipe(TINY, "cpu", [*SIZES.items(), ("stop", {"metric": "val/joy", "at_least": 1.0})])
    with pytest.raises(ReproError, match=r"stop\.metric.*'val/joy'"):
        run(recipe, seed=1, command="x")


def test_a_checkpoint_of_another_signature_is_refused(workshop: Workshop) -> None:
    mine, other = tiny(), tiny(**{"model.label_smoothing": 0.2})
    run(other, seed=1, command="x")
    shutil.copytree(other.run_dir(1) / "checkpoints", mine.run_dir(1) / "checkpoints")
    with pytest.raises(UserError, match=r"model\.init_args\.label_smoothing: 0\.2 → \(not set\)"):
        run(mine, seed=1, command="x")


def test_a_folder_is_claimed_by_one_process(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    folder = workshop.runs / "a"
    with claimed(folder), pytest.raises(UserError, match="being run by another process"), claimed(folder):
        pass
    with claimed(folder):
        pass


def test_a_task_waits_for_what_holds_its_folder_and_says_so_once(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    folder = workshop.runs / "a"
    folder.mkdir(parents=True)
    holder, looks = (folder / ".lock").open("w"), iter(range(20))
    assert lock(holder)

    def sleep(_: float) -> None:
        if next(looks) == 19:
            holder.close()

    monkeypatch.setattr(running.time, "sleep", sleep)
    with claimed(folder):
        pass
    assert capsys.readouterr().err.count("is held by another process") == 1


def test_a_task_that_waited_for_a_removed_lock_takes_the_new_one(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    folder = workshop.runs / "a"
    folder.mkdir(parents=True)
    holder = (folder / ".lock").open("w")
    assert lock(holder)

    def sleep(_: float) -> None:  # the refused run that holds it removes its folder
        shutil.rmtree(folder)
        holder.close()

    monkeypatch.setattr(running.time, "sleep", sleep)
    with claimed(folder), (folder / ".lock").open("w") as other:
        assert not lock(other)


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "NODE_RANK"])
def test_the_first_rank_of_another_node_leaves_the_lock_to_the_leader(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    with claimed(workshop.runs / "a"):
        monkeypatch.setenv(name, "1")
        if name != "SLURM_PROCID":
            monkeypatch.setenv("LOCAL_RANK", "0")
        with claimed(workshop.runs / "a"):
            pass


def test_a_folder_without_locks_is_claimed_all_the_same(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with claimed(workshop.runs / "a"):
        pass


def test_validation_intervals_count_updates(tmp_path: Path) -> None:
    given = {"max_steps": 8, "val_check_interval": 3, "accumulate_grad_batches": 2, "accelerator": "cpu"}
    assert make_trainer(given, [], tmp_path, DurableIO()).val_check_interval == 6


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"max_time": "00:00:00:04"}, ("trainer.max_time", "00:00:00:04", "stop")),
        ({"max_epochs": 3}, ("trainer.max_epochs", "3")),
        ({"limit_train_batches": 5, "accumulate_grad_batches": 2}, ("trainer.limit_train_batches", "5")),
        ({"limit_val_batches": 2}, ("trainer.limit_val_batches", "2", "whole")),
        ({"limit_test_batches": 2}, ("trainer.limit_test_batches", "2", "whole")),
        ({"overfit_batches": 0.5}, ("trainer.overfit_batches", "0.5")),
        ({"fast_dev_run": True}, ("trainer.fast_dev_run", "max_steps 2")),
        ({"accumulate_grad_batches": 0}, ("trainer.accumulate_grad_batches", "at least 1", "0")),
        ({"callbacks": [DeviceStatsMonitor()]}, ("DeviceStatsMonitor", "not supported")),
        ({"callbacks": DeviceStatsMonitor()}, ("DeviceStatsMonitor", "not supported")),
        ({"callbacks": [EarlyStopping("val/loss")]}, ("EarlyStopping", "stop")),
        ({"callbacks": [EMAWeightAveraging()]}, ("EMAWeightAveraging", "checkpoints")),
        ({"callbacks": [Averaging()]}, ("Averaging", "checkpoints")),
        ({"val_check_interval": 0.5}, ("val_check_interval", "number of updates", "0.5")),
        ({"val_check_interval": "00:00:00:01"}, ("val_check_interval", "number of updates")),
        ({"gradient_clip_val": float("nan")}, ("gradient_clip_val", "finite", "nan")),
        ({"gradient_clip_val": -1.0}, ("gradient_clip_val", "at least 0", "-1")),
        ({"strategy": "ddp_fork", "devices": 2}, ("ddp_fork", "use ddp")),
        ({"strategy": "fsdp", "devices": 2}, ("fsdp", "use ddp")),
    ],
)
def test_what_a_record_would_not_tell_is_refused(
    tmp_path: Path, given: dict[str, object], parts: tuple[str, ...]
) -> None:
    with pytest.raises(UserError) as refused:
        make_trainer({"max_steps": 8, "accelerator": "cpu"} | given, [], tmp_path, DurableIO())
    assert all(part in str(refused.value) for part in parts)


def test_a_training_that_a_callback_ends_is_not_recorded(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = session.make_trainer
    monkeypatch.setattr(
        session, "make_trainer", lambda given, calls, *rest: original(given, [*calls, Early()], *rest)
    )
    recipe = tiny(**{"trainer.val_check_interval": 2})
    with pytest.raises(UserError, match=r"ended after [34] of \d+ updates: a callback"):
        run(recipe, seed=1, command="x")
    assert not list(workshop.results.rglob("*.json"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"checkpoints.best": "val/loss", "checkpoints.average_last": 1}, "checkpoints.best val/loss needs"),
        ({"stop": {"metric": "val/loss", "patience": 1}}, "stop.metric val/loss needs"),
        (
            {"model.schedule": {"class_path": "repro.tasks.Plateau", "init_args": {"metric": "val/loss"}}},
            "model.schedule.metric val/loss needs",
        ),
    ],
)
@pytest.mark.parametrize(
    "without",
    [
        {"trainer.val_check_interval": 900},
        {"trainer.val_check_interval": None},  # Lightning's is an epoch, which may be longer than the run
        {"trainer.limit_val_batches": 0},
    ],
)
def test_a_choice_by_validation_needs_one(
    workshop: Workshop, settings: dict[str, Any], message: str, without: dict[str, int]
) -> None:
    with pytest.raises(UserError, match=message):
        run(tiny(**settings, **without), seed=1, command="x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"checkpoints.best": "val/nonsense", "checkpoints.average_last": 1},
            "checkpoints.best: 'val/nonsense' is not measured; there is: val/bleu",
        ),
        (
            {"stop": {"metric": "val/pp", "patience": 1}},
            "stop.metric: 'val/pp' is not measured; there is: val/bleu",
        ),
        (
            {"model.schedule": {"class_path": "repro.tasks.Plateau", "init_args": {"metric": "val/pp"}}},
            "model.schedule.metric: 'val/pp' is not measured; there is: val/bleu",
        ),
    ],
)
def test_a_metric_that_is_not_measured_is_refused_before_training(
    workshop: Workshop, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        run(tiny(**settings), seed=1, command="x")
    assert not list(workshop.runs.rglob("*.ckpt"))


@pytest.mark.parametrize(
    ("experiment", "metric", "changes"),
    [
        ("infinity-former/dialogue@gpt2", "val/f1", []),
        ("shortformer/length@l32", "val/accuracy", [("model.accuracy", False)]),
        ("shortformer/length@l32", "val/tokens_per_s", [("model.accuracy", False)]),
    ],
)
def test_a_metric_that_this_validation_does_not_measure_is_refused_before_training(
    experiment: str, metric: str, changes: list[tuple[str, Any]]
) -> None:
    parts = build(load_recipe(experiment, "cpu", [("checkpoints.best", metric), *changes]), meta=True)
    with pytest.raises(UserError) as refused:
        session.require_validation(parts)
    assert str(refused.value) == f"checkpoints.best: {metric!r} is not measured; there is: val/loss, val/ppl"


def test_checkpoints_of_a_recorded_run_that_were_kept_for_the_mean_alone_lose_their_optimiser(
    workshop: Workshop,
) -> None:
    recipe = tiny(**{"checkpoints.every_steps": 2, "checkpoints.average_last": 3, "checkpoints.keep": 2})
    run(recipe, seed=1, command="x")
    saved = checkpoints(recipe.run_dir(1) / "checkpoints")
    assert [fault(path) for path in saved] == [None] * 3
    assert ["optimizer_states" in read(path) for path in saved] == [False, True, True]


def test_no_validation_and_harmless_callbacks_are_supported(tmp_path: Path) -> None:
    given = {"max_steps": 8, "accelerator": "cpu", "limit_val_batches": 0, "callbacks": [ModelSummary()]}
    assert make_trainer(given, [], tmp_path, DurableIO()).limit_val_batches == 0


def test_the_precision_of_products_is_part_of_the_hash_and_set_for_the_run(workshop: Workshop) -> None:
    usual, faster = tiny(), tiny(matmul_precision="high")
    assert tiny(matmul_precision="highest").config_hash == usual.config_hash != faster.config_hash
    for recipe, expected in ((faster, "high"), (usual, "highest")):
        prepare(recipe, 1)
        assert torch.get_float32_matmul_precision() == expected
    with pytest.raises(UserError, match=r"matmul_precision.*highest.*higher"):
        prepare(tiny(matmul_precision="higher"), 1)


def test_seeds_differ_and_repeat(workshop: Workshop) -> None:
    def first_weight(seed: int) -> torch.Tensor:
        return next(iter(prepare(tiny(), seed).parts.task.parameters())).detach()

    assert torch.equal(first_weight(1), first_weight(1))
    assert not torch.equal(first_weight(1), first_weight(2))
