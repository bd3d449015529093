"""Learning curves: one panel per metric, one line per seed."""

from typing import Any

from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.chart import Chart, Line, Panel
from repro.report.plots.plot import CURVES, Plot, caption, file_name, labelled, units_of

STEPS = "optimiser steps"
VARIANTS = "val/bleu_"  # the same score counted in other ways: curves that hardly differ

Curve = list[list[Any]]  # [step, value or None]
Curves = dict[str, dict[int, Curve]]  # {metric: {seed: curve}}


def curves(comparison: Comparison) -> list[Plot]:
    """A figure ``<paper>--<recipe>--<scale>.svg`` per experiment and scale, of the records that count."""
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        metrics = curves_of(selection.used)
        if metrics:
            chart = by_seed(f"{experiment}, scale {scale}", metrics, units_of(list(selection.used)))
            words = caption(experiment, scale, "learning curves")
            plots.append(Plot(file_name(experiment, scale), CURVES, words, chart))
    return plots


def curves_of(records: tuple[RunRecord, ...]) -> Curves:
    """Curves worth a panel: the training loss, then the validation scores; of the ways to count BLEU the first."""
    curves: Curves = {}
    for record in records:
        for name, curve in record.curves.items():
            is_shown = name == "train/loss" or name.startswith("val/")
            if is_shown and any(value is not None for _, value in curve):
                curves.setdefault(name, {})[record.seed] = curve
    shown = (
        curves
        if VARIANTS.removesuffix("_") not in curves
        else [n for n in curves if not n.startswith(VARIANTS)]
    )
    return {name: curves[name] for name in sorted(shown)}


def by_seed(title: str, metrics: Curves, units: dict[str, str]) -> Chart:
    """One figure.

    Args:
        title: above all panels.
        metrics: at least one; every curve has at least one value, and breaks where its value is None.
        units: unit by the last part of a metric's name.
    """
    seeds = sorted({seed for runs in metrics.values() for seed in runs})
    panels = []
    for name, runs in metrics.items():
        lines = [Line(seeds.index(seed), [(x, y) for x, y in curve]) for seed, curve in sorted(runs.items())]
        panels.append(Panel(STEPS, labelled(name, units), lines))
    return Chart(title, [f"seed {seed}" for seed in seeds], panels)
