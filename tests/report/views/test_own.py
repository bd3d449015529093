"""One's own runs come first on the site: a page for each recipe, with what differs, scores and curves."""

import dataclasses

from repro.recipe import load_recipe
from repro.record import write_record
from repro.report.formats.blocks import Grid
from repro.report.render import write_tables
from repro.report.views.own import own_pages
from tests.report.fakes import make_record
from tests.report.markup import read


def trial(house, folder, width, seed, value):
    """A record of a run with another width than the recipe's."""
    made = load_recipe("toy/big", "paper", [("model.width", width)])
    record = make_record("toy/big", seed, value)
    facts = {"run_id": made.run_id(seed), "config": made.config, "config_hash": made.config_hash}
    facts["checkpoint_sha256"] = "0" * 64
    write_record(dataclasses.replace(record, overrides=[*made.overrides], **facts), folder / "runs")


def cells(table):
    return [[cell.text for cell in row.walk() if cell.name in ("td", "th")] for row in table.all("tr")[1:]]


def test_own_runs_are_first_and_have_a_page(house, tmp_path, monkeypatch):
    house.record(house.recipe("big"), 1, 29.0)
    for width, seed, value in ((16, 101, 30.0), (16, 102, 32.0), (32, 101, 33.0)):
        trial(house, tmp_path / "trials", width, seed, value)
    write_tables(site=True)
    assert "Your runs" not in (house.results / "index.html").read_text()
    monkeypatch.setenv("REPRO_TRIALS", str(tmp_path / "trials"))
    write_tables(site=True)
    first = read((house.results / "index.html").read_text())
    assert [h.text for h in first.all("h2")][:2] == ["Your runs", "The papers"]
    assert cells(first.all("table")[0]) == [["toy/big", "paper", "2", "3"]]
    address = next(a.get("href") for a in first.all("a") if a.text == "toy/big")
    page = read((house.results / address).read_text())
    scores, runs = map(cells, page.all("table"))
    assert scores[0] == ["published", "", "30 (Table 1, Big)"]
    assert [row[0] for row in scores[1:]] == ["16", "32"]
    assert [row[1] for row in scores[1:]] == ["2", "1"]
    assert scores[1][2].startswith("31")
    assert sorted(row[1] for row in runs) == ["--model.width=16"] * 2 + ["--model.width=32"]
    assert (house.results / "plots" / "your-runs--toy--big--paper.svg").is_file()
    assert any("your-runs--toy--big--paper.svg" in str(i.get("src")) for i in page.all("img"))


def test_a_reduced_scale_stands_nowhere_beside_the_papers_number(house):
    house.recipe("big")
    (page,) = own_pages([make_record(house.recipe("big", scale="cpu"), 101, 30.0, "cpu")])
    assert "published" not in str([block for block in page.document if isinstance(block, Grid)])


def test_runs_on_other_data_do_not_stand_beside_the_papers_number(house):
    record = make_record(house.recipe("big"), 101, 30.0)
    for overrides, beside in (([], True), (["--data.store=mine/bytes"], False)):
        (page,) = own_pages([dataclasses.replace(record, overrides=overrides)])
        grids = str([block for block in page.document if isinstance(block, Grid)])
        assert ("published" in grids) is beside
