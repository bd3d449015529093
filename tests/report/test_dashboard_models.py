"""A dashboard in the models of W&B's library: valid, complete, and the same bytes each time. No server is asked."""

import copy
import itertools
import json
import socket
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from repro.errors import ReproError
from repro.report import markdown, text
from repro.report.dashboard import STEP, dashboard
from repro.report.dashboard_models import Spec, address, as_json, check, run_sets, specification, view_name
from repro.report.published import load_paper, paper_keys
from tests.report.fakes import PUBLISHED, House
from tests.report.test_dashboard import board_of

pytest.importorskip("wandb_workspaces", reason="the extra `dashboards` is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic V1 style")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection, no key, no address of a server."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a server was asked")

    for name in ("WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@cache
def spec_of(key: str) -> Spec:
    return specification(board_of(key), "anna", "repro")


def ids(tree: Any) -> Iterator[str]:
    """Every id in a tree that the library would have made up."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("id", "__id__") and value:
                yield value
            yield from ids(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from ids(item)


@pytest.mark.parametrize("key", paper_keys())
def test_it_is_valid_in_the_librarys_models(key: str) -> None:
    from wandb_workspaces.reports.v2.internal import ReportViewspec
    from wandb_workspaces.workspaces.internal import View

    spec = spec_of(key)
    View.model_validate(spec["workspace"])
    report = ReportViewspec.model_validate(spec["report"])
    kinds = Counter(type(block).__name__ for block in report.spec.blocks)
    assert kinds.keys() <= {"Paragraph", "TableOfContents", "Heading", "MarkdownBlock", "PanelGrid"}
    assert kinds["PanelGrid"] == len(board_of(key).curves)


@pytest.mark.parametrize("key", paper_keys())
def test_every_published_number_is_in_it(key: str) -> None:
    blocks = spec_of(key)["report"]["spec"]["blocks"]
    after = {
        "".join(child["text"] for child in one["children"]): two.get("content", "")
        for one, two in itertools.pairwise(blocks)
        if one["type"] == "heading"
    }
    for table in load_paper(key).tables.values():
        lines = after[text.clean(f"{table.number}: {table.title}")].splitlines()
        for row in table.rows.values():
            label = f"| {markdown.escape(row.label)} | "
            here = [line.split(" | ") for line in lines if line.startswith(label)]
            assert here, (table.id, row.id)
            for value in row.values.values():
                assert any(text.printed(value) in [c.partition(" ")[0] for c in cells] for cells in here)


@pytest.mark.parametrize("key", paper_keys())
def test_built_twice_it_is_the_same_to_the_byte(key: str) -> None:
    again = specification(dashboard(key), "anna", "repro")
    assert as_json(again) == as_json(spec_of(key))
    found = list(ids(again))
    assert len(found) == len(set(found))
    assert all(len(one) == 12 for one in found)


def test_ids_stay_when_numbers_change_and_differ_between_papers(house: House) -> None:
    experiment = house.recipe("base")
    before = specification(dashboard("toy"), "a", "p")
    house.run(experiment, [28.0])
    after = specification(dashboard("toy"), "a", "p")
    assert as_json(before) != as_json(after)
    assert list(ids(before)) == list(ids(after))
    names = {view_name(kind, key) for kind in ("workspace", "report") for key in paper_keys()}
    assert len(names) == 2 * len(paper_keys())


def test_the_workspace_shows_a_papers_runs_by_group_over_updates() -> None:
    section = spec_of("transformer-xl")["workspace"]["spec"]["section"]
    (runs,) = section["runSets"]
    assert runs["filters"]["filters"] == [
        {
            "key": {"section": "run", "name": "tags"},
            "op": "IN",
            "value": ["transformer-xl"],
            "disabled": False,
        }
    ]
    assert runs["grouping"] == [{"section": "run", "name": "group"}]
    panels = [panel for one in section["panelBankConfig"]["sections"] for panel in one["panels"]]
    lines = [panel["config"] for panel in panels if panel["viewType"] == "Run History Line Plot"]
    assert {line["xAxis"] for line in lines} == {STEP}
    drawn = {metric for line in lines for metric in line["metrics"]}
    assert drawn >= {
        "train/loss",
        "train/lr",
        "train/grad_norm",
        "train/tokens_per_s",
        "train/mfu",
        "val/ppl",
    }
    bars = [panel["config"]["metrics"] for panel in panels if panel["viewType"] == "Bar Chart"]
    assert ["test/bpc", "published/test/bpc"] in bars
    grouping = spec_of("frozen-pretrained-transformer")["workspace"]["spec"]["section"]["runSets"][0][
        "grouping"
    ]
    assert grouping == [{"section": "config", "name": "recipe.value.title"}]


def test_the_report_has_panels_for_each_recipe_filtered_by_group() -> None:
    spec = spec_of("reformer")
    found = {one["search"]["query"]: one for one in run_sets(spec)}
    one = found["^reformer/wmt14(@[^/]+)?/paper/"]
    assert one["search"]["isRegex"] is True
    (only,) = one["filters"]["filters"]
    assert (only["key"], only["op"]) == ({"section": "run", "name": "group"}, "IN")
    assert "reformer:table4:reversible-base-100k" in only["value"]
    assert one["project"] == {"entityName": "anna", "name": "repro"}
    for block in spec["report"]["spec"]["blocks"]:
        if block["type"] == "panel-grid":
            assert sum(one["enabled"] for one in block["metadata"]["runSets"]) == 1, "scales share no axes"
            places = [p["layout"] for p in block["metadata"]["panelBankSectionConfig"]["panels"]]
            assert len({(p["x"], p["y"]) for p in places}) == len(places)


def test_links_lead_to_the_paper_and_where_a_server_said_where_to_the_curves() -> None:
    board = board_of("admin")
    place = address("admin", "an na", "repro", "https://wandb.example/")
    assert place == f"https://wandb.example/an%20na/repro?nw={view_name('workspace', 'admin')[3:-2]}"
    with_site = specification(board, "an na", "repro", "https://wandb.example/")["report"]["spec"]["blocks"]
    assert place in json.dumps(with_site)
    assert "?nw=" not in as_json(specification(board, "an na", "repro"))
    assert board.paper.url in json.dumps(spec_of("admin")["report"]["spec"]["blocks"][2])


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", 'https://x/"><script>', "https://x/\x1b[2J", "data:text/html,x"]
)
def test_an_address_that_is_none_is_no_link(house: House, url: str) -> None:
    house.publish(PUBLISHED.replace("url: https://arxiv.org/abs/2001.00001", f"url: {json.dumps(url)}"))
    spec = specification(dashboard("toy"), "a", "p")
    links = [
        c for b in spec["report"]["spec"]["blocks"] for c in b.get("children", ()) if c.get("type") == "link"
    ]
    assert [one["url"] for one in links if not one["url"].startswith("https://x/")] == []
    assert not any(set(one["url"]) & set('"<>\x1b ') for one in links)


def test_hostile_words_end_no_block_and_reach_no_filter(house: House) -> None:
    evil = "x' or True ```\n# <img src=x onerror=y>"
    house.write("evil", f"title: {json.dumps(evil)}\nmodel: {{class_path: x}}\n")
    house.publish(PUBLISHED.replace("title: A Toy Paper", f"title: {json.dumps(evil * 20)}"))
    spec = specification(dashboard("toy"), "a", "p")
    assert len(spec["report"]["displayName"]) <= 128
    assert "\n" not in spec["report"]["displayName"]
    for block in spec["report"]["spec"]["blocks"]:
        written = block.get("content", "")
        if written.startswith("```"):
            lines = written.splitlines()
            assert (lines[0], lines[-1]) == ("```bash", "```")
            assert all(line.startswith("repro ") for line in lines[1:-1])
        else:
            assert "<img" not in written
    assert run_sets(spec)[0]["filters"]["filters"][0]["value"] == ["toy/evil/paper"]


@pytest.mark.parametrize("part", ["view", "block", "panel", "other"])
def test_what_the_library_reads_otherwise_is_refused(part: str) -> None:
    spec = copy.deepcopy(spec_of("admin"))
    check(spec)
    section = spec["workspace"]["spec"]["section"]
    if part == "view":
        section["settings"]["maxRuns"] = "many"
    elif part == "block":
        spec["report"]["spec"]["blocks"][1]["type"] = "tables-of-contents"
    elif part == "panel":
        section["panelBankConfig"]["sections"][0]["panels"][0]["viewType"] = "Run Line Plot"
    else:
        section["panelBankConfig"]["sections"][0]["panels"][0]["config"]["smoothing"] = 0.9
    with pytest.raises(ReproError, match="the dashboard of admin"):
        check(spec)
