from repro.evidence.compare import compare
from repro.evidence.table import read_evidence
from repro.report.plots.plot import KINDS, file_name, grids, labelled, over_seeds
from repro.report.render import figures_of
from tests.report.grids import grid, record, swept
from tests.report.tested import run

NAMES = [
    "toy--grid--by-rounds--cpu.svg",
    "toy--grid--cpu.svg",
    "toy--grid@a--cpu--memory-s1.svg",
]


def fill(house):
    """A grid with every kind of figure."""
    grid(house, "a", "b")
    swept_a = swept("rounds", "test/accuracy", {1: 1.0, 2: 2.0})
    record(house, "toy/grid@a", metrics=swept_a, profiles={"density/layer 1": [0.5, 1.5]})
    record(house, "toy/grid@b", metrics=swept("rounds", "test/accuracy", {1: 1.0, 2: 3.0}))


def test_every_kind_in_its_order(house):
    fill(house)
    result = list(figures_of(read_evidence()).values())
    assert [plot.name for plot in result] == NAMES
    assert list(dict.fromkeys(plot.kind for plot in result)) == list(KINDS)


def test_the_figures_of_tests_come_first(house):
    run(house)
    first = [plot.name for plot in list(figures_of(read_evidence()).values())[:2]]
    assert first == ["toy--effects.svg", "toy--test--bigger-is-better-1.svg"]


def test_file_names_hold_no_folders():
    assert file_name("toy/big@l2", "by-a/../b c", "cpu") == "toy--big@l2--by-a-..-b-c--cpu.svg"


def test_records_by_grid_and_point(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a")
    record(house, house.recipe("big"), scale="paper")
    result = {place: list(points) for place, points in grids(compare()).items()}
    assert result == {("toy/grid", "cpu"): ["a"], ("toy/big", "paper"): ["big"]}


def test_units_are_those_of_the_records(house):
    rows = {"big": [house.record(house.recipe("big"), 1, 30.0)]}
    assert labelled("val/bleu", rows) == "val/bleu (BLEU)"
    assert labelled("train/loss", rows) == "train/loss (nats per token)"
    assert labelled("val/odd", rows) == "val/odd"


def test_how_many_seeds_there_are():
    assert over_seeds({"a": [None], "b": [None]}) == "1 seed"
    assert over_seeds({"a": [None] * 3}) == "3 seeds"
    assert over_seeds({"a": [None] * 3, "b": [None]}) == "1 to 3 seeds"
