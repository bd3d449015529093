"""A declared test in the small house, with records."""

from tests.report.fakes import TEST, UNTESTED

STEADY = {"val/bleu": [[20, 10.0], [40, 20.0], [80, 28.0], [90, 28.0], [100, 28.0]]}


def run(house, big=(30.0, 31.0, 30.5), base=(28.0, 28.1, 28.3), **changes):
    """Records of both rows of the test; ``changes`` replace fields of all."""
    for row, values in (("big", big), ("base", base)):
        house.recipe(row)
        house.run(house.recipe(row, scale="small"), list(values), "small", **({"curves": STEADY} | changes))


def declare(house, *more, picture=True, test=TEST):
    """Declares the test, with more lines, and lets it stand for the paper; its recipes must be there."""
    rest = f"picture: bigger-is-better/1\n{UNTESTED}" if picture else UNTESTED
    house.declare(test + "".join(f"    {line}\n" for line in more), untested=rest)
