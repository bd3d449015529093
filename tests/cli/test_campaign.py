"""repro campaign: steps are done once, in order, apart from the results where they are not judged."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.errors import UserError
from repro.launch.campaign import PREFIX, Campaign, load_campaign, outcomes, work
from tests.workshop import BITS, PROJECT, Workshop, call

NAMES = [path.stem.removeprefix(PREFIX) for path in sorted((PROJECT / "configs").glob(f"{PREFIX}*.yaml"))]


def check(code: str, minutes: float = 1) -> dict[str, Any]:
    return {"says": "It works.", "command": shlex.join([sys.executable, "-c", code]), "minutes": minutes}


GOOD, BAD = check("print('fine')"), check("print('broken'); exit(3)")
SPEED = {"experiment": BITS, "scale": "cpu", "moves": "tokens/s", "steps": 2, "minutes": 1}
RUN = {"targets": [BITS], "scale": "cpu", "seeds": "7-7", "minutes": 1, "says": "Bits."}


def plan(workshop: Workshop, **parts: list[dict[str, Any]]) -> None:
    (workshop.configs / f"{PREFIX}mine.yaml").write_text(
        yaml.safe_dump(parts, sort_keys=False), encoding="utf-8"
    )


def begun(campaign: Campaign, hours: float = 1.0) -> list[str]:
    said: list[str] = []
    work(campaign, campaign.steps(), hours, said.append)
    return said


@pytest.mark.parametrize("name", NAMES)
def test_a_campaign_of_the_suite_names_what_exists(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    monkeypatch.setenv("REPRO_RESULTS", str(PROJECT / "results"))
    for rehearsal in (False, True):
        steps = load_campaign(name, rehearsal).steps()
        keys = [step.key for step in steps]
        assert len(set(keys)) == len(keys) > 0
        assert {step.part for step in steps} == {"checks", "measures", "runs"}
    for step in (step for step in steps if step.part == "checks"):
        files = [word for word in step.words if word.endswith(".py")]
        files += [f"{word.replace('.', '/')}.py" for word in step.words if word.startswith("benchmarks.")]
        assert [(PROJECT / file).is_file() for file in files] == [True]


def test_checks_measures_and_runs_end_in_a_report(workshop: Workshop) -> None:
    workshop.bits()
    variants = {"plain": {}, "half": {"trainer.precision": "bf16-mixed"}}
    plan(workshop, checks=[GOOD, BAD], measures=[SPEED | {"variants": variants}], runs=[RUN])
    said = call("campaign", "mine")
    assert said.code == 0, said.err
    assert "4 of 5 steps are done; the same command goes on" in said.out
    (record,) = workshop.records()  # measurements are apart
    assert json.loads(record.read_text())["seed"] == 7
    report = (workshop.runs / "campaign-mine" / "report.md").read_text()
    assert "It works. done" in report
    assert "It works. exit code 3: broken" in report
    rows = [line.split(" | ") for line in report.splitlines() if BITS in line and line.startswith("|")]
    assert [row[1] for row in rows] == ["plain", "half", "Bits."]
    assert all(float(row[2].replace(",", "")) > 0 for row in rows[:2])  # tokens/s
    assert "test/loss" in rows[2][2]


def test_what_is_done_is_not_done_again(workshop: Workshop) -> None:
    counted = check("open('count', 'a').write('x')")
    plan(workshop, checks=[counted, BAD])
    assert len(begun(load_campaign("mine"))) == 4
    assert len(begun(load_campaign("mine"))) == 2  # what failed is tried again
    assert Path("count").read_text() == "x"


def test_an_outcome_that_was_cut_off_counts_for_nothing_and_spoils_no_other(workshop: Workshop) -> None:
    plan(workshop, checks=[GOOD])
    campaign = load_campaign("mine")
    campaign.folder.mkdir(parents=True)
    (campaign.folder / "steps.jsonl").write_bytes('{"key": "x", "line": "\u00e9'.encode()[:-1])
    assert outcomes(campaign.folder) == {}
    assert len(begun(campaign)) == 2
    assert begun(campaign) == []


def test_a_command_that_cannot_be_started_is_a_step_that_failed(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(workshop.root))
    missing = GOOD | {"command": "no-such-command --x"}
    plan(workshop, checks=[missing, GOOD | {"command": "python -c 'print(7)'"}])
    said = begun(load_campaign("mine"))
    assert said[1] == "    exit code 127: cannot start no-such-command: No such file or directory"
    assert said[3] == "    done: 7"


def test_a_run_that_has_a_record_is_not_run(workshop: Workshop) -> None:
    workshop.bits()
    plan(workshop, runs=[RUN])
    assert call("run", BITS, "--scale", "cpu", "--seed", "7").code == 0
    assert begun(load_campaign("mine")) == []
    assert "1 of 1 steps are done\n" in call("campaign", "mine").out


def test_nothing_is_begun_that_takes_longer_than_is_left(workshop: Workshop) -> None:
    plan(workshop, checks=[check("print(1)", minutes=90), GOOD])
    said = begun(load_campaign("mine"), hours=1.0)
    assert "left out" in said[0]
    assert "done: fine" in said[2]


@pytest.mark.parametrize("ended", [lambda: os.kill(os.getpid(), signal.SIGTERM), None])
def test_a_step_is_stopped_when_the_time_is_up_or_the_campaign_is(
    workshop: Workshop, ended: Callable[[], None] | None
) -> None:
    plan(workshop, checks=[check("import time; time.sleep(600)", 0), GOOD])
    campaign = load_campaign("mine")
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if ended and len(said) == 1:
            ended()

    stopped = work(campaign, campaign.steps(), 100 if ended else 5e-4, say)
    first = next(iter(outcomes(campaign.folder).values()))
    assert (stopped, first.code) == (ended is not None, -signal.SIGTERM)
    assert len(outcomes(campaign.folder)) == 1


def test_a_rehearsal_leaves_the_results_alone(workshop: Workshop) -> None:
    workshop.bits()
    workshop.recipe("set: {trainer.max_steps: 9}", "bits", "small", "frozen-pretrained-transformer")
    check_in_small = BAD | {"rehearsal": GOOD["command"]}
    plan(workshop, checks=[check_in_small], runs=[RUN | {"scale": "small"}])
    said = call("campaign", "mine", "--rehearse")
    assert "2 of 2 steps are done" in said.out, said.err
    assert workshop.records() == []
    (record,) = (workshop.runs / "campaign-mine-rehearsal" / "results").rglob("runs/**/*.json")
    found = json.loads(record.read_text())
    assert (found["scale"], found["steps"]) == ("cpu", 2)


def test_a_rehearsal_shortens_the_warmup_and_validates(workshop: Workshop) -> None:
    name = workshop.stream()
    change = {
        "model.schedule.steps": 100, "model.schedule.warmup_steps": 50, "trainer.max_steps": 100,
        "trainer.val_check_interval": 100,
        "checkpoints": {"every_steps": 100, "average_last": 1, "best": "val/loss"},
    }  # fmt: skip
    paper, recipe = name.split("/")
    workshop.recipe(yaml.safe_dump({"set": change}), recipe, "cpu", paper)
    plan(workshop, runs=[RUN | {"targets": [name]}])
    said = call("campaign", "mine", "--rehearse")
    assert "1 of 1 steps are done" in said.out, said.out


def test_bad_input_is_one_line(workshop: Workshop) -> None:
    plan(workshop, checks=[GOOD])
    call("campaign", "mien").refused("no campaign 'mien'", "nearest: mine")
    call("campaign", "mine", "--hours", "0").refused("--hours must be above 0")
    plan(workshop, runs=[RUN | {"targets": ["admin/nothing"]}])
    call("campaign", "mine").refused("unknown target 'admin/nothing'")
    plan(workshop, runs=[{"target": "x"}])
    with pytest.raises(UserError, match="target"):
        load_campaign("mine")


def test_the_gpu_campaign_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    call("campaign", "gpu").refused("torch sees no GPU", "--rehearse")
