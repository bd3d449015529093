"""Pages of the small house, read back."""

from repro.report.render import render_all
from tests.report.markup import read


def page_of(house):
    """The page as text."""
    return render_all(house.results)[house.results / "index.html"].decode()


def tree_of(house):
    """The page as a tree."""
    return read(page_of(house))


def row(tree, name, table="table1"):
    """The lines of one published row: the paper's, then ours."""
    return tree.one("tbody", id=f"row-toy--{table}--{name}").all("tr")


def cells(line):
    return [e.text for e in line.children if getattr(e, "name", "") in ("th", "td")]


def group(tree, experiment, scale="paper"):
    """The runs of an experiment at one scale."""
    return tree.one("div", id=f"runs-{experiment.replace('/', '--')}--{scale}").above("details")
