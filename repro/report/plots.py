"""Learning curves as SVG: one panel per metric, one line per seed. The bytes depend on the records alone.

A figure names, in its metadata, the drawing library and the digest of what was drawn, so that another version
of the library, which sets the same curves with other bytes, is not mistaken for an edit by hand.
"""

import hashlib
import io
import json
import re
from typing import Any

from repro.record import RunRecord
from repro.report.compare import Comparison
from repro.report.text import clean

# Okabe and Ito: told apart by colour-blind readers; the dashes tell them apart in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":")
_UNITS = {"loss": "nats per token", "nll": "nats per token", "ppl": "perplexity", "bpc": "bits per character",
          "bpb": "bits per byte", "bpd": "bits per dimension", "bleu": "BLEU"}  # fmt: skip
_RC: Any = {
    "svg.hashsalt": "repro",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "path.simplify": False,
}

Panels = dict[str, dict[int, list[list[float]]]]


def plots(comparison: Comparison) -> dict[str, bytes]:
    """Every figure by file name, ``<paper>--<recipe>--<scale>.svg``."""
    found = {}
    for (experiment, scale), selection in comparison.selections.items():
        panels = _panels(selection.used)
        if panels:
            measured = {m.name.split("/")[-1]: m.unit for r in selection.used for m in r.metrics}
            found[file_name(experiment, scale)] = _draw(experiment, scale, panels, {**_UNITS, **measured})
    return found


def file_name(experiment: str, scale: str) -> str:
    """The figure's file name; ``@`` of a grid's point stays."""
    return f"{experiment.replace('/', '--')}--{scale}.svg"


def same_figure(a: bytes, b: bytes) -> bool:
    """Whether two files show the same: equal bytes, or equal data drawn by two versions of the library."""
    return a == b or (_creator(a) != _creator(b) and None is not _digest(a) == _digest(b))


def _creator(svg: bytes) -> bytes | None:
    found = re.search(rb"<dc:title>([^<]*)</dc:title>", svg)
    return found.group(1) if found else None


def _digest(svg: bytes) -> bytes | None:
    found = re.search(rb"<dc:description>data ([0-9a-f]{64})</dc:description>", svg)
    return found.group(1) if found else None


def _panels(records: tuple[RunRecord, ...]) -> Panels:
    """Curves worth a panel: training loss, validation scores; ``{metric: {seed: points}}``."""
    found: Panels = {}
    for record in records:
        for name, points in record.curves.items():
            finite = [point for point in points if point[1] is not None]
            if (name == "train/loss" or name.startswith("val/")) and finite:
                found.setdefault(name, {})[record.seed] = finite
    return dict(sorted(found.items()))


def _draw(experiment: str, scale: str, panels: Panels, units: dict[str, str]) -> bytes:
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    digest = hashlib.sha256(json.dumps([experiment, scale, panels]).encode()).hexdigest()
    with matplotlib.rc_context(_RC):
        figure = Figure(figsize=(3.4 * min(3, len(panels)), 2.6 * -(-len(panels) // 3)))
        FigureCanvasSVG(figure)
        for i, (name, curves) in enumerate(panels.items()):
            axes = figure.add_subplot(-(-len(panels) // 3), min(3, len(panels)), i + 1)
            _panel(axes, name, curves, units.get(name.split("/")[-1]))
        figure.suptitle(_plain(f"{experiment}, scale {scale}"), fontsize=9)
        figure.tight_layout()
        out = io.BytesIO()
        metadata = {"Date": None, "Creator": None, "Description": f"data {digest}"}
        metadata["Title"] = f"drawn by matplotlib {matplotlib.__version__}"
        figure.savefig(out, format="svg", metadata=metadata)
    return out.getvalue()


def _panel(axes: Any, name: str, curves: dict[int, list[list[float]]], unit: str | None) -> None:
    for i, (seed, points) in enumerate(sorted(curves.items())):
        x, y = zip(*((p[0], p[1]) for p in points), strict=True)
        style = {"color": COLOURS[i % len(COLOURS)], "linestyle": DASHES[i // len(COLOURS) % len(DASHES)]}
        axes.plot(x, y, label=f"seed {seed}", linewidth=1.2, marker="." if len(x) < 30 else "", **style)
    axes.set_xlabel("update (optimiser steps)")
    axes.set_ylabel(_plain(f"{name} ({unit})" if unit else name))
    if len(curves) > 1:
        axes.legend(frameon=False, fontsize=7)


def _plain(words: str) -> str:
    """Text that matplotlib does not read as mathematics."""
    return clean(words).replace("$", r"\$")
