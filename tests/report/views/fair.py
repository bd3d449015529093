"""A fair test in the small house."""

from tests.report.fakes import TEST

ROWS = TEST
TWO = TEST.replace("attempt: 1", "attempt: 2")


def recipes(house):
    """Big and base, also at scale small."""
    for row in ("big", "base"):
        house.recipe(row)
        house.recipe(row, scale="small", width=4)


def run(house, big=(30.0, 30.5, 31.0), base=(28.0, 28.1, 28.2)):
    """The judged runs of both rows; the test is not declared."""
    recipes(house)
    house.run("toy/big", list(big), "small")
    house.run("toy/base", list(base), "small")


def fair(house, **scores):
    """The declared test, and its judged runs."""
    recipes(house)
    house.declare()
    run(house, **scores)
