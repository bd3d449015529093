"""The content of a paper's workspace and report on W&B, without a server."""

import ast
import json
import re
import shlex
import socket
from functools import cache
from typing import Any

import pytest

from repro.cli.main import build_parser
from repro.errors import UserError
from repro.evidence import text
from repro.evidence.compare import compare
from repro.evidence.goals import expected
from repro.evidence.published import load_paper, paper_keys
from repro.evidence.table import Evidence, read_evidence
from repro.recipe import load_recipe
from repro.report.formats.documents import escape_markdown
from tests.report.fakes import PUBLISHED, House

pytest.importorskip("wandb_workspaces", reason="the extra `dashboards` is not installed")
from repro.report.dashboard import SPEED, STEP, TRAINING, Place, published_lines, report, workspace

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic V1 style")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)


PLACE: Place = {"entity": "anna", "project": "repro"}


@cache
def paper_of(key: str) -> Evidence:
    """The evidence of a paper of this checkout."""
    return read_evidence(key)


def blocks(found: Evidence, kind: str) -> list[Any]:
    """The blocks of a report of one class of the library."""
    return [block for block in report(found, PLACE, "https://w").blocks if type(block).__name__ == kind]


def passages(found: Evidence) -> dict[str, str]:
    """The Markdown below each heading of a report."""
    result, heading = {}, ""
    for block in report(found, PLACE, "https://w").blocks:
        if type(block).__name__ in ("H2", "H3"):
            heading = block.text
        elif type(block).__name__ == "MarkdownBlock":
            result[heading] = block.text
    return result


def sections(found: Evidence) -> dict[str, list[list[str]]]:
    """The metrics of each panel, by section of the workspace."""
    named: Any = {one.name: one.panels for one in workspace(found, PLACE).sections}
    return {name: [[str(m) for m in panel.y] for panel in panels] for name, panels in named.items()}


def tags(filters: str) -> list[str]:
    """The tags that all runs must have."""
    return [ast.literal_eval(one.partition(" in ")[2])[0] for one in filters.split(" and ")]


FEW = ("admin", "linear-transformer")


@pytest.mark.parametrize(
    "key", [key if key in FEW else pytest.param(key, marks=pytest.mark.matrix) for key in paper_keys()]
)
def test_every_published_number_stands_in_its_row_and_column(key: str) -> None:
    result = passages(paper_of(key))
    for table in load_paper(key).tables.values():
        lines = [
            re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |"))
            for line in result[text.clean(f"{table.number}: {table.title}")].splitlines()
            if line.startswith("|")
        ]
        for row in table.rows.values():
            for metric, value in row.values.items():
                start = f"{escape_markdown(metric)} ("
                (column,) = [i for i, title in enumerate(lines[0]) if title.startswith(start)]
                cells = [line[column] for line in lines if line[0] == escape_markdown(row.label)]
                assert text.printed(value) in [cell.partition(" ")[0] for cell in cells], (row.id, metric)


def test_ours_verdicts_and_tests_stand_beside(house: House) -> None:
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [27.0, 27.1, 27.2])
    result = passages(read_evidence("toy"))
    (ours,) = [line for line in result["Table 1: Toys"].splitlines() if "ours: toy/base" in line]
    assert "28.10 ± 0.25" in ours
    assert "reproduced" in ours
    assert "| Big has more BLEU than base after 100 updates. |" in result["Tests of its claims"]
    assert "Ada Lovelace" in result[""]
    assert "A Toy Paper" not in result, "the title is the report's"


def test_each_recipe_has_its_judged_runs_by_scale(house: House) -> None:
    base = house.recipe("base")
    house.recipe("base", scale="cpu")
    house.run(base, [28.0])
    grids = blocks(read_evidence("toy"), "PanelGrid")
    assert [(grid.runsets[0].name, tags(grid.runsets[0].filters)) for grid in grids] == [
        ("paper scale", ["paper", "judged"]),
        ("reduced scale: cpu, not the paper's row", ["cpu", "judged"]),
    ]
    metrics = [panel.y[0] for panel in grids[0].panels]
    assert metrics == ["train/loss", "val/loss", "val/bleu", *TRAINING[1:], *SPEED]


def test_a_recipes_runs_are_found_by_name_and_scale_and_no_others() -> None:
    every = {(f"{e}/{s}/s1-01234567", s): e.partition("@")[0] for e, s in compare("shortformer").recipes}
    result = []
    for grid in blocks(paper_of("shortformer"), "PanelGrid"):
        (runs,) = grid.runsets
        scale, _ = tags(runs.filters)
        (meant,) = {every[name, own] for name, own in every if runs.query in name and own == scale}
        assert runs.groupby == ["run.Group", "config.recipe.title"], "a mean never mixes experiments"
        result.append((meant, scale))
    assert sorted(result) == sorted({(grid, scale) for (_, scale), grid in every.items()})


def test_the_workspace_has_each_metric_once_and_published_numbers_beside_ours(house: House) -> None:
    house.recipe(
        "base",
        "{table: table1, row: base, metric: bleu, measured: test/bleu_intl}",
        "{table: table1, row: base, metric: ppl, measured: val/ppl}",
        "{table: table1, row: big, metric: ppl, measured: val/ppl}",
    )
    house.recipe("drawn", "{table: table1, row: drawn, metric: speed, measured: train/speed}")
    found = read_evidence("toy")
    assert sections(found) == {
        "Training": [[metric] for metric in TRAINING],
        "Validation": [
            ["val/loss"],
            ["val/ppl", "published/val/ppl@table1:base", "published/val/ppl@table1:big"],
            ["val/bleu"],
        ],
        "Speed and hardware": [[metric] for metric in SPEED],
    }
    made: Any = workspace(found, PLACE)
    assert made.settings.x_axis == STEP
    shown = tags(made.runset_settings.filters)
    assert shown == ["toy", "judged"], "neither runs for tuning nor with other settings"
    places = [(panel.layout.x, panel.layout.y) for panel in made.sections[0].panels]
    assert len(set(places)) == len(TRAINING)


def test_published_numbers_are_called_as_runs_call_them(house: House) -> None:
    house.recipe(
        "base",
        "{table: table1, row: base, metric: bleu, measured: test/bleu}",
        "{table: table1, row: base, metric: speed, measured: test/bleu}",
        "{table: table1, row: big, metric: ppl, measured: test/ppl}",
        "{table: table1, row: base, metric: ppl, measured: test/ppl}",
        "{table: table1, row: drawn, metric: speed, measured: train/speed}",
    )
    displayed = {name for names in published_lines(read_evidence("toy")).values() for name in names}
    assert displayed == {f"published/{name}" for name in expected(load_recipe("toy/base"))}


@pytest.mark.parametrize("key", paper_keys())
def test_every_command_is_one_that_the_command_line_takes(key: str) -> None:
    written = [block.text for block in blocks(paper_of(key), "MarkdownBlock") if block.text.startswith("```")]
    for line in (line for block in written for line in block.splitlines()[1:-1]):
        word, *arguments = shlex.split(line)
        assert word == "repro"
        assert build_parser().parse_args(arguments).verb == arguments[0]


def test_no_such_paper_is_bad_input() -> None:
    with pytest.raises(UserError, match="'shortfromer'; nearest: shortformer"):
        read_evidence("shortfromer")


@pytest.mark.parametrize("url", ['https://x/"><script>', "https://x/\x1b[2J"])
def test_an_address_that_is_none_is_refused(house: House, url: str) -> None:
    house.publish(PUBLISHED.replace("url: https://arxiv.org/abs/2001.00001", f"url: {json.dumps(url)}"))
    with pytest.raises(UserError, match=r"paper\.url"):
        read_evidence("toy")


def test_hostile_words_stay_words(house: House) -> None:
    evil = "x' or True ```\n<script>x</script> [a](javascript:b) ![c](d) | `e` **f**\x1b[2J"
    house.publish(
        PUBLISHED.replace("label: Base,", f"label: {json.dumps(evil)},")
        .replace("notes: Toys are small.", f"notes: {json.dumps('# ' + evil)}")
        .replace("title: A Toy Paper", f"title: {json.dumps(evil * 20)}")
    )
    house.run(house.recipe("base"), [28.0], scale="paper", commit=None, precision=evil)
    house.write("evil", f"title: {json.dumps(evil)}\nmodel: {{class_path: x}}\n")
    found = read_evidence("toy")
    title = report(found, PLACE, "https://w").title
    assert len(title) <= 128
    assert "\n" not in title
    for block in blocks(found, "MarkdownBlock"):
        if block.text.startswith("```"):
            lines = block.text.splitlines()
            assert (lines[0], lines[-1]) == ("```bash", "```")
            assert all(line.startswith("repro ") for line in lines[1:-1])
        else:
            assert not re.search(r"<(?!!--)|\]\(|!\[|\x1b|`", re.sub(r"\\.", "", block.text)), block.text
    table = passages(found)["Table 1: Toys"]
    assert "&lt;script&gt;" in table
    lines = [line for line in table.splitlines() if line.startswith("|")]
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 8 for line in lines)
