import dataclasses

import pytest

from repro.record import Measurement
from repro.report.formats import terminal
from repro.report.formats.blocks import Bullets, Figure, Grid, Heading, Link, Paragraph, VerdictWord
from repro.report.formats.terminal import diff_runs, render, show_run, sparkline, terminal_table


def lines(table):
    return [" ".join(line.split()) for line in table.splitlines()]


def test_the_published_number_stands_beside_a_run_at_paper_scale(house):
    (record,) = house.run(house.recipe("big"), [29.5])
    assert "toy/big paper 1 test/bleu 29.50 BLEU test 30 (Table 1, Big)" in lines(terminal_table(record))


def test_a_reduced_scale_says_so_and_shows_no_published_number(house):
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    (record,) = house.run(name, [29.5], "cpu")
    output = terminal_table(record)
    assert "toy/big cpu 1 test/bleu 29.50 BLEU test reduced scale" in lines(output)
    assert "30" not in output.replace("29.50", "")


def test_no_published_number_stands_beside_a_run_on_other_data(house):
    (record,) = house.run(house.recipe("big"), [29.5])
    workers = dataclasses.replace(record, overrides=["--data.num_workers=2", "--model.width=3"])
    assert "30 (Table 1, Big)" in terminal_table(workers)
    other = dataclasses.replace(record, overrides=["--data.store=mine/bpe8000"])
    assert "toy/big paper 1 test/bleu 29.50 BLEU test other data" in lines(terminal_table(other))


def test_a_recipe_of_a_paper_without_published_file(house):
    (record,) = house.run(house.recipe("big"), [29.5])
    own = dataclasses.replace(record, experiment="mine/own")
    assert "29.50" in terminal_table(own)


def test_what_a_recipe_names_comes_first_and_the_rest_is_counted(house):
    goal = "{table: table1, row: big, metric: bleu, measured: test/bleu}"
    (record,) = house.run(house.recipe("big", goal), [29.5])
    others = [Measurement(f"test/m{i}", float(i), "x", "test") for i in range(12)]
    record = dataclasses.replace(record, metrics=[*others, *record.metrics])
    output = lines(terminal_table(record, 5))
    assert [line.split()[3] for line in output[2:7]] == [
        "test/bleu",
        "test/m0",
        "test/m1",
        "test/m2",
        "test/m3",
    ]
    assert output[7:] == ["8 more numbers: --all shows them here, `repro show` any time"]
    record = dataclasses.replace(record, metrics=record.metrics[-1:] * 7 + others)
    assert len(lines(terminal_table(record, 5))) == 2 + 7 + 1, "whatever the recipe names is shown"
    assert len(lines(terminal_table(record))) == 2 + 19


def test_a_document_as_text(monkeypatch):
    grid = Grid(("row", "words"), ((Link("toy:a-b:" + "c" * 50, "", ""), VerdictWord("open", "word " * 20)),))
    monkeypatch.setattr(terminal, "terminal_width", lambda: 100)
    output = render(
        [Heading(1, "Title"), Paragraph("a\x1b[2J"), Bullets(("one", "two")), Figure("x.svg", "x"), grid]
    )
    title, paragraph, bullets, table = output.split("\n\n")
    assert (title, bullets) == ("Title", "- one\n- two")
    assert "\x1b" not in paragraph
    assert "toy:a-b:" + "c" * 50 in table, "a name without spaces is not wrapped"
    assert len(table.split("\n")) > 4, "words are wrapped"
    assert max(map(len, table.split("\n"))) <= 100
    monkeypatch.undo()
    assert len(render([grid]).split("\n")) == 3, "no terminal, no width"


def test_sparkline():
    assert sparkline([[i, i] for i in range(8)]) == "▁▂▃▄▅▆▇█"
    assert sparkline([[0, 1.0], [1, 1.0]]) == "▁▁"
    assert sparkline([[0, 0.0], [1, None], [2, 1.0]]) == "▁█"
    assert sparkline([]) == ""
    wide = sparkline([[i, i] for i in range(200)], width=20)
    assert (len(wide), wide[0], wide[-1]) == (20, "▁", "█")


def test_show_run_has_everything_and_no_control_characters(house):
    (record,) = house.run(house.recipe("big"), [29.5], deviations=["odd \x1b[31mthing\nhere"])
    output = show_run(record)
    for words in ("toy/big/paper/s1-", "29.50", "train/loss", "█", "model.init_args.width: 8", "1,234"):
        assert words in output
    assert "01234567" in output
    assert "\x1b" not in output
    assert "thing here" in output


def test_show_run_lists_the_attempts_of_a_mixed_record(house):
    (record,) = house.run(house.recipe("big"), [29.5])
    assert "mixed" not in show_run(record)
    attempts = [
        {"commit": c * 9, "code_sha256": c, "first": n, "last": n + 5} for n, c in ((0, "a"), (5, "b"))
    ]
    output = lines(show_run(dataclasses.replace(record, attempts=attempts)))
    assert [line[:55] for line in output if line.startswith("mixed")] == [
        "mixed updates after 0 up to 5 at commit aaaaaaaa, code ",
        "mixed updates after 5 up to 10 at commit bbbbbbbb, code",
    ]


def test_diff_runs_names_keys_and_numbers(house):
    (a,) = house.run(house.recipe("big"), [29.5])
    house.recipe("big", width=16)
    (b,) = house.run("toy/big", [30.0], finished="2026-02-02T00:00:00Z", commit="ffffffffff")
    b = dataclasses.replace(b, seed=4, metrics=[*b.metrics, Measurement("test/new", 1.0, "x", "test")])
    output = diff_runs(a, b)
    assert "model.init_args.width: 8 → 16" in output
    assert "seed: 1 → 4" in output
    assert "commit: 0123456789abcdef → ffffffffff" in output
    assert "trainer.max_steps" not in output
    assert any(line.startswith("test/bleu BLEU test 29.50 30.00 +0.5000") for line in lines(output))
    assert any(line.startswith("test/new") for line in lines(output))


def test_two_equal_runs_say_so(house):
    (a,) = house.run(house.recipe("big"), [29.5])
    assert "Same configuration, seed, commit and hardware." in diff_runs(a, a)


@pytest.mark.parametrize("call", [terminal_table, show_run])
def test_names_of_metrics_cannot_steer_the_terminal(house, call):
    numbers = [Measurement("test/\x1b]0;x\x07", 1.0, "\x1b[2J", "test")]
    (record,) = house.run(house.recipe("big"), [1.0], metrics=numbers)
    assert "\x1b" not in call(record)
