"""A dashboard's specification: complete, plain, and the same bytes each time. No server is asked."""

import itertools
import json
import socket
from functools import cache
from typing import Any

import pytest

from repro import text
from repro.evidence.published import load_paper, paper_keys
from repro.report.dashboards.dashboard import STEP, dashboard
from repro.report.dashboards.dashboard_spec import Spec, as_json, specification
from repro.report.formats import markdown
from tests.report.dashboards.test_dashboard import board_of
from tests.report.fakes import PUBLISHED, House


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


def blocks(spec: Spec, kind: str) -> list[Any]:
    return [block for block in spec["report"]["blocks"] if block["kind"] == kind]


@pytest.mark.parametrize("key", paper_keys())
def test_every_published_number_is_in_it(key: str) -> None:
    after = {
        one["text"]: two.get("text", "")
        for one, two in itertools.pairwise(spec_of(key)["report"]["blocks"])
        if one["kind"] == "heading"
    }
    for table in load_paper(key).tables.values():
        lines = after[text.clean(f"{table.number}: {table.title}")].splitlines()
        for row in table.rows.values():
            label = f"| {markdown.escape(row.label)} | "
            here = [line.split(" | ") for line in lines if line.startswith(label)]
            assert here, (table.id, row.id)
            for value in row.values.values():
                assert any(text.printed(value) in [c.partition(" ")[0] for c in cells] for cells in here)


@pytest.mark.parametrize(
    "key", ["frozen-pretrained-transformer", "transformer-xl"]
)  # the largest; several data sets
def test_built_twice_it_is_the_same_to_the_byte(key: str) -> None:
    again = specification(dashboard(key), "anna", "repro")
    assert as_json(again) == as_json(spec_of(key))
    assert json.loads(as_json(again)) == again, "plain JSON"


def test_the_workspace_shows_a_papers_runs_by_group_over_updates() -> None:
    spec = spec_of("transformer-xl")
    workspace = spec["workspace"]
    assert (spec["step"], workspace["tag"], workspace["by"]) == (STEP, "transformer-xl", "group")
    charts = [chart for one in workspace["sections"] for chart in one["charts"]]
    drawn = {metric for chart in charts if chart["kind"] == "lines" for metric in chart["metrics"]}
    assert drawn >= {
        "train/loss",
        "train/lr",
        "train/grad_norm",
        "train/tokens_per_s",
        "train/mfu",
        "val/ppl",
    }
    assert ["test/bpc", "published/test/bpc"] in [c["metrics"] for c in charts if c["kind"] == "bars"]
    assert spec_of("frozen-pretrained-transformer")["workspace"]["by"] == "title"


def test_the_report_has_panels_for_each_recipe_and_scale_filtered_by_group() -> None:
    found = [one["runs"] for one in blocks(spec_of("reformer"), "panels")]
    (one,) = [runs for runs in found if runs["named"] == "reformer/wmt14@" and runs["name"] == "paper scale"]
    assert "reformer:table4:reversible-base-100k" in one["groups"]
    keys = [(runs["named"], runs["name"]) for runs in found]
    assert len(keys) == len(set(keys)), "scales share no axes"


@pytest.mark.parametrize("url", ['https://x/"><script>', "https://x/\x1b[2J"])
def test_an_address_that_is_none_is_no_link(house: House, url: str) -> None:
    house.publish(PUBLISHED.replace("url: https://arxiv.org/abs/2001.00001", f"url: {json.dumps(url)}"))
    assert blocks(specification(dashboard("toy"), "a", "p"), "link") == []
    assert blocks(spec_of("admin"), "link")[0]["url"] == board_of("admin").paper.about.url


def test_hostile_words_end_no_block(house: House) -> None:
    evil = "x' or True ```\n# <img src=x onerror=y>"
    house.write("evil", f"title: {json.dumps(evil)}\nmodel: {{class_path: x}}\n")
    house.publish(PUBLISHED.replace("title: A Toy Paper", f"title: {json.dumps(evil * 20)}"))
    spec = specification(dashboard("toy"), "a", "p")
    assert len(spec["report"]["title"]) <= 128
    assert "\n" not in spec["report"]["title"]
    for block in blocks(spec, "markdown"):
        written = block["text"]
        if written.startswith("```"):
            lines = written.splitlines()
            assert (lines[0], lines[-1]) == ("```bash", "```")
            assert all(line.startswith("repro ") for line in lines[1:-1])
        else:
            assert "<img" not in written
    assert blocks(spec, "panels")[0]["runs"]["groups"] == ["toy/evil/paper"]
