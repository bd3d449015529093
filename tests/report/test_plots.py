from repro.contact_sheet import Picture, to_line
from repro.evidence.compare import compare
from repro.report.formats import markdown
from repro.report.formats.documents import paper_document
from repro.report.plots import plots
from repro.report.plots.plot import KINDS, file_name, over_seeds
from repro.report.render import check_tables, write_tables
from tests.report.grids import grid, record, swept
from tests.report.pages import tree_of

NAMES = [
    "toy--grid--by-rounds--cpu.svg",
    "toy--grid--points--cpu.svg",
    "toy--grid@a--cpu--drawn-s1.png",
    "toy--grid@a--cpu--memory-s1.svg",
    "toy--grid@a--cpu.svg",
    "toy--grid@b--cpu.svg",
]
OUTPUTS = to_line(Picture(1, 1, 1, b"\x07"))


def fill(house):
    """A grid with every kind of figure."""
    grid(house, "a", "b")
    swept_a = swept("rounds", "test/accuracy", {1: 1.0, 2: 2.0})
    record(house, "toy/grid@a", metrics=swept_a, outputs=OUTPUTS, profiles={"density/layer 1": [0.5, 1.5]})
    record(house, "toy/grid@b", metrics=swept("rounds", "test/accuracy", {1: 1.0, 2: 3.0}))


def test_every_kind_in_its_order(house):
    fill(house)
    found = plots(compare(), house.results / "runs")
    assert [plot.name for plot in found] == NAMES
    assert list(dict.fromkeys(plot.kind for plot in found)) == list(KINDS)


def test_a_papers_page_shows_them_by_kind(house):
    fill(house)
    comparison = compare()
    document = paper_document(comparison, comparison.papers[0], plots(comparison, house.results / "runs"))
    said = markdown.render(document)
    wanted = [part for kind in KINDS for part in (f"## {kind}\n", *(n for n in NAMES if _kind(n) == kind))]
    places = [said.index(part.replace("@", "%40")) for part in wanted]
    assert places == sorted(places)
    drawing = "toy · grid@a · cpu: 1 picture of 1 x 1 pixels in grey drawn from the model, seed 1:"
    assert f"\n\n{drawing}\n\n![" in said  # legible, not only for those who do not see it


def _kind(name):
    marks = ("--by-", "--points", "--drawn", "--memory")
    return next((kind for kind, mark in zip(KINDS, marks, strict=False) if mark in name), [*KINDS][-1])


def test_no_heading_without_a_figure(house):
    house.recipe("big")
    comparison = compare()
    said = markdown.render(paper_document(comparison, comparison.papers[0], plots(comparison, house.results)))
    assert not any(kind in said for kind in KINDS)


def test_they_are_written_and_checked(house):
    fill(house)
    write_tables()
    assert sorted(path.name for path in (house.results / "plots").iterdir()) == sorted(NAMES)
    assert check_tables() == []
    drawing = house.results / "plots" / NAMES[2]
    whole = drawing.read_bytes()
    drawing.write_bytes(b"")
    (problem,) = check_tables()
    assert problem.startswith(f"plots/{NAMES[2]} differs")
    drawing.write_bytes(whole)
    left_over = drawing.with_name("toy--gone--cpu--drawn-s1.png")
    drawing.rename(left_over)
    assert check_tables() == [f"plots/{NAMES[2]} is missing", f"plots/{left_over.name} belongs to no record"]
    write_tables()
    assert drawing.read_bytes() == whole
    assert not left_over.exists()


def test_the_page_shows_all_of_them(house):
    fill(house)
    page = tree_of(house)
    captions = {plot.caption for plot in plots(compare(), house.results / "runs")}
    shown = {figure.one("figcaption").text: figure for figure in page.all("figure")}
    assert set(shown) == captions
    assert len(captions) == len(NAMES)
    assert all(figure.all("svg") or figure.all("img") for figure in shown.values())


def test_file_names_hold_no_folders():
    assert file_name("toy/big@l2", "by-a/../b c", "cpu") == "toy--big@l2--by-a-..-b-c--cpu.svg"


def test_how_many_seeds_there_are():
    assert over_seeds([1, 1]) == "1 seed"
    assert over_seeds([3, 3]) == "means of 3 seeds"
    assert over_seeds([3, 1]) == "means of 1 to 3 seeds"
