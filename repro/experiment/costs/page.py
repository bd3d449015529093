"""The page ``docs/cost.md``: what reproducing each paper costs."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Template
from tabulate import tabulate

from repro.experiment.costs import roofline
from repro.experiment.costs.estimate import Cost
from repro.experiment.costs.roofline import VARIANTS, gpu_named
from repro.experiment.costs.show import fitting, flops, number, size
from repro.grouping import grouped
from repro.seeds import SeedChoice

SEEDS = 3
H100 = gpu_named("H100")


def page(costs: Iterable[Cost]) -> str:
    """The whole page."""
    by_paper = grouped((one.recipe.paper, one) for one in costs)
    return "\n".join([
        _head([one for group in by_paper.values() for one in group]),
        _table(
            [_paper_row(paper, group) for paper, group in by_paper.items()],
            ("paper", "runs", "FLOPs, one seed each", *(f"H100 hours in {one}, all seeds" for one in VARIANTS)),
        ),
        *(f"\n## {paper}\n\n{recipes(group)}" for paper, group in by_paper.items()),
    ])  # fmt: skip


def _head(every: Sequence[Cost]) -> str:
    least, name = max((one.row.peak + one.step.gradients, one.recipe.experiment) for one in every)
    base = [one for one in every if one.recipe.experiment == "attention-is-all-you-need/base"]
    reached = (
        f"{r['product']:.0%} and {r['attention']:.0%} in {name}" for name, r in roofline.REACHED.items()
    )
    text = Path(__file__).with_name("page.md").read_text(encoding="utf-8")
    return Template(text, keep_trailing_newline=True).render(
        measured=sum(bool(one.measured(H100)) for one in every),
        usable=f"{roofline.USABLE:.0%}",
        kernel=f"{roofline.KERNEL_S * 1e6:.1f}",
        launch=f"{roofline.LAUNCH_S * 1e6:.0f}",
        update=f"{roofline.UPDATE_S * 1e3:.1f}",
        bandwidth=f"{roofline.BANDWIDTH:.0%}",
        reached=", ".join(reached),
        base_hours=[number(one.gpu_hours(gpu_named("P100"))) for one in base],
        fits=least <= H100.usable,
        least=size(least),
        largest=name,
        seeds=SEEDS,
    )


def _paper_row(paper: str, group: Sequence[Cost]) -> list[str]:
    seeds = [len(SeedChoice.parse(str(SEEDS)).select(one.recipe.seeds)) for one in group]
    hours = []
    for variant in VARIANTS.values():
        each = (one.gpu_hours(H100, *variant) or one.gpu_hours(H100, variant[0]) or 0.0 for one in group)
        hours.append(sum(n * one for n, one in zip(seeds, each, strict=True)))
    total = flops(sum(one.flops for one in group))
    return [paper, f"{len(group)} x seeds = {sum(seeds)}", total, *map(number, hours)]


def recipes(costs: Iterable[Cost]) -> str:
    """A row for each recipe; a range over the points of a grid."""
    heads = (
        "recipe", "points", "updates", "FLOPs a run", "state", "peak", "on H100",
        *(f"H100 hours in {name}" for name in VARIANTS), "own GPU hours",
    )  # fmt: skip
    groups = grouped((one.recipe.experiment.partition("@")[0], one) for one in costs)
    return _table([_recipe_row(name, group) for name, group in groups.items()], heads)


def _recipe_row(name: str, group: Sequence[Cost]) -> list[str]:
    largest, own = max(group, key=lambda one: one.step.peak), group[0].own_gpu
    state = max(one.step.parameters + one.step.gradients + one.step.optimizer for one in group)
    hours = f"{_range(number, [one.gpu_hours(own) for one in group])} ({own.name})" if own else "-"
    return [
        name.partition("/")[2], str(len(group)), _range(lambda n: f"{n:,.0f}", [one.updates for one in group]),
        _range(flops, [one.flops for one in group]), size(state), size(largest.step.peak), fitting(largest, H100),
        *(_marked(group, name) for name in VARIANTS), hours,
    ]  # fmt: skip


def _marked(group: Sequence[Cost], name: str) -> str:
    """Hours of a variant, with a star where any was measured."""
    star = "*" if any(name in one.measured(H100) for one in group) else ""
    return _range(number, [one.gpu_hours(H100, *VARIANTS[name]) for one in group]) + star


def _range(format_value: Callable[[Any], str], values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    low, high = format_value(min(known, default=None)), format_value(max(known, default=None))
    return low if low == high else f"{low} to {high}"


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str]) -> str:
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True) + "\n"
