import dataclasses

import pytest

from repro.record import Measurement, write_record
from repro.report.site.runs import as_yaml
from repro.yamls import parse_yaml
from tests.report.fakes import make_record
from tests.report.pages import cells, group, tree_of


def table(tree, title):
    """Lines below the head, by the first cell; and the head."""
    region = next(d for d in tree.all("div", role="region") if d.get("aria-label").startswith(title))
    head, *lines = [cells(line) for line in region.all("tr")]
    return head, lines


def facts(tree):
    return {d.one("dt").text: d.one("dd").text for d in tree.one("dl", cls="facts").all("div")}


def test_a_group_of_runs_shows_all_there_is(house):
    house.run(house.recipe("big"), [30.0, 30.2, 30.4], deviations=["Fewer updates"])
    made = group(tree_of(house), "toy/big")
    assert made.first("summary").text == "toy/bigpaper scale · 3 seeds · test/bleu 30.20 ± 0.50 BLEU"
    head, lines = table(made, "Metrics of toy/big")
    assert head == ["Metric", "Mean ± 95 %", "By seed", "Unit", "Validation"]
    assert lines == [
        ["test/bleu", "30.20 ± 0.50", "1: 30.00, 2: 30.20, 3: 30.40", "BLEU", "31.00, 31.20, 31.40"]
    ]
    assert "All numbers: n: 3; split: test; items: 50; protocol: beam 4." in made.text
    head, lines = table(made, "Runs of toy/big")
    assert head == ["Run", "State", "Wall time", "Finished"]
    assert lines[0] == ["seed 1", "current", "1 min 01 s", "2026-01-02T00:00:00Z"]
    said = facts(made)
    assert said["Command"] == "repro run toy/big --scale paper --seed SEED"
    assert said["Hardware"] == "count 1, device CPU"
    assert (said["Commit"], said["Versions"], said["Data"]) == ("01234567", "torch 2.13.0", "toy-text")
    assert (said["Parameters"], said["Updates"], said["Peak memory"]) == ("1,234", "100", "1.0 MiB")
    assert "Fewer updates" in [li.text for li in made.all("li")]
    image = made.one("figure").one("img")
    assert image.get("src") == "plots/toy--big--paper.svg"
    assert image.get("alt") == made.one("figcaption").text == "toy · big · paper: learning curves"


def test_the_configuration_reads_back_and_stands_once(house):
    records = house.run(house.recipe("big"), [30.0, 30.2, 30.4])
    fold = group(tree_of(house), "toy/big").one("details", cls="config")
    assert fold.one("summary").text == f"Configuration {records[0].config_hash[:8]} of seeds 1, 2, 3"
    said = "".join(c for c in fold.one("pre").children)
    assert parse_yaml(said) == {key: records[0].config[key] for key in ("trainer", "model")}


def test_another_configuration_stands_beside_it(house):
    house.run(house.recipe("big", width=4), [30.0])
    house.recipe("big", width=16)
    house.record("toy/big", 2, 31.0)
    made = group(tree_of(house), "toy/big")
    folds = made.all("details", cls="config")
    assert ["width: 4" in f.text or "{width: 4}" in f.text for f in folds] == [True, False]
    assert table(made, "Runs of")[0][:3] == ["Run", "State", "Wall time"]
    assert [line[1] for line in table(made, "Runs of")[1]] == ["superseded", "current"]
    assert made.all("ul", cls="marks") == []
    assert [line[2] for line in table(made, "Metrics of")[1]] == ["2: 31.00"]


def test_what_differs_between_runs_is_a_column(house):
    name = house.recipe("big")
    house.record(name, 1, 30.0, hardware={"device": "A"}, wandb_url="https://wandb.example/a")
    house.record(
        name, 2, 30.0, hardware={"device": "B"}, wandb_url="javascript:alert(1)", command="python x.py"
    )
    made = group(tree_of(house), "toy/big")
    head, lines = table(made, "Runs of")
    assert {"Hardware", "W&B", "Command"} <= set(head)
    column = head.index("Hardware")
    assert [line[column] for line in lines] == ["device A", "device B"]
    assert "Hardware" not in facts(made)
    urls = [a.get("href") for a in made.all("a") if not a.get("href").startswith("#")]
    assert urls == ["https://wandb.example/a"]


def test_every_run_has_an_address_and_a_link_to_itself(house):
    house.run(house.recipe("big"), [30.0, 30.2])
    made = group(tree_of(house), "toy/big")
    lines = [line for line in made.all("tr") if line.get("id")]
    assert len(lines) == 2
    for line in lines:
        assert line.one("a").get("href") == f"#{line.get('id')}"
        assert line.get("id").startswith("run-toy--big--paper-s")


def test_the_address_is_within_the_fold_so_that_it_opens_without_a_script(house):
    house.run(house.recipe("big"), [30.0])
    tree = tree_of(house)
    place = tree.one("div", id="runs-toy--big--paper")
    assert place.parent.name == "details"
    assert place.parent.get("id") is None


def test_runs_that_no_recipe_knows_are_shown(house):
    made = dataclasses.replace(make_record(house.recipe("big"), 2, 30.0), experiment="toy/gone")
    write_record(made, house.results / "runs")
    shown = group(tree_of(house), "toy/gone")
    assert "no recipe of that name" in shown.text
    assert "no record counts" in shown.first("summary").text
    assert table(shown, "Metrics of")[1][0][0] == "test/bleu"
    assert [line[1] for line in table(shown, "Runs of")[1]] == ["no recipe"]


def test_a_validation_score_that_stands_beside_the_test_score_is_not_repeated(house):
    numbers = [
        Measurement("test/ppl", 5.0, "perplexity", "test", {"x": 1}, 10, 4.0),
        Measurement("val/ppl", 4.0, "perplexity", "val", {"x": 1}, 10),
        Measurement("val/other", 4.0, "perplexity", "val", {"x": 2}, 10),
    ]
    house.run(house.recipe("big"), [1.0], metrics=numbers)
    head, lines = table(group(tree_of(house), "toy/big"), "Metrics of")
    assert [line[0] for line in lines] == ["test/ppl", "val/other"]
    assert [line[head.index("Protocol")] for line in lines] == ["x 1", "x 2"]
    assert [line[head.index("Split")] for line in lines] == ["test", "val"]


def test_no_metric_at_all(house):
    house.run(house.recipe("big"), [1.0], metrics=[])
    assert "No metric was recorded." in group(tree_of(house), "toy/big").text


def test_data_are_named_with_their_amounts(house):
    data = {
        "name": "toy-text",
        "manifest_sha256": "ab" * 32,
        "counts": {"train": {"tokens": 9}, "test": {"tokens": 3}},
    }
    house.run(house.recipe("big"), [1.0], data=data)
    said = facts(group(tree_of(house), "toy/big"))["Data"]
    assert said == "toy-text; test: tokens 3; train: tokens 9; manifest_sha256 abababababab"


def test_runs_are_found_by_the_verdicts_that_they_serve(house):
    house.run(house.recipe("big"), [30.0, 30.1, 30.2])
    house.run(house.recipe("base"), [35.0, 35.1, 35.2])
    house.run(house.recipe("small"), [27.7, 27.8, 27.9])
    tree = tree_of(house)
    assert group(tree, "toy/big").get("data-v") == "does-not reproduced"
    assert group(tree, "toy/base").get("data-v") == "better does-not"
    assert group(tree, "toy/small").get("data-v") == "does-not reproduced"
    assert group(tree, "toy/base").get("data-s") == "paper"


@pytest.mark.parametrize(
    "value",
    ["", "yes", "null", "1", "1e3", "2020-01-01", ".inf", "a: b", "- a", "{a", "'a", "a\\b", " a", "a\nb", "a\tb",
     "\x1b[2J", "\x7f", "\u2028", "\u202eabc", "\ufeff", "\U000e0041", "é中∞", "---", True, None, 0, 10**20, -1e-9,
     float("inf")],
)  # fmt: skip
def test_a_configuration_is_yaml_that_reads_back_and_shows_every_character(value):
    tree = {"trainer": {"a": value, "b": [value, {"c": value}], "d": {"e": value, "f": {"g": value}}}}
    said = as_yaml({"title": "left out", **tree})
    assert parse_yaml(said) == tree
    assert all(line.isascii() and line.isprintable() for line in said.split("\n"))


def test_equal_parts_of_a_configuration_are_written_twice():
    part = {"x": [1, 2]}
    said = as_yaml({"trainer": {"a": part}, "model": {"b": part}})
    assert said.split("\n") == ["trainer:", "  a:", "    x: [1, 2]", "model:", "  b:", "    x: [1, 2]"]
