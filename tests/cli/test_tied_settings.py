"""Settings that state one quantity with another key: what config, run and submit make of them, and say."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

from repro.cli.runs import parse_overrides
from repro.record import RunRecord
from repro.tasks.optim.schedules import noam
from tests.launch.fake_cluster import FakeCluster, cluster, small_project
from tests.workshop import PAPER, PROJECT, RECIPE, STORE, TINY, Workshop, call

__all__ = ["cluster", "small_project"]
WIDER = ("--model.net.d_model", "16")
ALSO = "model.net.d_model 16 also sets model.schedule.d_model"


def test_a_wider_model_trains_at_its_own_rate_and_its_record_says_so(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The project's base recipe, as short as it gets."""
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    words = [
        "--model.net.d_model", "256", "--trainer.max_steps", "3", "--trainer.val_check_interval", "3",
        "--data.store", STORE, "--data.vocab_size", "300", "--data.batch_tokens", "200", "--data.max_length", "60",
        "--model.net.encoder_layers", "1", "--model.net.decoder_layers", "1", "--model.beam", "1",
        "--model.max_extra", "1", "--checkpoints.every_steps", "3", "--checkpoints.average_last", "1",
    ]  # fmt: skip
    said = call("run", f"{PAPER}/base", "--scale", "cpu", "--seed", "101", *words)
    assert said.code == 0, said.err
    assert "model.net.d_model 256 also sets model.schedule.d_model" in said.err.splitlines()
    assert "data.vocab_size 300 also sets model.net.vocabulary.size" in said.err.splitlines()
    (path,) = workshop.records()
    record = RunRecord.from_json(path.read_text())
    # the rate of 256, not of the 128 that the file says
    rates = [0.3333 * noam(step, 256, 200) for step in (1, 2, 3)]
    assert [rate for _, rate in record.curves["train/lr"]] == pytest.approx(
        rates, rel=1e-5
    )  # six digits are kept
    given = [f"--{key}={json.dumps(value)}" for key, value in parse_overrides(words)]
    assert record.overrides[: len(given)] == given
    also = ["--model.schedule.d_model=256", "--model.net.vocabulary.size=300"]
    assert record.overrides[len(given) :] == also
    assert all(word in record.deviations[-1] for word in (*given, *also))
    config = record.config["model"]["init_args"]
    assert config["schedule"]["init_args"]["d_model"] == config["net"]["init_args"]["d_model"] == 256
    # its command makes the same configuration, whose run there is
    again = call(*shlex.split(record.command)[1:])
    assert again.code == 0
    assert f"{record.run_id} is done" in again.out


def test_config_shows_what_was_set_and_says_why(workshop: Workshop) -> None:
    said = call("config", TINY, "--scale", "cpu", *WIDER)
    shown = yaml.safe_load(said.out)
    assert shown["model"]["init_args"]["schedule"]["init_args"]["d_model"] == 16
    assert "--model.schedule.d_model=16" in shown["deviations"][-1]
    assert said.err.splitlines() == [ALSO]
    assert call("config", TINY, "--scale", "cpu").err == ""


def test_keys_given_apart_are_accepted_and_named(workshop: Workshop) -> None:
    said = call("config", TINY, "--scale", "cpu", *WIDER, "--model.schedule.d_model=8")
    assert (said.code, len(said.err.splitlines())) == (0, 1)
    assert "model.net.d_model 16" in said.err
    assert "model.schedule.d_model 8" in said.err


@pytest.mark.parametrize("verb", ["config", "run", "params"])
def test_a_recipe_with_two_widths_is_refused_before_anything_is_written(
    workshop: Workshop, verb: str
) -> None:
    workshop.recipe(RECIPE.replace("{d_model: 8, warmup_steps: 10}", "{d_model: 9, warmup_steps: 10}"))
    line = call(verb, TINY, "--scale", "cpu").refused("model.net.d_model is 8", "model.schedule.d_model is 9")
    assert TINY in line
    assert not workshop.runs.exists()


@pytest.mark.parametrize("mode", [["--dry-run"], ["--json"]])
def test_submit_says_it_and_its_jobs_get_what_was_given(
    workshop: Workshop,
    monkeypatch: pytest.MonkeyPatch,
    cluster: FakeCluster,
    small_project: None,
    mode: list[str],
) -> None:
    folder = workshop.root / "clusters"
    folder.mkdir()
    (folder / "site.yaml").write_text('time: "01:00:00"\ngpus_per_node: 0\ntasks_per_node: 2\n')
    monkeypatch.setenv("REPRO_CLUSTERS", str(folder))
    said = call("submit", TINY, "--cluster", "site", "--scale", "cpu", "--seeds", "1", *WIDER, *mode)
    assert said.code == 0, said.err
    assert said.err.splitlines()[0] == ALSO
    scripts = list(workshop.runs.rglob("*.sh")) + list(workshop.runs.rglob("*.sbatch"))
    text = said.out if "--dry-run" in mode else "\n".join(map(Path.read_text, scripts))
    assert "--model.net.d_model=16" in text
    assert "--model.schedule.d_model" not in text, "the job finds that out by itself"
    # and comes to the same run
    wide = call("config", TINY, "--scale", "cpu", *WIDER).out.splitlines()[0].split()[-1]
    assert f"{TINY}/cpu/s1-{wide}" in text
