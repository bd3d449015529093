"""`repro dashboard`, with W&B's own client against a server on the loopback."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from repro.cli.mirror import MISSING
from repro.mirror import api as connection
from tests.report.fakes import House
from tests.wandb_api import KEY, WandbApi, said
from tests.wandb_server import ENTITY, GONE, PROJECT
from tests.workshop import call

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
    made.vanish()


@dashboards
def test_a_dry_run_prints_the_report_and_asks_no_server(house: House, tmp_path: Path) -> None:
    house.recipe("base")
    printed = call("dashboard", "toy", "--dry-run", "--entity", "anna")
    assert printed.code == 0, printed.err
    assert printed.out.startswith("# toy: A Toy Paper\n")
    assert "Table 1: Toys\n" in printed.out
    assert "9 panels, paper scale]" in printed.out


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
def test_the_saved_views_are_those_of_the_paper(house: House, api: WandbApi) -> None:
    house.recipe("base")
    assert call("dashboard", "toy").code == 0
    (saved,) = [view for view in api.views.values() if view["type"] == "runs"]
    assert (saved["entityName"], saved["projectName"]) == (ENTITY, PROJECT)
    assert saved["displayName"] == "toy: A Toy Paper"
    (grid,) = [block for block in said(saved)["blocks"] if block["type"] == "panel-grid"]
    (runs,) = grid["metadata"]["runSets"]
    assert (runs["name"], runs["search"]["query"]) == ("paper scale", "toy/base/")
    tags = [(one["key"]["name"], one["op"], one["value"]) for one in runs["filters"]["filters"]]
    assert tags == [("tags", "IN", ["paper"]), ("tags", "IN", ["judged"])]
    assert [key["name"] for key in runs["grouping"]] == ["group", "recipe.value.title"]
    (workspace,) = [view for view in api.views.values() if view["type"] == "project-view"]
    section = said(workspace)["section"]
    names = [one["name"] for one in section["panelBankConfig"]["sections"]]
    assert names[:3] == ["Training", "Validation", "Speed and hardware"]
    assert section["runSets"][0]["filters"]["filters"][0]["value"] == ["toy"]


@dashboards
def test_a_campaign_is_a_table_of_all_runs_by_paper_and_scale(house: House, api: WandbApi) -> None:
    assert "summary:gpu_hours\n" in call("dashboard", "--dry-run").out
    addresses = []
    for word in ("created", "updated"):
        made = call("dashboard")
        assert made.code == 0, made.err
        assert made.out.startswith(f"{word} workspace {api.url}/{ENTITY}/{PROJECT}?nw=")
        addresses.append(made.out.split()[-1])
    assert addresses[0] == addresses[1]
    (saved,) = api.views.values()
    assert saved["displayName"] == "campaign"
    (runs,) = said(saved)["section"]["runSets"]
    assert [key["name"] for key in runs["grouping"]] == ["paper.value", "scale.value", "group"]
    assert runs["filters"]["filters"] == []
    columns = said(saved)["section"]["runSets"][0]["runFeed"]["columnPinned"]
    assert {"run:displayName", "run:state", "summary:score/ours", "summary:score/published"} < set(columns)


@dashboards
def test_runs_that_are_compared_are_a_report_of_their_own(house: House, api: WandbApi) -> None:
    experiment = house.recipe("base")
    runs = house.run(experiment, [28.0, 29.0])
    made = call("compare", experiment, "--report")
    assert made.code == 0, made.err
    assert f"created report    {api.url}/{ENTITY}/repro/reports/Compared:-toy-base--" in made.out
    (saved,) = api.views.values()
    table, grid = (one for one in said(saved)["blocks"] if one["type"] in ("markdown-block", "panel-grid"))
    assert "28.50" in str(table)
    (own,) = grid["metadata"]["runSets"]
    names = [(one["key"]["name"], one["op"], one["value"]) for one in own["filters"]["filters"]]
    assert names == [("displayName", "IN", [run.run_id for run in runs])]
    metrics = [one["config"]["metrics"] for one in grid["metadata"]["panelBankSectionConfig"]["panels"]]
    assert ["train/loss"] in metrics


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
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.3)
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
        (("toy", "--project", "a/b"), "project 'a/b'"),
        (("toy", "--entity", "a#b", "--dry-run"), "entity 'a#b'"),
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


def report(api: WandbApi) -> str:
    """The text of the saved report."""
    (saved,) = [view for view in api.views.values() if view["type"] == "runs"]
    return str(saved["spec"])
