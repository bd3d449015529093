"""`repro dashboard` and `repro tables --from-wandb`, with W&B's own client against a server on the loopback."""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repro.record import read_records
from repro.report.dashboards.dashboard_publish import MISSING
from repro.tracking import pull
from tests.report.fakes import House, make_record
from tests.wandb_api import KEY, WandbApi, said
from tests.wandb_server import ENTITY, GONE, PROJECT
from tests.workshop import PROJECT as CHECKOUT
from tests.workshop import call

TARGET = f"{ENTITY}/{PROJECT}"
THERE = importlib.util.find_spec("wandb_workspaces") is not None
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic V1 style")
dashboards = pytest.mark.skipif(not THERE, reason="the extra `dashboards` is not installed")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A small project, and an environment without key, server or proxy."""
    for name in [name for name in os.environ if name.startswith("WANDB_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("REPRO_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "configs"))
    return House(tmp_path)


@pytest.fixture
def api(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbApi]:
    """A server that the environment names, with a key."""
    made = WandbApi()
    monkeypatch.setenv("WANDB_BASE_URL", made.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    yield made
    made.close()


@dashboards
def test_a_dry_run_prints_or_writes_the_same_specification_in_any_process(
    house: House, tmp_path: Path
) -> None:
    house.recipe("base")
    printed = call("dashboard", "toy", "--dry-run", "--entity", "anna")
    assert printed.code == 0, printed.err
    spec = json.loads(printed.out)
    assert (spec["paper"], spec["entity"], spec["project"]) == ("toy", "anna", "repro")
    file = tmp_path / "there" / "spec.json"
    words = [sys.executable, "-m", "repro", *f"dashboard toy --dry-run --entity anna --out {file}".split()]
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": "7"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{file}\n"), done.stderr
    assert file.read_text() == printed.out


@dashboards
def test_it_is_created_once_and_updated_from_then_on(house: House, api: WandbApi) -> None:
    experiment = house.recipe("base")
    first = call("dashboard", "toy")
    assert first.code == 0, first.err
    assert [line.split()[:2] for line in first.out.splitlines()] == [
        ["created", "workspace"],
        ["created", "report"],
    ]
    assert f"/{ENTITY}/repro?nw=" in first.out
    assert f"/{ENTITY}/repro/reports/toy:-A-Toy-Paper--" in first.out
    assert sorted(view["type"] for view in api.views.values()) == ["project-view", "runs"]
    house.run(experiment, [28.0])
    again = call("dashboard", "toy")
    assert again.code == 0, again.err
    assert [line.split()[:2] for line in again.out.splitlines()] == [
        ["updated", "workspace"],
        ["updated", "report"],
    ]
    addresses = [[line.split()[2] for line in one.out.splitlines()] for one in (first, again)]
    assert addresses[0] == addresses[1]
    assert len(api.views) == 2
    assert "ours: toy/base" in report(api)


@dashboards
def test_what_is_saved_is_what_the_specification_says(house: House, api: WandbApi) -> None:
    house.recipe("base")
    assert call("dashboard", "toy").code == 0
    (saved,) = [view for view in api.views.values() if view["type"] == "runs"]
    assert (saved["entityName"], saved["projectName"]) == (ENTITY, PROJECT)
    assert saved["displayName"] == "toy: A Toy Paper"
    dry = json.loads(call("dashboard", "toy", "--dry-run", "--entity", ENTITY).out)
    wanted = [block for block in dry["report"]["blocks"] if block["kind"] == "panels"]
    grids = [block for block in said(saved)["blocks"] if block["type"] == "panel-grid"]
    assert len(grids) == len(wanted) > 0
    for grid, block in zip(grids, wanted, strict=True):
        (runs,) = grid["metadata"]["runSets"]
        (only,) = runs["filters"]["filters"]
        assert (runs["name"], runs["search"]["query"]) == (block["runs"]["name"], block["runs"]["named"])
        assert (only["key"]["name"], only["op"], only["value"]) == ("group", "IN", block["runs"]["groups"])
        panels = grid["metadata"]["panelBankSectionConfig"]["panels"]
        assert [panel["config"]["metrics"] for panel in panels] == [c["metrics"] for c in block["charts"]]
        places = [panel["layout"] for panel in panels]
        assert len({(p["x"], p["y"]) for p in places}) == len(places)
    (workspace,) = [view for view in api.views.values() if view["type"] == "project-view"]
    section = said(workspace)["section"]
    assert [one["name"] for one in section["panelBankConfig"]["sections"]] == [
        one["name"] for one in dry["workspace"]["sections"]
    ]
    assert section["runSets"][0]["filters"]["filters"][0]["value"] == ["toy"]


@dashboards
def test_a_project_that_is_not_there_is_made(
    house: House, api: WandbApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_PROJECT", "fresh")
    monkeypatch.setenv("WANDB_ENTITY", ENTITY)
    made = call("dashboard", "toy")
    assert made.code == 0, made.err
    assert "fresh" in api.projects


@dashboards
def test_one_that_was_deleted_is_made_again(house: House, api: WandbApi) -> None:
    assert call("dashboard", "toy").code == 0
    api.views.clear()
    again = call("dashboard", "toy")
    assert again.code == 0, again.err
    assert len(api.views) == 2


@dashboards
def test_a_server_that_does_not_answer_is_one_line(
    house: House, api: WandbApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "TIMEOUT_S", 0.3)
    api.fail(GONE)
    failed = call("dashboard", "toy")
    assert failed.code == 2
    assert failed.err.count("repro: ") == 1
    assert "does not answer" in failed.err.splitlines()[-1]


@dashboards
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("tooy",), "unknown paper 'tooy'; nearest: toy"),
        (("toy", "--project", "a/b"), "ENTITY/PROJECT"),
        (("toy", "--entity", "a#b", "--dry-run"), "ENTITY/PROJECT"),
        (("toy",), "no key for"),
    ],
)
def test_bad_input_is_one_line(house: House, arguments: tuple[str, ...], words: str) -> None:
    failed = call("dashboard", *arguments)
    assert (failed.code, failed.out) == (2, "")
    assert words in failed.err
    assert failed.err.count("\n") == 1


def test_without_the_library_the_line_says_how_to_get_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "wandb_workspaces" else real(name, *more),
    )
    failed = call("dashboard", "toy")
    assert failed.code == 2
    assert failed.err == f"repro: {MISSING}\n"
    assert call("dashboard", "toy", "--dry-run", "--entity", "anna").code == 0


def report(api: WandbApi) -> str:
    """The text of the saved report."""
    (saved,) = [view for view in api.views.values() if view["type"] == "runs"]
    return str(saved["spec"])


def upload(api: WandbApi, experiment: str, seed: int, /, **spoilt: Any) -> None:
    """A run's record as its artifact."""
    raw = json.loads(make_record(experiment, seed, 28.0 + seed / 10).to_json())
    api.upload(f"record-{seed}", {"record.json": json.dumps({**raw, **spoilt}).encode()})


def test_records_are_pulled_and_the_tables_made_of_them(house: House, api: WandbApi) -> None:
    experiment = house.recipe("base")
    for seed in (1, 2, 3):
        upload(api, experiment, seed)
    said = call("tables", "--from-wandb", TARGET)
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert [line.split()[:2] for line in lines[:3]] == [["taken", f"record-{seed}:v0:"] for seed in (1, 2, 3)]
    assert lines[3] == f"records of {TARGET}: 3 taken, 0 there, 0 refused"
    assert any(line.endswith("toy.md") for line in lines[4:])
    assert all(record.external for record in read_records(house.results / "runs").good)
    table = (house.results / "tables" / "toy.md").read_text()
    assert "28.20 ± 0.25" in table
    assert "external record" in table
    assert "reproduced" not in table
    again = call("tables", "--from-wandb", TARGET)
    assert (again.code, again.out.splitlines()[-1]) == (
        0,
        f"records of {TARGET}: 0 taken, 3 there, 0 refused",
    )
    assert len(read_records(house.results / "runs").good) == 3


def test_what_a_run_uploads_is_what_is_taken(house: House, api: WandbApi) -> None:
    from repro.experiment.recording import artifacts

    outputs = "ein Hund\n"
    made = make_record(house.recipe("base"), 1, 28.0)
    made.outputs_sha256 = hashlib.sha256(outputs.encode()).hexdigest()
    (sent,) = [one for one in artifacts(made, outputs) if one["type"] == "record"]
    api.upload(sent["name"], {name: text.encode() for name, text in sent["files"].items()})
    said = call("tables", "--from-wandb", TARGET)
    assert (said.code, said.out.splitlines()[0].split()[:2]) == (0, ["taken", f"{sent['name']}:v0:"])
    (stored,) = (house.results / "runs").rglob("*.outputs.txt")
    assert stored.read_text() == outputs


def test_a_refused_record_stops_no_other_and_makes_the_code_1(house: House, api: WandbApi) -> None:
    experiment = house.recipe("base")
    upload(api, experiment, 0, experiment="../../../etc/base")
    upload(api, experiment, 1, schema_version=2)
    upload(api, experiment, 2, wall_seconds=float("nan"))
    api.upload("record-3", {"a.json": b"{}", "b.json": b"{}"})
    api.upload("record-\x1b[2J4", {"record.json": b"{" * 500_000})
    upload(api, experiment, 5)
    said = call("tables", "--from-wandb", TARGET)
    assert said.code == 1
    assert "\x1b" not in said.out
    states = [line.split()[0] for line in said.out.splitlines()]
    assert states[:7] == ["refused"] * 5 + ["taken", "records"]
    assert "5 refused" in said.out
    assert len(read_records(house.results / "runs").good) == 1
    assert (house.results / "tables" / "toy.md").is_file(), "the tables are made of what is sound"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--from-wandb", "anna"), "'anna' is not ENTITY/PROJECT"),
        (("--from-wandb", "../.."), "no key for"),
        (("--from-wandb", TARGET), "no key for"),
        (("--from-wandb", TARGET, "--check"), "--check writes nothing"),
    ],
)
def test_bad_input_to_tables_is_one_line(house: House, arguments: tuple[str, ...], words: str) -> None:
    failed = call("tables", *arguments)
    assert (failed.code, failed.out) == (2, "")
    assert words in failed.err
    assert failed.err.count("\n") == 1
