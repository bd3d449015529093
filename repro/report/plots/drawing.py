"""Files of figures that matplotlib draws: SVG for light and dark pages, and PDF."""

import html
import io
import warnings
from pathlib import Path
from typing import Any

import matplotlib

from repro.evidence.text import clean
from repro.report.plots.chart import Chart, Forest
from repro.report.plots.forest import forest
from repro.report.plots.panels import chart
from repro.report.plots.plot import Plot

STYLE = Path(__file__).with_name("figures.mplstyle")
# The colours of the style, and what they become on a dark page.
DARK = {
    "#ffffff": "#13171c", "#1c2127": "#e4e7eb", "#7d8590": "#727c88", "#d9dde2": "#343b44",
    "#7a4fb5": "#b494e8", "#5c6670": "#9aa5b1", "#c2334d": "#ff8095",
    "#00639c": "#4aa8e0", "#c94f00": "#ff8a3d", "#00845f": "#2fc79c", "#b0578c": "#e39cc4",
    "#a38600": "#ead44f", "#3596cc": "#a9dcf7",
}  # fmt: skip


def svg(content: Chart | Forest, caption: str, sha256: str) -> bytes:
    """An SVG whose colours follow the reader's choice of light or dark.

    Args:
        content: what is drawn.
        caption: the accessible name.
        sha256: of the data, which the root element carries.
    """
    drawn = _saved(content, "svg", dict.fromkeys(("Date", "Creator", "Format", "Type"))).decode()
    places = [(kind, *pair) for pair in DARK.items() for kind in ("fill", "stroke")]
    dark = "".join(f'[style*="{kind}: {light}"]{{{kind}:{other}!important}}' for kind, light, other in places)
    style = "text{font-family:system-ui,sans-serif!important}@media(prefers-color-scheme:dark){" + dark + "}"
    head, tag, rest = drawn[drawn.index("<svg") :].replace('pt"', '"', 2).partition(">")  # pixels, not points
    root = f'{head} data-sha256="{sha256}" role="img" aria-label="{html.escape(clean(caption))}"'
    return f"{root}{tag}<style>{style}</style>{rest}".encode()


def drawn(plot: Plot, suffix: str) -> bytes:
    """A chart as ``.svg``, or, in the light colours, as ``.pdf`` or ``.png``."""
    if suffix == ".svg":
        return svg(plot.content, plot.caption, "")
    return _saved(plot.content, suffix[1:], {"CreationDate": None} if suffix == ".pdf" else {})


def _saved(content: Chart | Forest, kind: str, metadata: dict[str, Any]) -> bytes:
    """Draws in our style alone, independent of the user's settings; letters that no font has are left to the reader."""
    out = io.BytesIO()
    with matplotlib.rc_context(fname=STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure = forest(content) if isinstance(content, Forest) else chart(content)
        figure.savefig(out, format=kind, metadata=metadata)
    return out.getvalue()
