"""fit, validate, test, predict: plain LightningCLI over the same recipes."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from repro.experiment.build import build_task
from repro.recipe import load_recipe
from repro.tasks import LanguageModel, translation
from repro.training import cpu
from repro.training.checkpoints import read
from tests.workshop import RECIPE, TINY, Workshop, call


@pytest.fixture
def config(workshop: Workshop) -> Path:
    """A recipe whose Trainer writes below the project and shows nothing."""
    given = yaml.safe_load(RECIPE)
    given["seed_everything"] = 3
    given["trainer"] |= {
        "max_steps": 1, "val_check_interval": 1, "logger": False, "enable_progress_bar": False,
        "enable_model_summary": False, "num_sanity_val_steps": 0, "default_root_dir": str(workshop.root / "out"),
    }  # fmt: skip
    path = workshop.root / "native.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


@pytest.fixture
def fitted(config: Path) -> Path:
    """The checkpoint of one real step."""
    output = call("fit", "--config", str(config))
    assert output.code == 0, output.err
    (path,) = config.parent.joinpath("out").rglob("*.ckpt")
    return path


def test_fit_validate_and_test_from_a_checkpoint(config: Path, fitted: Path) -> None:
    loaded = read(fitted)
    assert loaded["global_step"] == 1
    assert all(torch.isfinite(v).all() for v in loaded["state_dict"].values() if v.is_floating_point())
    validated = call("validate", "--config", str(config), "--ckpt_path", str(fitted))
    assert validated.code == 0, validated.err
    assert "val/nll" in validated.out
    tested = call("test", "--config", str(config), f"--ckpt_path={fitted}")
    assert tested.code == 0, tested.err
    assert "test/bleu" in tested.out
    rows = [line.split() for line in tested.out.splitlines()]
    assert {row[-1] for row in rows if row and row[0].endswith("/nll")} == {"test"}
    assert len([row for row in rows if row and row[0] == "test/nll"]) == 1
    # the checkpoint's weights were used: without it the numbers are another model's
    assert call("validate", "--config", str(config), "--seed_everything", "4").out != validated.out


def test_what_config_prints_of_a_scale_gives_the_model_of_run(workshop: Workshop) -> None:
    """Also where the scale replaces a class."""
    change = {
        "trainer.max_steps": 1, "trainer.val_check_interval": 1, "model.net.d_model": 16, "model.schedule.d_model": 16,
        "model.net.blocks.sublayer": {"class_path": "repro.nn.PreNorm", "init_args": {"dropout": 0.2}},
        "model.net.blocks.feed_forward.d_ff": 20,
    }  # fmt: skip
    workshop.recipe(yaml.safe_dump({"hours": 1, "hardware": "CPU", "set": change}), scale="cpu")
    path = workshop.root / "cpu.yaml"
    path.write_text(call("config", TINY, "--scale", "cpu").out)
    output = call("fit", "--config", str(path))
    assert output.code == 0, output.err
    (checkpoint,) = workshop.runs.rglob("*.ckpt")
    shapes = {name: weight.shape for name, weight in read(checkpoint)["state_dict"].items()}
    own = build_task(load_recipe(TINY, "cpu"), meta=True).state_dict()
    assert shapes == {name: weight.shape for name, weight in own.items()}


def test_files_go_below_the_runs_folder_and_the_bar_counts_updates(config: Path, workshop: Workshop) -> None:
    given = yaml.safe_load(config.read_text())
    for key in ("logger", "enable_progress_bar", "default_root_dir"):
        del given["trainer"][key]
    config.write_text(yaml.safe_dump(given))
    output = call("fit", "--config", str(config))
    assert output.code == 0, output.err
    assert "step 1/1" in output.err
    assert "Epoch" not in output.out + output.err
    assert (workshop.runs / "lightning_logs" / "version_0" / "config.yaml").is_file()
    assert not (workshop.root / "lightning_logs").exists()


def test_a_damaged_checkpoint_is_refused(config: Path, fitted: Path) -> None:
    fitted.write_bytes(fitted.read_bytes()[:500])
    call("test", "--config", str(config), "--ckpt_path", str(fitted)).refused(
        fitted.name, "not a readable checkpoint"
    )


def test_settings_on_the_command_line(config: Path) -> None:
    output = call("fit", "--config", str(config), "--trainer.max_steps", "2", "--model.init_args.beam=2")
    assert output.code == 0, output.err
    (path,) = config.parent.joinpath("out").rglob("*.ckpt")
    assert read(path)["global_step"] == 2


@pytest.mark.parametrize("verb", ["fit", "validate", "test", "predict"])
def test_help(workshop: Workshop, verb: str) -> None:
    output = call(verb, "--help")
    assert output.code == 0
    assert "--trainer.max_steps" in output.out


def test_predict_prints_every_translation_in_order(
    config: Path, fitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packings: list[float] = []

    def packed(_: object, batches: float) -> AbstractContextManager[None]:
        packings.append(batches)
        return nullcontext()

    monkeypatch.setattr(cpu, "packed", packed)
    output = call("predict", "--config", str(config), "--ckpt_path", str(fitted))
    assert output.code == 0, output.err
    assert output.out.count("\n") == 15
    assert len(packings) == 1  # weights are laid out once for all batches


def changed(config: Path, **sections: Any) -> Path:
    """The recipe with sections replaced or added."""
    given = yaml.safe_load(config.read_text())
    path = config.with_name("changed.yaml")
    path.write_text(yaml.safe_dump(given | sections))
    return path


def test_validations_count_updates_as_in_a_run(config: Path) -> None:
    """The interval may be longer than an epoch."""
    trainer = yaml.safe_load(config.read_text())["trainer"] | {"max_steps": 2, "val_check_interval": 500}
    output = call("fit", "--config", str(changed(config, trainer=trainer)))
    assert output.code == 0, output.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--trainer.fast_dev_run", "true"], "trainer.fast_dev_run is not supported"),
        (["--trainer.limit_val_batches", "1"], "trainer.limit_val_batches is not supported, given 1"),
        (
            ["--trainer.val_check_interval", "0"],
            "trainer.val_check_interval is a number of updates, at least 1, not 0",
        ),
        (
            ["--trainer.accumulate_grad_batches", "-2"],
            "trainer.accumulate_grad_batches must be at least 1, not -2",
        ),
        (["--stop", "{bogus: 1}"], "stop: "),
        (["--ckpt_path", "native.yaml"], "native.yaml"),
    ],
)
def test_what_would_end_in_the_middle_is_refused(config: Path, words: list[str], message: str) -> None:
    words = [str(config) if word == config.name else word for word in words]
    call("fit", "--config", str(config), *words).refused(message)


def test_a_stop_rule_ends_training(config: Path) -> None:
    """With two batches an update, the second update is the one of the first validation."""
    trainer = yaml.safe_load(config.read_text())["trainer"]
    trainer |= {"max_steps": 9, "val_check_interval": 2, "accumulate_grad_batches": 2}
    rule = {"metric": "val/loss", "at_least": 0.0}
    output = call("fit", "--config", str(changed(config, trainer=trainer, stop=rule)))
    assert "2 updates" in output.out, output.err
    refused = call("fit", "--config", str(changed(config, stop={"metric": "val/loss", "at_leas": 1})))
    refused.refused("at_leas")


def test_files_that_are_no_recipe_of_one_run_are_refused(config: Path) -> None:
    call("fit", "--config", str(changed(config, points={"a": {}, "b": {}}))).refused("grid", "a, b")
    config.write_text("")
    call("fit", "--config", str(config)).refused("is empty")


def test_fit_refuses_other_weights_to_begin_with(config: Path) -> None:
    call("fit", "--config", str(changed(config, start_from="a/b"))).refused("start_from a/b", "`repro run`")


def test_only_a_task_without_a_predict_step_has_no_predictions(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = yaml.safe_load(config.read_text())["model"]
    shared = {key: model["init_args"][key] for key in ("optimizer", "schedule")}
    parts = {key: model["init_args"]["net"]["init_args"][key] for key in ("d_model", "vocabulary", "blocks")}
    net = {"class_path": "repro.models.DecoderLM", "init_args": {**parts, "n_layers": 1}}
    own = {"net": net, "unit": "word", "protocol": {"seq_len": 4, "rows": 1}}
    model = {"class_path": "repro.tasks.LanguageModel", "init_args": {**shared, **own}}
    own_net = str(changed(config, model=model))
    call("predict", "--config", own_net).refused("a LanguageModel has no predict_step")
    monkeypatch.setattr(LanguageModel, "predict_step", lambda *_: None, raising=False)
    call("predict", "--config", own_net).refused("trains on a StreamBatch")  # the next check


def test_a_prediction_is_one_line(config: Path, fitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "one_line", lambda text: "in one line")
    output = call("predict", "--config", str(config), "--ckpt_path", str(fitted))
    assert output.out == "in one line\n" * 15
