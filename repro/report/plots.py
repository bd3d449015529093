"""Learning curves as SVG: one panel per metric, one line per seed.

Written here rather than with a plotting library: the bytes then depend on the records alone, not on a version
or on installed fonts, so `repro tables --check` compares them anywhere; and a figure takes a millisecond.
"""

import math
from html import escape
from itertools import groupby
from typing import Any

from repro.record import RunRecord
from repro.report.compare import Comparison
from repro.report.text import clean

# Okabe and Ito: told apart by colour-blind readers, on light and on dark. Dashes tell later seeds apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
UNITS = {"loss": "nats per token", "nll": "nats per token", "ppl": "perplexity", "bpc": "bits per character",
         "bpb": "bits per byte", "bpd": "bits per dimension", "bleu": "BLEU"}  # fmt: skip
COLUMNS = 3
WIDTH, HEIGHT, TOP = 330, 230, 44  # of a panel; of the title and legend above them
LEFT, RIGHT, ABOVE, BELOW = 62, 26, 8, 46  # margins of the drawing area within a panel
MARKED = 30  # up to so many points, each is marked

Curve = list[list[Any]]  # [step, value or None]
Panels = dict[str, dict[int, Curve]]  # {metric: {seed: curve}}

_STYLE = """
text { font: 11px system-ui, sans-serif; fill: #1b1f24; }
.title { font-weight: 600; font-size: 13px; }
.back { fill: #ffffff; }
.grid { stroke: #d0d7de; stroke-width: 1; }
.axis { stroke: #57606a; stroke-width: 1; fill: none; }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e9ed; } .back { fill: #14181d; } .grid { stroke: #3b434d; } .axis { stroke: #9ba6b2; } }
""".strip()


def plots(comparison: Comparison) -> dict[str, bytes]:
    """Every figure by file name, ``<paper>--<recipe>--<scale>.svg``, of the records that count."""
    found = {}
    for (experiment, scale), selection in comparison.selections.items():
        panels = _panels(selection.used)
        if panels:
            units = {m.name.split("/")[-1]: m.unit for r in selection.used for m in r.metrics}
            svg = draw(f"{experiment}, scale {scale}", panels, {**UNITS, **units})
            found[file_name(experiment, scale)] = svg.encode()
    return found


def file_name(experiment: str, scale: str) -> str:
    """The figure's file name; ``@`` of a grid's point stays."""
    return f"{experiment.replace('/', '--')}--{scale}.svg"


def _panels(records: tuple[RunRecord, ...]) -> Panels:
    """Curves worth a panel: the training loss, then the validation scores."""
    found: Panels = {}
    for record in records:
        for name, curve in record.curves.items():
            wanted = name == "train/loss" or name.startswith("val/")
            if wanted and any(value is not None for _, value in curve):
                found.setdefault(name, {})[record.seed] = curve
    return dict(sorted(found.items()))


def draw(title: str, panels: Panels, units: dict[str, str]) -> str:
    """One figure.

    Args:
        title: above all panels.
        panels: at least one; every curve has at least one value, and breaks where its value is None.
        units: unit by the last part of a metric's name.
    """
    width = WIDTH * min(COLUMNS, len(panels))
    height = TOP + HEIGHT * -(-len(panels) // COLUMNS)
    seeds = sorted({seed for curves in panels.values() for seed in curves})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img"><title>{_text(title)}: learning curves</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text class="title" x="8" y="16">{_text(title)}</text>',
        _legend(seeds),
    ]
    for i, (name, curves) in enumerate(panels.items()):
        unit = units.get(name.split("/")[-1])
        x, y = WIDTH * (i % COLUMNS), TOP + HEIGHT * (i // COLUMNS)
        styles = {seed: _style(seeds.index(seed)) for seed in curves}
        parts.append(f'<g transform="translate({x} {y})">')
        parts += _panel(f"{name} ({unit})" if unit else name, curves, styles)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(seeds: list[int]) -> str:
    keys = []
    for i, seed in enumerate(seeds):
        x = 8 + 70 * i
        keys.append(f'<line class="line" x1="{x}" y1="30" x2="{x + 18}" y2="30" {_style(i)}/>')
        keys.append(f'<text x="{x + 22}" y="34">seed {seed}</text>')
    return "\n".join(keys)


def _style(index: int) -> str:
    dash = DASHES[index // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[index % len(COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _panel(label: str, curves: dict[int, Curve], styles: dict[int, str]) -> list[str]:
    points = [(x, y) for curve in curves.values() for x, y in curve if y is not None]
    xs, ys = _range([x for x, _ in points]), _range([y for _, y in points])
    right, bottom = WIDTH - RIGHT, HEIGHT - BELOW
    parts = []
    for tick in ticks(*xs):
        x = _number(_scaled(tick, xs, LEFT, right))
        parts.append(f'<line class="axis" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{tick:,.6g}</text>')
    for tick in ticks(*ys):
        y = _scaled(tick, ys, bottom, ABOVE)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{_number(y)}" x2="{right}" y2="{_number(y)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{_number(y + 4)}" text-anchor="end">{tick:,.6g}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {ABOVE}V{bottom}H{right}"/>')
    middle = (ABOVE + bottom) / 2
    parts.append(
        f'<text x="{(LEFT + right) // 2}" y="{HEIGHT - 10}" text-anchor="middle">optimiser steps</text>'
    )
    turned = f'transform="translate(13 {_number(middle)}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{_text(label)}</text>")
    for seed, curve in sorted(curves.items()):
        parts += _line(curve, styles[seed], xs, ys)
    return parts


def _line(curve: Curve, style: str, xs: tuple[float, float], ys: tuple[float, float]) -> list[str]:
    """A curve in one stroke per stretch of finite values, its points marked where they are few."""
    parts = []
    for finite, stretch in groupby(curve, key=lambda point: point[1] is not None):
        if not finite:
            continue
        places = [
            (_number(_scaled(x, xs, LEFT, WIDTH - RIGHT)), _number(_scaled(y, ys, HEIGHT - BELOW, ABOVE)))
            for x, y in stretch
        ]
        corners = " ".join(f"{x},{y}" for x, y in places)
        parts.append(f'<polyline class="line" {style} points="{corners}"/>')
        if len(curve) <= MARKED:
            parts += [f'<circle class="line" {style} cx="{x}" cy="{y}" r="1.8"/>' for x, y in places]
    return parts


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) within a range."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _range(values: list[float]) -> tuple[float, float]:
    """The range of an axis: a little wider than the values, never empty."""
    low, high = min(values), max(values)
    margin = (high - low) * 0.04 or abs(high) * 0.1 or 1.0
    return (low if low == 0 else low - margin), high + margin


def _scaled(value: float, source: tuple[float, float], start: float, end: float) -> float:
    return start + (value - source[0]) / (source[1] - source[0]) * (end - start)


def _number(value: float) -> str:
    return f"{value:.1f}"


def _text(words: str) -> str:
    return escape(clean(words))
