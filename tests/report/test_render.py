import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from repro import paths
from repro.errors import UserError
from repro.evidence.ledger import withdraw
from repro.files import alone
from repro.recipe import experiments, forget_files
from repro.record import LEDGER
from repro.report import render
from repro.report.render import (
    BEGIN,
    END,
    check_tables,
    render_all,
    render_headline,
    render_overview,
    write_tables,
)
from tests.report.test_plots import fill as every_kind

GOLDEN = Path(__file__).parent / "golden"


def fill(house):
    """Three seeds at paper scale, a changed tree, a reduced run, a superseded one."""
    name = house.recipe("big")
    house.recipe("big", scale="cpu", width=2)
    house.run(name, [29.9, 30.0, 30.1])
    house.record(name, 1, 99.0, "cpu", deviations=["Fewer | updates"])
    base = house.recipe("base")
    house.record(base, 1, 26.0, dirty=True)
    house.record(base, 2, 26.5, commit="fedcba9876543210")
    house.record(house.recipe("small"), 1, 1.0, config_hash="0" * 64)


@pytest.mark.parametrize("name", ["toy.md", "toy.csv", "toy.tex", "claims.md", "runs.md"])
def test_golden(house, name):
    fill(house)
    said = render_all(house.results)[house.results / "tables" / name].decode()
    assert said == (GOLDEN / name).read_text(encoding="utf-8")


def test_golden_overview(house):
    fill(house)
    assert render_overview() == (GOLDEN / "overview.md").read_text(encoding="utf-8")


def test_a_reduced_run_is_only_in_its_own_section(house):
    fill(house)
    said = render_all(house.results)[house.results / "tables" / "toy.md"].decode()
    above, found, below = said.partition("## Reduced-scale runs")
    assert found
    assert "99" not in above
    assert "| toy/big | cpu | test/bleu | 99.00 |" in below
    assert "| paper |" not in below


def test_every_file_is_there(house):
    fill(house)
    names = {path.relative_to(house.results).as_posix() for path in render_all(house.results)}
    assert names == {
        *(f"tables/{name}" for name in ("README.md", "toy.md", "toy.csv", "toy.tex", "claims.md", "runs.md")),
        *(f"plots/toy--{name}.svg" for name in ("big--paper", "big--cpu", "base--paper")),
        "index.html",
    }


def test_the_page_shows_rows_claims_runs_and_plots(house):
    fill(house)
    page = render_all(house.results)[house.results / "index.html"].decode()
    shown = (
        "30.00 ± 0.25",
        "99.00",
        "Bigger is better.",
        "toy · big · paper: learning curves",
        "neither a recipe nor a derivation",
    )
    for words in shown:
        assert words in page


def test_the_same_records_give_the_same_bytes(house):
    fill(house)
    assert render_all(house.results) == render_all(house.results)


def test_render_writes_nothing(house):
    fill(house)
    before = sorted(house.results.rglob("*"))
    render_all(house.results)
    assert sorted(house.results.rglob("*")) == before


def test_write_then_check(house):
    fill(house)
    problems = check_tables()
    assert sum(p.endswith("is missing") for p in problems) == 10
    assert [p for p in problems if not p.startswith("runs/")] == [
        p for p in problems if p.endswith("missing")
    ]
    assert not (house.results / "runs" / LEDGER).exists(), "checking writes nothing"
    written = write_tables()
    assert len(written) == 11
    assert written[0] == house.results / "runs" / LEDGER
    assert check_tables() == []
    assert write_tables() == []


def test_a_recipe_that_came_while_a_process_ran_is_seen(house):
    fill(house)
    house.record(house.recipe("base", name="late"), 1, 26.0)
    late = house.configs / "toy" / "late.yaml"
    text = late.read_text()
    late.unlink()
    forget_files()
    assert "toy/late" not in experiments()
    late.write_text(text)
    write_tables()
    assert "recipe removed" not in (house.results / "runs" / LEDGER).read_text()


def test_who_writes_waits_for_another_who_does(house, monkeypatch):
    monkeypatch.setattr(render, "_write_tables", lambda results: [results])
    with ThreadPoolExecutor() as pool:
        with alone(house.results):
            other = pool.submit(write_tables)
            assert not wait([other], timeout=0.5).done
        assert other.result() == [house.results]


def test_a_damaged_record_is_left_out_and_fails_the_check(house):
    fill(house)
    write_tables()
    table = house.results / "tables" / "toy.md"
    before = table.read_bytes()
    odd = house.results / "runs" / "toy" / "big" / "odd.json"
    odd.write_text("{")
    write_tables()
    assert table.read_bytes() == before
    assert [p for p in check_tables() if "toy/big/odd.json" in p]
    withdraw(house.results / "runs", "toy/big/odd", "cut off when the disk was full")
    assert check_tables() == []


def test_a_withdrawn_record_leaves_the_tables(house):
    fill(house)
    write_tables()
    (reduced,) = house.results.glob("runs/toy/big/cpu-*.json")
    withdraw(house.results / "runs", str(reduced), "a fault")
    assert any(p.startswith("tables/toy.md differs") for p in check_tables())
    write_tables()
    assert "99.00" not in (house.results / "tables" / "toy.md").read_text()
    assert "withdrawn" in (house.results / "tables" / "runs.md").read_text()
    assert check_tables() == []


def one_of_each_kind(house):
    """The generated files, one for every folder, suffix and kind of figure."""
    fill(house)
    every_kind(house)
    kinds = {}
    for path in render_all(house.results):
        drawn = next((word for word in ("--by-", "--points--", "--drawn-", "") if word in path.name), "")
        stem = path.stem if path.stem in ("claims", "runs") else ""
        kinds.setdefault(
            (path.parent.name, path.suffix, stem, drawn if path.parent.name == "plots" else ""), path
        )
    return kinds


KINDS = [
    ("results", ".html", "", ""),
    ("tables", ".md", "", ""),
    ("tables", ".md", "claims", ""),
    ("tables", ".md", "runs", ""),
    ("tables", ".tex", "", ""),
    ("tables", ".csv", "", ""),
    ("plots", ".svg", "", ""),
    ("plots", ".svg", "", "--by-"),
    ("plots", ".svg", "", "--points--"),
    ("plots", ".png", "", "--drawn-"),
]


def test_every_kind_of_generated_file_is_among_those_that_are_checked(house):
    assert set(one_of_each_kind(house)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: "-".join(filter(None, kind)))
def test_check_finds_an_edit_by_hand(house, kind):
    path = one_of_each_kind(house)[kind]
    write_tables()
    before = path.read_bytes()
    path.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    (problem,) = check_tables()
    name = path.relative_to(house.results).as_posix()
    assert problem.startswith(f"{name} differs from the records" + ("" if kind[1] == ".png" else " (line "))
    if kind[0] == "plots":
        path.unlink()  # its hash says that it shows the same data
    write_tables()
    assert path.read_bytes() == before
    assert check_tables() == []


def test_check_finds_missing_new_and_left_over_files(house):
    fill(house)
    write_tables()
    (house.results / "tables" / "toy.md").unlink()
    (house.results / "plots" / "toy--gone--cpu.svg").write_text("<svg/>")
    house.record("toy/base", 3, 27.0)
    problems = check_tables()
    assert "tables/toy.md is missing" in problems
    assert "plots/toy--gone--cpu.svg belongs to no record" in problems
    assert any(p.startswith("tables/runs.md differs") for p in problems)
    write_tables()
    assert not (house.results / "plots" / "toy--gone--cpu.svg").exists()
    assert check_tables() == []


def test_a_published_file_outside_its_schema_stops_the_tables(house):
    path = house.results / "published" / "toy.yaml"
    path.write_text(path.read_text().replace("year: 2020", "year: soon"))
    with pytest.raises(UserError, match=r"paper\.year"):
        write_tables()
    assert not (house.results / "tables").exists()


@pytest.fixture
def readme(house, tmp_path, monkeypatch):
    """The results are the checkout's own, so that its README is kept in step."""
    monkeypatch.setattr(paths, "PROJECT", tmp_path)
    path = tmp_path / "README.md"
    path.write_text(f"# Title\n\n{BEGIN}\nold\n{END}\n\nRest\n")
    return path


def test_the_readme_is_checked_and_written(house, readme):
    fill(house)
    assert "README.md: the headline block differs from the records" in check_tables()
    assert readme in write_tables()
    said = readme.read_text()
    assert said.startswith(f"# Title\n\n{BEGIN}\n{render_headline().partition(chr(10))[0]}")
    assert said.endswith(f"{END}\n\nRest\n")
    assert render_headline() in said
    assert check_tables() == []
    readme.write_text(said.replace("| A Toy Paper |", "| Another Paper |"))
    assert check_tables() == ["README.md: the headline block differs from the records"]


@pytest.mark.parametrize(
    "text", ["none", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}{BEGIN}{END}", f"{BEGIN}{END}{END}"]
)
def test_a_readme_without_one_pair_of_markers(house, readme, text):
    readme.write_text(text)
    with pytest.raises(UserError, match="headline:begin"):
        check_tables()
    assert readme.read_text() == text


def test_a_readme_of_other_results_is_left_alone(house, readme, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "PROJECT", tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "README.md").write_text("untouched")
    write_tables()
    assert check_tables() == []
    assert (tmp_path / "elsewhere" / "README.md").read_text() == "untouched"


def test_an_unwritable_results_folder_is_the_users_to_mend(house):
    (house.results / "tables").write_text("a file where a folder must be")
    with pytest.raises(UserError, match="cannot write"):
        write_tables()


def test_nothing_here_needs_torch(house):
    import subprocess

    code = (
        "import sys\nfrom repro.report import render\nfrom repro.report.formats import listing, terminal\n"
        "from repro.evidence import compare\n"
        "listing.list_rows(compare.compare())\n"
        "bad = {'torch', 'lightning', 'pandas', 'jsonschema', 'tabulate'} & set(sys.modules)\n"
        "assert not bad, bad\nrender.write_tables()\n"
        "bad = {'torch', 'lightning', 'pandas'} & set(sys.modules)\nassert not bad, bad\n"
    )
    fill(house)
    subprocess.run([sys.executable, "-c", code], check=True)
