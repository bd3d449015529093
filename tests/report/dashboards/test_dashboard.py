"""What a dashboard says and shows, before W&B's models."""

import json
import re
import shlex
from functools import cache

import pytest

from repro import text
from repro.cli.main import build_parser
from repro.errors import UserError
from repro.evidence.compare import compare
from repro.evidence.expected import expected
from repro.evidence.published import Paper, Row, Table, load_paper, paper_keys
from repro.mirror import labels
from repro.recipe import load_recipe
from repro.report.dashboards.dashboard import SPEED, TRAINING, Dashboard, dashboard, group_of
from repro.report.formats import markdown
from tests.report.fakes import PUBLISHED, House


@cache
def board_of(key: str) -> Dashboard:
    """The dashboard of a paper of this checkout."""
    return dashboard(key)


def grid_of(board: Dashboard, table: Table) -> list[list[str]]:
    """The Markdown table of a published table: its header, then its rows, cells as they stand."""
    heading = text.clean(f"{table.number}: {table.title}")
    (found,) = [p.markdown for p in board.passages if p.heading == heading]
    lines = [line for line in found.splitlines() if line.startswith("|")]
    rows = [re.split(r"(?<!\\) \| ", line.removeprefix("| ").removesuffix(" |")) for line in lines]
    return [rows[0], *rows[2:]]


def shown(grid: list[list[str]], row: Row, metric: str) -> list[str]:
    """What the lines of a row's label have in a metric's column."""
    (column,) = [i for i, title in enumerate(grid[0]) if title.startswith(f"{markdown.escape(metric)} (")]
    return [line[column] for line in grid[1:] if line[0] == markdown.escape(row.label)]


def numbers(paper: Paper) -> list[tuple[Table, Row, str, float]]:
    """Every published number of a paper."""
    rows = [(table, row) for table in paper.tables.values() for row in table.rows.values()]
    return [(table, row, metric, value) for table, row in rows for metric, value in row.values.items()]


@pytest.mark.parametrize("key", paper_keys())
def test_every_published_number_stands_in_its_row_and_column(key: str) -> None:
    board = board_of(key)
    found = numbers(load_paper(key))
    assert found
    for table, row, metric, value in found:
        cells = [cell.partition(" ")[0] for cell in shown(grid_of(board, table), row, metric)]
        assert text.printed(value) in cells, (table.id, row.id, metric)


def test_a_number_in_another_column_or_row_would_be_missed(house: House) -> None:
    board = dashboard("toy")
    table = load_paper("toy").tables["table1"]
    grid = grid_of(board, table)
    assert shown(grid, table.rows["big"], "bleu") == ["30"]
    assert shown(grid, table.rows["big"], "ppl") == ["4"]
    assert shown(grid, table.rows["base"], "bleu") == ["28"]
    assert shown(grid, table.rows["drawn"], "bleu") == [text.NOTHING]


def test_ours_verdicts_and_tests_stand_beside(house: House) -> None:
    house.run(house.recipe("base"), [28.0, 28.1, 28.2])
    house.run(house.recipe("small"), [27.0, 27.1, 27.2])
    board = dashboard("toy")
    grid = grid_of(board, load_paper("toy").tables["table1"])
    assert any("ours: toy/base" in line[1] and "28.10 ± 0.25" in line[3] for line in grid)
    assert any("reproduced" in line[-1] for line in grid)
    (tests,) = [p.markdown for p in board.passages if p.heading == "Tests of its claims"]
    assert "| Big has more BLEU than base after 100 updates. |" in tests
    assert "Base and small are alike." in tests
    assert not any(p.heading == "A Toy Paper" for p in board.passages), "the title is the report's"
    assert "Ada Lovelace" in board.opening


def test_the_groups_are_those_that_runs_are_given() -> None:
    comparison = compare()
    assert len(comparison.headers) > 100
    for header in comparison.headers.values():
        assert group_of(header) == labels.group(header.recipe)


def test_each_recipe_has_its_runs_by_scale_and_one_scale_is_shown(house: House) -> None:
    goals = "{table: table1, row: base, metric: bleu, measured: test/bleu}"
    base = house.recipe("base", goals)
    house.recipe("base", goals, scale="cpu")
    house.write("other", "title: Other\nmodel: {class_path: x}\n")
    board = dashboard("toy")
    assert [c.recipe for c in board.curves] == ["toy/base", "toy/other"]
    paper, cpu = board.curves[0].run_sets
    assert (paper.groups, cpu.groups) == (("toy:table1:base",), ("toy/base/cpu",))
    assert (paper.shown, cpu.shown) == (True, False), "without any record, the paper's scale"
    assert "not the paper's row" in cpu.name
    assert board.curves[1].run_sets[0].groups == ("toy/other/paper",)
    house.run(base, [28.0], scale="cpu")
    assert [r.shown for r in dashboard("toy").curves[0].run_sets] == [False, True]


def test_a_recipes_runs_are_found_by_name_and_group_and_no_others() -> None:
    every = {
        (f"{e}/{s}/s1-01234567", group_of(header)): (e.partition("@")[0], s)
        for (e, s), header in compare("shortformer").headers.items()
    }
    found = []
    for curves in board_of("shortformer").curves:
        for runs in curves.run_sets:
            (meant,) = {
                every[name, group] for name, group in every if runs.named in name and group in runs.groups
            }
            assert meant[0] == curves.recipe
            assert meant[1] in runs.name
            found.append(meant)
    assert sorted(found) == sorted(set(every.values()))


def test_a_mean_never_mixes_experiments(house: House) -> None:
    both = "{table: table1, row: base, metric: %s, measured: test/%s}"
    house.recipe("one", both % ("bleu", "bleu"))
    house.recipe("two", both % ("ppl", "ppl"))
    board = dashboard("toy")
    assert board.by_title, "two recipes of one row are one run group"
    assert not any(runs.by_title for curves in board.curves for runs in curves.run_sets)
    house.recipe("two", "{table: table1, row: big, metric: bleu, measured: test/bleu}")
    assert not dashboard("toy").by_title
    assert any(r.by_title for c in board_of("frozen-pretrained-transformer").curves for r in c.run_sets)


def test_the_workspace_has_each_metric_once_and_published_numbers_beside_ours(house: House) -> None:
    house.recipe(
        "base",
        "{table: table1, row: base, metric: bleu, measured: test/bleu_intl}",
        "{table: table1, row: base, metric: ppl, measured: val/ppl}",
        "{table: table1, row: big, metric: ppl, measured: val/ppl}",
    )
    house.recipe("drawn", "{table: table1, row: drawn, metric: speed, measured: train/speed}")
    sections = dict(dashboard("toy").sections)
    assert [c.metrics for c in sections["Training"]] == [(m,) for m in TRAINING]
    assert [c.metrics for c in sections["Speed and hardware"]] == [(m,) for m in SPEED]
    assert [c.metrics for c in sections["Validation"]] == [("val/loss",), ("val/ppl",), ("val/bleu",)]
    assert [c.metrics for c in sections["Measured beside published"]] == [
        ("test/bleu_intl", "published/test/bleu_intl"),
        ("val/ppl", "published/val/ppl@table1:base", "published/val/ppl@table1:big"),
    ]


def test_published_numbers_are_called_as_runs_call_them(house: House) -> None:
    house.recipe(
        "base",
        "{table: table1, row: base, metric: bleu, measured: test/bleu}",
        "{table: table1, row: base, metric: speed, measured: test/bleu}",
        "{table: table1, row: big, metric: ppl, measured: test/ppl}",
        "{table: table1, row: base, metric: ppl, measured: test/ppl}",
        "{table: table1, row: drawn, metric: speed, measured: train/speed}",
    )
    beside = dict(dashboard("toy").sections)["Measured beside published"]
    shown = {metric for chart in beside for metric in chart.metrics[1:]}
    assert shown == {f"published/{name}" for name in expected(load_recipe("toy/base"))}


def test_curves_of_records_are_drawn_too(house: House) -> None:
    house.run(
        house.recipe("base"),
        [28.0],
        curves={key: [[1, 2.0]] for key in ("val/odd", "train/odd", "val/bleu_intl")},
    )
    metrics = [c.metrics[0] for c in dashboard("toy").curves[0].charts]
    assert metrics[:4] == ["train/loss", "val/loss", "val/bleu", "val/odd"]
    assert not {"train/odd", "val/bleu_intl"} & set(metrics)
    assert len(set(metrics)) == len(metrics)


@pytest.mark.parametrize("key", paper_keys())
def test_every_command_is_one_that_the_command_line_takes(key: str) -> None:
    board = board_of(key)
    lines = [*board.commands, *(line for curves in board.curves for line in curves.commands)]
    for line in lines:
        word, *arguments = shlex.split(line)
        assert word == "repro"
        known = build_parser().parse_args(arguments)
        assert known.verb == arguments[0]


def test_a_grid_is_titled_by_what_its_points_share(house: House) -> None:
    house.write("grid", "title: Toys, point {point}\npoints: {a: {trainer.x: 1}, b: {trainer.x: 2}}\n")
    house.write("apart", "points: {a: {title: One}, b: {title: Two}}\n")
    house.recipe("base")
    assert {c.recipe: c.title for c in dashboard("toy").curves} == {
        "toy/grid": "Toys, point …",
        "toy/apart": "…",
        "toy/base": "Toy",
    }


def test_no_such_paper_is_bad_input() -> None:
    with pytest.raises(UserError, match="'shortfromer'; nearest: shortformer"):
        dashboard("shortfromer")


def test_hostile_words_stay_words(house: House) -> None:
    evil = "<script>x</script> [a](javascript:b) ![c](d) | `e` **f**\x1b[2J"
    house.publish(PUBLISHED.replace("label: Base,", f"label: {yaml_text(evil)},").replace(
        "notes: Toys are small.", f"notes: {yaml_text('# ' + evil)}"))  # fmt: skip
    house.run(house.recipe("base"), [28.0], scale="paper", commit=None, precision=evil)
    house.write("evil", f"title: {yaml_text(evil)}\n")
    board = dashboard("toy")
    for written in (board.opening, *(p.markdown for p in board.passages)):
        bare = re.sub(r"\\.", "", written)
        assert not re.search(r"<(?!!--)|\]\(|!\[|\x1b|`", bare), written
    (table,) = [p for p in board.passages if p.heading == "Table 1: Toys"]
    assert "&lt;script&gt;" in table.markdown
    assert all(
        len(re.findall(r"(?<!\\)\|", line)) == 8
        for line in table.markdown.splitlines()
        if line.startswith("|")
    )
    assert not any("\x1b" in c.title or "\n" in c.title for c in board.curves)


def yaml_text(words: str) -> str:
    """A text in YAML, whatever is in it."""
    return json.dumps(words)
