"""config, params, run, reproduce, show."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.cli import runs
from repro.cli.runs import conclude, joined, parse_overrides, same_weights
from repro.events import EVENTS_FILE, METRICS, EventLog, read, status
from repro.record import RunRecord, write_record
from tests.conftest import TrainedRun
from tests.workshop import PAPER, PROJECT, RECIPE, TINY, Workshop, call

BASE = f"{PAPER}/base"


@pytest.fixture
def checkout(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The project's own recipes, everything else the test's."""
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    return workshop


def test_what_counts_for_nothing_is_recorded_among_the_trials(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_TRIALS", str(workshop.root / "trials"))
    refused = call("run", TINY, "--scale", "cpu", "--no-record")
    refused.refused("seed 1", "may be judged", "--no-record")
    assert not (workshop.runs / TINY).exists()
    assert call("run", TINY, "--scale", "cpu").code == 0
    assert len(workshop.records()) == 1
    for words in (["--seed", "101"], ["--model.net.dropout", "0.2"], []):
        if not words:  # a second run of a recorded seed
            shutil.rmtree(workshop.runs)
        done = call("run", TINY, "--scale", "cpu", *words)
        assert f"record  {workshop.root / 'trials' / 'runs'}" in done.out
    assert "bit for bit" in done.out
    assert len(workshop.records()) == 1
    assert len(list((workshop.root / "trials").rglob("*.json"))) == 3
    assert call("show", f"{TINY}/cpu/s101").code == 0
    assert call("run", TINY, "--scale", "cpu", "--seed", "102", "--no-record").code == 0
    assert len(list((workshop.root / "trials").rglob("*.json"))) == 3
    assert call("show", f"{TINY}/cpu/s102", "--json").code == 0


def test_a_logger_of_lightnings_writes_the_curves_too(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("run", TINY, "--scale", "cpu", "--seeds", "1", "--logger", "csv").code == 0
    (path,) = workshop.runs.glob(f"{TINY}/cpu/s1-*/csv/version_0/metrics.csv")
    names = path.read_text().splitlines()[0].split(",")
    assert {"step", "train/loss", "val/bleu", "test/bleu"} <= set(names)
    rows = list(csv.DictReader(path.open()))
    events = [e for e in read(path.parents[2] / EVENTS_FILE) if e["kind"] in METRICS]
    for name in ("train/loss", "val/bleu"):
        steps = [int(row["step"]) for row in rows if row[name]]
        assert steps == [event["step"] for event in events if name in event]
    (record,) = workshop.records()
    assert json.loads(record.read_text())["overrides"] == []
    monkeypatch.setattr(runs, "find_spec", lambda name: None)
    call("run", TINY, "--scale", "cpu", "--logger", "tensorboard").refused("pip install tensorboard")


def test_smoke_of_several_seeds_names_no_runs_to_compare(workshop: Workshop) -> None:
    said = call("run", TINY, "--smoke", "--seeds", "101-101")
    assert said.code == 0, said.err
    assert "compare" not in said.out


def test_a_fault_in_the_published_numbers_is_named_before_training(workshop: Workshop) -> None:
    path = workshop.results / "published" / f"{PAPER}.yaml"
    path.write_text(f"{path.read_text()}missed: []\n")
    call("run", TINY, "--scale", "cpu").refused(str(path), "missed: no such key; nearest: missing")
    assert not list(workshop.runs.glob("**/*.jsonl"))


def test_smoke_trains_two_updates_and_writes_nothing(workshop: Workshop) -> None:
    said = call("run", TINY, "--smoke")
    assert said.code == 0, said.err
    assert said.out.startswith("two updates of new weights: losses ")
    assert not workshop.runs.exists()
    assert workshop.records() == []
    call("run", TINY, "--smoke", "--logger", "csv").refused("--smoke", "leave out --all, --logger")


def test_a_sentence_of_validation_beyond_the_learned_positions_is_refused_before_training(
    workshop: Workshop,
) -> None:
    table = "{class_path: repro.nn.LearnedPositions, init_args: {max_length: 4}}"
    positions = f"{{class_path: repro.nn.Added, init_args: {{table: {table}}}}}"
    words = ["--model.net.positions", positions, "--data.max_length", "4", "--no-record"]
    call("run", TINY, "--scale", "cpu", *words).refused("a sentence of val has", "learns 4 positions only")


def test_a_last_part_of_a_key_is_completed(workshop: Workshop) -> None:
    call("run", TINY, "--n_heads", "2").refused(
        "'--n_heads'", "the recipe has --model.net.blocks.mixers.0.n_heads"
    )


def test_config_prints_the_resolved_recipe(workshop: Workshop) -> None:
    output = call("config", TINY, "--scale", "cpu")
    displayed = yaml.safe_load(output.out)
    assert output.code == 0
    assert output.out.startswith(f"# {TINY} at scale cpu; signature ")
    assert displayed["model"] == yaml.safe_load(RECIPE)["model"]
    assert displayed["checkpoints"] == {"every_steps": 1, "average_last": 2}


def test_config_takes_settings_with_and_without_init_args_and_by_list_index(workshop: Workshop) -> None:
    output = call(
        "config", TINY, "--model.net.d_model", "16", "--model.init_args.net.init_args.dropout=0.5",
        "--model.net.blocks.mixers.0.n_heads", "4", "--model.optimizer.eps", "1e-9",
    )  # fmt: skip
    net = yaml.safe_load(output.out)["model"]["init_args"]["net"]["init_args"]
    assert (net["d_model"], net["dropout"]) == (16, 0.5)
    assert net["blocks"]["mixers"][0]["init_args"]["n_heads"] == 4
    assert yaml.safe_load(output.out)["model"]["init_args"]["optimizer"]["init_args"]["eps"] == 1e-9
    assert output.out.splitlines()[0] != call("config", TINY).out.splitlines()[0]  # another signature


def test_overrides_are_read_as_yaml() -> None:
    words = ["--a.b", "1e-3", "--a.c=[1, 2]", "--a.d", "true", "--a.e", "-1", "--a.f=x=y"]
    assert parse_overrides(joined([*words, "--compile", "true", "--stop", "null"])) == [
        ("a.b", 1e-3),
        ("a.c", [1, 2]),
        ("a.d", True),
        ("a.e", -1),
        ("a.f", "x=y"),
        ("compile", True),
        ("stop", None),
    ]


@pytest.mark.parametrize(
    ("name", "total", "published", "parts"),
    [
        (
            "base",
            63_082_496,
            65_000_000,
            {"vocabulary": 18_944_000, "encoder": 18_914_304, "decoder": 25_224_192},
        ),
        (
            "big@en-de",
            214_245_376,
            213_000_000,
            {"vocabulary": 37_888_000, "encoder": 75_577_344, "decoder": 100_780_032},
        ),
    ],
)
def test_params_stand_beside_the_published_ones(
    checkout: Workshop, name: str, total: int, published: int, parts: dict[str, int]
) -> None:
    (counted,) = call("params", f"{PAPER}/{name}", "--json").json()
    assert (counted["total"], counted["published"], counted["parts"]) == (total, published, parts)
    assert counted["difference"] == total - published
    text = call("params", f"{PAPER}/{name}").out
    for number in (total, published, *parts.values()):
        assert f"{number:,}" in text


def test_params_without_a_published_count_say_so(checkout: Workshop) -> None:
    text = call("params", BASE, "--scale", "cpu").out
    assert "no count is published at scale cpu" in text
    assert call("params", BASE, "--scale", "cpu", "--json").json()[0]["published"] is None


def test_run_trains_tests_and_records(trained: TrainedRun) -> None:
    (path,) = trained.workshop.records()
    record = RunRecord.from_json(path.read_text())
    assert (record.experiment, record.scale, record.seed, record.steps) == (TINY, "cpu", 1, 2)
    assert record.run_id == trained.run_id
    assert record.command == f"repro run {TINY} --scale cpu --seed 1"
    names = {m.name for m in record.metrics}
    assert {"test/bleu", "test/exact_match", "test/nll", "test/ppl"} <= names
    assert record.metric("test/nll").count > 0  # type: ignore[union-attr, operator]
    assert [step for step, _ in record.curves["train/loss"]] == [1, 2]
    assert [step for step, _ in record.curves["val/nll"]] == [2]
    assert record.outputs_sha256 is not None
    assert path.with_suffix(".outputs.txt").read_text().count("\n") == 15
    for text in (path.read_text(), path.with_suffix(".outputs.txt").read_text()):
        assert str(trained.workshop.root) not in text
    assert not (trained.workshop.results / "tables").exists(), "only `repro tables` writes tables"
    for shown in ("test/bleu", str(trained.folder), "`repro tables` makes the tables"):
        assert shown in trained.out


def test_a_run_names_the_records_that_have_its_weights(
    trained: TrainedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    record = RunRecord.from_json(trained.workshop.records()[0].read_text())
    conclude(record)
    assert "equal" not in capsys.readouterr().out, "not itself"
    again = replace(record, finished="2099-01-02T03:04:05Z", commit="0123456789")
    conclude(again)
    line = f"equal   bit for bit the weights recorded on {record.finished[:10]} at commit "
    assert line in capsys.readouterr().out
    conclude(replace(again, checkpoint_sha256="0" * 64))
    assert "bit for bit" not in capsys.readouterr().out


def test_runs_without_weights_are_not_equal(
    trained: TrainedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = RunRecord.from_json(trained.workshop.records()[0].read_text())
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path))
    write_record(replace(record, checkpoint_sha256=None), tmp_path / "runs")
    assert same_weights(replace(record, checkpoint_sha256=None, finished="2099-01-02T03:04:05Z")) == []


def test_the_run_folder_has_model_tokeniser_config_and_status(trained: TrainedRun) -> None:
    assert {"model.pt", "tokenizer.json", "config.yaml", "record.json", "events.jsonl"} <= {
        p.name for p in trained.folder.iterdir()
    }
    assert status(trained.folder)["state"] == "done"
    assert yaml.safe_load((trained.folder / "config.yaml").read_text())["title"] == "Tiny"


def test_a_second_call_says_done_and_trains_nothing(trained: TrainedRun) -> None:
    before = {p: p.stat().st_mtime_ns for p in trained.folder.rglob("*") if p.is_file()}
    output = call("run", TINY, "--scale", "cpu")
    assert output.code == 0
    assert f"{trained.run_id} is done" in output.out
    assert {p: p.stat().st_mtime_ns for p in trained.folder.rglob("*") if p.is_file()} == before
    assert len(trained.workshop.records()) == 1


def test_a_finished_run_says_that_its_store_has_other_data(
    trained: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "has changed" not in call("run", TINY, "--scale", "cpu").err
    other = trained.workshop.root / "other"
    name = json.loads((trained.folder / "record.json").read_text())["data"]["name"]
    (other / name / "bpe512").mkdir(parents=True)
    (other / name / "bpe512" / "manifest.json").write_text("{}")
    monkeypatch.setenv("REPRO_DATA", str(other))
    said = call("run", TINY, "--scale", "cpu")
    assert f"{trained.run_id} is done" in said.out
    assert f"store {name} has changed since" in said.err


def test_a_finished_run_is_answered_without_torch_and_by_rank_0(trained: TrainedRun) -> None:
    code = (
        "import sys\n"
        "sys.modules |= dict.fromkeys(('torch', 'lightning'))  # importing them fails\n"
        "from repro.cli.main import main\n"
        f"main(['run', '{TINY}', '--scale', 'cpu'])\n"
    )
    for rank, expected in ("0", f"run     {trained.folder}"), ("1", ""):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=PROJECT,
            env=os.environ | {"LOCAL_RANK": rank},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert f"{trained.run_id} is done" in done.stdout
        assert expected in done.stdout
        assert ("equal" in done.stdout, "bleu" in done.stdout) == (False, rank == "0")


def test_run_resumes_from_the_last_checkpoint(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    from repro.experiment import run as running

    def fail(current: object) -> None:
        raise OSError("the machine went away")

    with monkeypatch.context() as patch:
        patch.setattr(running, "test", fail)
        call("run", TINY, "--scale", "cpu").refused("the machine went away", code=1)
    assert workshop.records() == []
    output = call("run", TINY, "--scale", "cpu")
    assert output.code == 0, output.err
    assert "resuming from step 2" in output.out
    assert len(workshop.records()) == 1


def test_show_one_run_by_id_folder_and_record(trained: TrainedRun) -> None:
    by_id = call("show", trained.run_id)
    assert by_id.code == 0
    assert "test/bleu" in by_id.out
    for word in (str(trained.folder), str(trained.workshop.records()[0])):
        assert call("show", word).out == by_id.out
    (displayed,) = call("show", trained.run_id, "--json").json()
    assert displayed == json.loads(trained.workshop.records()[0].read_text())


def test_of_several_records_of_a_run_the_first_is_shown_which_counts(own_run: TrainedRun) -> None:
    (first,) = own_run.workshop.records()
    again = json.loads(first.read_text()) | {"finished": "2999-01-01T00:00:00Z"}
    first.with_name(first.name.replace(".json", "9.json")).write_text(json.dumps(again))
    (own_run.folder / "record.json").unlink()
    (displayed,) = call("show", own_run.run_id, "--json").json()
    assert displayed["finished"] == json.loads(first.read_text())["finished"]


def test_show_takes_the_unique_beginning_of_a_run_id(trained: TrainedRun) -> None:
    folder = f"{TINY}/cpu"
    by_id = call("show", trained.run_id).out
    assert call("show", f"{folder}/s1").out == call("show", trained.run_id[:-3]).out == by_id
    other, own = (
        trained.workshop.runs / folder / "s11-01234567" / "events.jsonl",
        trained.folder / "events.jsonl",
    )
    EventLog(other.parent).begin(b"", 5, {})
    try:
        assert call("show", f"{folder}/s1").out == by_id, "of seed 1, not of seed 11"
        call("show", f"{folder}/s11").refused("s11-01234567 has no record yet")
        facts = json.loads(own.read_bytes().splitlines()[0]) | {"run": f"{folder}/s11-01234567"}
        EventLog(other.parent).begin(b"", 5, facts)
        call("show", f"{folder}/s").refused("2 runs begin with", trained.run_id)
    finally:
        other.unlink()
        other.parent.rmdir()


def test_show_finds_a_record_whose_run_folder_is_gone(
    trained: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_RUNS", str(trained.workshop.root / "elsewhere"))
    assert "test/bleu" in call("show", trained.run_id).out


def test_show_two_runs_tells_their_differences(trained: TrainedRun, tmp_path: Path) -> None:
    other = json.loads(trained.workshop.records()[0].read_text())
    other["seed"] = 2
    other["config"]["trainer"]["max_steps"] = 77
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    text = call("show", trained.run_id, str(path)).out
    assert "max_steps" in text
    assert "77" in text
    assert "d_model" not in text
    assert len(call("show", trained.run_id, str(path), "--json").json()) == 2


def test_show_tells_the_state_of_a_run_without_a_record(workshop: Workshop) -> None:
    folder = workshop.runs / TINY / "cpu" / "s1-01234567"
    folder.mkdir(parents=True)
    EventLog(folder).begin(b"", 5, {})
    call("show", f"{TINY}/cpu/s1-01234567").refused("no record yet", "starting", "step 5")


def test_reproduce_dry_run_counts_what_is_recorded(trained: TrainedRun) -> None:
    output = call("reproduce", TINY, "--scale", "cpu", "--seeds", "2", "--dry-run")
    assert output.code == 0
    lines = output.out.splitlines()
    assert lines[0] == "2 runs, 1 recorded, 1 to do"
    (line,) = lines[1:]
    assert re.fullmatch(rf"{TINY}/cpu/s2-{trained.folder.name.split('-')[1]}  \d\.\d+ h", line), (
        "of the recorded run"
    )
    assert len(trained.workshop.records()) == 1


def test_reproduce_runs_what_is_missing(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.run

    def here(words: list[str], **named: Any) -> subprocess.CompletedProcess[str]:
        if words[:3] != [sys.executable, "-m", "repro"]:
            return real(words, **named)
        return subprocess.CompletedProcess(
            words, call(*words[3:]).code
        )  # a real run, without importing torch anew

    monkeypatch.setattr(subprocess, "run", here)
    output = call("reproduce", TINY, "--scale", "cpu", "--seeds", "1")
    assert output.code == 0, output.err
    assert output.out.splitlines()[0] == "1 runs, 0 recorded, 1 to do"
    (path,) = workshop.records()
    assert RunRecord.from_json(path.read_text()).seed == 1
    assert (workshop.results / "evidence.json").exists()
    again = call("reproduce", TINY, "--scale", "cpu", "--seeds", "1")
    assert again.out.splitlines()[0] == "1 runs, 1 recorded, 0 to do"
