import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import unquote

import pytest

from repro import paths
from repro.errors import UserError
from repro.evidence.ledger import withdraw
from repro.evidence.table import read_evidence
from repro.files import alone
from repro.paths import PROJECT
from repro.recipe import experiments, forget_files
from repro.record import LEDGER
from repro.report import render
from repro.report.formats.blocks import Heading
from repro.report.render import BEGIN, END, block, check_tables, figures_of, pages, tables, write_tables
from tests.report.markup import read

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


@pytest.mark.parametrize("name", ["toy.md", "toy.csv", "toy.tex", "tests.md", "runs.md", "README.md"])
def test_golden(house, name):
    fill(house)
    output = tables(read_evidence(), house.results)[house.results / "tables" / name].decode()
    assert output == (GOLDEN / name).read_text(encoding="utf-8")


def everything(house):
    result = read_evidence()
    return tables(result, house.results) | pages(result, house.results, figures_of(result))


def names_of(house):
    return {path.relative_to(house.results).as_posix() for path in everything(house)}


def test_every_file_is_there(house):
    fill(house)
    documents = ("tests", "toy", "runs")
    assert names_of(house) == {
        "evidence.json",
        "index.html",
        *(f"tables/{name}.md" for name in ("README", *documents)),
        "tables/toy.tex",
        "tables/toy.csv",
        *(f"pages/{name}.html" for name in (*documents, "toy--bigger-is-better-1")),
    }
    assert figures_of(read_evidence()).keys() >= {"toy--big--paper.svg", "toy--big--cpu.svg"}


def test_every_link_of_a_page_leads_somewhere(house):
    fill(house)
    written = {*names_of(house), *(f"plots/{name}" for name in figures_of(read_evidence()))}
    for path, data in everything(house).items():
        if path.suffix == ".html":
            for element in read(data.decode()).walk():
                address = element.get("href") or element.get("src") or ""
                if address and not address.startswith("https://"):
                    place = (path.parent / unquote(address)).resolve().relative_to(house.results.resolve())
                    assert place.as_posix() in written, (path.name, address)


def test_every_link_of_a_table_leads_somewhere(house):
    fill(house)
    files = {path.name: data.decode() for path, data in everything(house).items() if path.suffix == ".md"}
    result = [link for output in files.values() for link in re.findall(r"\]\(([^)]+)\)", output)]
    assert result
    for link in result:
        name, _, anchor = link.partition("#")
        headings = re.findall(r"^#+ (.*)$", files[name], re.M)
        assert not anchor or anchor in [Heading(1, heading).anchor for heading in headings], link


def test_the_same_records_give_the_same_bytes(house):
    fill(house)
    assert everything(house) == everything(house)


def test_the_evidence_is_one_json_file(house):
    fill(house)
    write_tables()
    result = json.loads((house.results / "evidence.json").read_text(encoding="utf-8"))
    assert [row["verdict"] for row in result["tests"]] == ["planned"]
    assert {row["paper"] for row in result["rungs"]} == {"toy"}


def test_render_writes_nothing(house):
    fill(house)
    before = sorted(house.results.rglob("*"))
    everything(house)
    assert sorted(house.results.rglob("*")) == before


def test_write_then_check(house):
    fill(house)
    problems = check_tables()
    assert sum(p.endswith("is missing") for p in problems) == 7
    assert [p for p in problems if not p.startswith("runs/")] == [
        p for p in problems if p.endswith("missing")
    ]
    assert not (house.results / "runs" / LEDGER).exists(), "checking writes nothing"
    written = write_tables()
    assert len(written) == 8
    assert written[0] == house.results / "runs" / LEDGER
    assert check_tables() == []
    assert write_tables() == []


def test_the_site_is_built_when_it_is_asked_for(house):
    fill(house)
    write_tables()
    assert not (house.results / "index.html").exists()
    assert not (house.results / "plots").exists()
    built = {path.relative_to(house.results).as_posix() for path in write_tables(site=True)}
    assert built >= {"index.html", "pages/toy.html", "plots/toy--big--paper.svg"}
    assert write_tables(site=True) == []
    (house.results / "pages" / "gone.html").write_text("")
    (house.results / "plots" / "gone.svg").write_text("")
    (house.results / "index.html").write_text("changed")
    assert check_tables() == [], "pages and figures are not checked"
    assert {path.name for path in write_tables(site=True)} == {"gone.html", "gone.svg", "index.html"}
    assert not (house.results / "pages" / "gone.html").exists()


def test_the_figures_that_documents_show_are_those_that_git_keeps():
    texts = [
        path.read_text(encoding="utf-8") for path in (PROJECT / "README.md", *(PROJECT / "docs").glob("*.md"))
    ]
    displayed = {name for text in texts for name in re.findall(r"results/plots/([\w@.-]+)", text)}
    ignored = (PROJECT / ".gitignore").read_text(encoding="utf-8")
    assert displayed == set(re.findall(r"^!/results/plots/(.+)$", ignored, re.M)) != set()


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
    monkeypatch.setattr(render, "_write_tables", lambda results, site: [results])
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


@pytest.mark.parametrize(
    "name", ["evidence.json", "tables/toy.md", "tables/tests.md", "tables/toy.tex", "tables/toy.csv"]
)
def test_check_finds_an_edit_by_hand(house, name):
    fill(house)
    write_tables()
    path = house.results / name
    before = path.read_bytes()
    path.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    (problem,) = check_tables()
    assert problem.startswith(f"{name} differs from the records (line ")
    write_tables()
    assert path.read_bytes() == before
    assert check_tables() == []


def test_check_finds_missing_new_and_left_over_files(house):
    fill(house)
    write_tables()
    (house.results / "tables" / "toy.md").unlink()
    (house.results / "tables" / "claims.md").write_text("old")
    house.record("toy/base", 3, 27.0)
    problems = check_tables()
    assert "tables/toy.md is missing" in problems
    assert "tables/claims.md belongs to no record" in problems
    assert any(p.startswith("tables/runs.md differs") for p in problems)
    write_tables()
    assert not (house.results / "tables" / "claims.md").exists()
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
    assert "README.md differs from the records (line 4)" in check_tables()
    assert readme in write_tables()
    output = readme.read_text()
    assert output == f"# Title\n\n{BEGIN}\n{block(read_evidence())}{END}\n\nRest\n"
    assert "[A Toy Paper (2020)](results/tables/toy.md)" in output
    assert check_tables() == []
    readme.write_text(output.replace("[A Toy Paper", "[Another Paper"))
    (problem,) = check_tables()
    assert problem.startswith("README.md differs from the records (line ")


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
        "import sys\nfrom repro.report import render\nfrom repro.report.formats import terminal\n"
        "from repro.report.views import rows\nfrom repro.evidence.table import read_evidence\n"
        "rows.list_rows(read_evidence())\n"
        "bad = {'torch', 'lightning', 'pandas', 'tabulate', 'matplotlib'} & set(sys.modules)\n"
        "assert not bad, bad\nrender.write_tables(site=True)\n"
        "bad = {'torch', 'lightning', 'pandas'} & set(sys.modules)\nassert not bad, bad\n"
    )
    fill(house)
    subprocess.run([sys.executable, "-c", code], check=True)
