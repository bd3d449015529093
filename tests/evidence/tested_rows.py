"""Tests of the small house's claims with runs that stand for their rows."""

from repro import recipe
from repro.evidence.compare import compare
from repro.evidence.declared.outcomes import outcomes
from repro.record import Measurement
from tests.report.fakes import TEST

SCALE = "small"
ORDER = TEST.replace("{big: toy/big, base: toy/base}", "{big: toy/big, base: toy/base, small: toy/small}")


def around(middle):
    return [middle - 0.1, middle, middle + 0.1]


def recipes(house, *rows):
    """A recipe for each row, also at the scale of the tests."""
    for name in rows:
        house.recipe(name)
        house.recipe(name, scale=SCALE, width=2)


def run_rows(house, unit="BLEU", protocol=None, count=50, declare=True, text=ORDER, **rows):
    """Recipes, a declaration and then records, by row. A list of values, or a pair of these and changed fields."""
    recipes(house, *rows)
    if declare:
        house.declare(text)
    for name, values in rows.items():
        scores, changes = values if isinstance(values, tuple) else (values, {})
        run_row(house, name, scores, **({"unit": unit, "protocol": protocol, "count": count} | changes))


def run_row(house, name, scores, unit="BLEU", protocol=None, count=50, seeds=None, **changes):
    for seed, value in zip(seeds or range(1, 99), scores, strict=False):
        numbers = [Measurement("test/bleu", value, unit, "test", protocol or {}, count)]
        house.record(f"toy/{name}", seed, value, SCALE, **({"metrics": numbers} | changes))


def outcome(name="bigger-is-better/1"):
    """The outcome of a test."""
    recipe.forget_files()
    comparison = compare("toy")
    _, result = outcomes(comparison, comparison.papers[0])
    return next(one for one in result if one.test.name == name)
