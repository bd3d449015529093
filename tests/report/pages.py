"""Generated files of the small house, read back."""

from repro.evidence.table import read_evidence
from repro.report.render import figures_of, pages, tables
from tests.report.markup import read


def files_of(house):
    """Every text that is generated, by its path below the results."""
    result = read_evidence()
    files = tables(result, house.results) | pages(result, house.results, figures_of(result))
    return {path.relative_to(house.results).as_posix(): data.decode() for path, data in files.items()}


def tree_of(house, page="index.html"):
    """A page as a tree."""
    return read(files_of(house)[page])


def grid(tree, first):
    """The lines of the first table whose first column has this title, with its header."""
    table = next(t for t in tree.all("table") if t.first("th").text == first)
    return [cells(line) for line in table.all("tr")]


def cells(line):
    return [e.text for e in line.children if getattr(e, "name", "") in ("th", "td")]
