"""A grid of made-up points in the small house."""

import dataclasses

from repro.record import Measurement, write_record
from tests.report.fakes import GOAL, make_record

GRID = """
title: Toy
trainer: {max_steps: 100}
model: {class_path: repro.tasks.Translation, init_args: {width: 8}}
points:
"""


def grid(house, *points, name="grid"):
    """A recipe with points, at scales paper and cpu."""
    rows = "".join(f"  {point}: {{trainer.max_steps: {n + 1}}}\n" for n, point in enumerate(points))
    house.write(name, GRID + rows)
    for point in points:
        house.hold(f"toy/{name}@{point}", GOAL % ("big", "bleu", ""))
    house.write(name, "set: {trainer.precision: 32-true}\n", "cpu")


def record(house, experiment, seed=1, scale="cpu", **changes):
    """A record, written."""
    made = dataclasses.replace(make_record(experiment, seed, 20.0, scale), **changes)
    write_record(made, house.results / "runs")
    return made


def swept(key, of, values, unit="percent", split="test", **more):
    """Measurements of a sweep, from ``{setting: value}``."""
    return [
        Measurement(f"{of}_{x}", y, unit, split, {"sweep": key, "of": of, key: x, **more})
        for x, y in values.items()
    ]
