"""The files of figures: each contains the SHA-256 of its data, and is drawn again only if that changes."""

import hashlib
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from repro import paths
from repro.contact_sheet import to_png
from repro.report.plots.chart import Chart
from repro.report.plots.plot import Plot

# Of drawing.py and of contact sheets: raised where a figure changes though its data and style do not.
VERSION = 2
SIDE = 84  # pixels of the longer side of a picture on a sheet, at least
STYLE = Path(__file__).with_name("figures.mplstyle")
PAGE_STYLE = Path(__file__).parent.parent / "formats" / "page.css"
VARIABLES = ("text", "line", "edge", "back", "k0", "k1", "k2", "k3", "k4", "k5")
_RECORDED = re.compile(rb'data-sha256(?:="|\0)([0-9a-f]{64})')


def content(plot: Plot, path: Path, again: bool = False) -> bytes:
    """The bytes of a figure's file: the existing ones if they show the same data in the same style.

    Args:
        plot: the figure.
        path: of its file, which may be missing.
        again: draw it in any case.
    """
    sha256 = digest(plot)
    current = path.read_bytes() if path.is_file() and not again else b""
    recorded = _RECORDED.search(current[:2000])
    return current if recorded and recorded[1].decode() == sha256 else _drawn(plot, sha256)


def digest(plot: Plot) -> str:
    """SHA-256 of a figure's data and of everything that determines its look."""
    if isinstance(plot.content, Chart):
        parts = [plot.content.as_json(), STYLE.read_text(encoding="utf-8"), _theme()]
    else:
        parts = [f"{p.height}x{p.width}x{p.channels}:{p.pixels.hex()}" for p in plot.content]
    content = "\n".join([str(VERSION), plot.name, plot.caption, *parts])
    return hashlib.sha256(content.encode(errors="replace")).hexdigest()


def _drawn(plot: Plot, sha256: str) -> bytes:
    if isinstance(plot.content, Chart):
        from repro.report.plots.drawing import svg

        colours = {light: name for name, (light, _) in _colours().items()}
        theme = f'data-sha256="{sha256}"'
        drawn = svg(plot.content, plot.name, plot.caption, colours, theme)
        return drawn.replace(">", f">\n<style>{_theme()}</style>", 1).encode()
    first = plot.content[0]
    return to_png(plot.content, scale=max(1, SIDE // max(first.height, first.width)), sha256=sha256)


@cache
def _colours() -> dict[str, tuple[str, str]]:
    """The light and the dark value of each variable that figures use, as the page has them."""
    style = PAGE_STYLE.read_text(encoding="utf-8")
    triples = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)
    return {name: (light, dark) for name, light, dark in triples if name in VARIABLES}


def _theme() -> str:
    """The style sheet of a figure's file, which follows the reader's choice of light or dark."""
    light, dark = ("".join(f"--{name}:{pair[side]};" for name, pair in _colours().items()) for side in (0, 1))
    return (
        f"svg{{{light}font-family:system-ui,sans-serif}}"
        f"@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"
        "svg *{stroke-linejoin:round}"
    )


def is_locked(library: str) -> bool:
    """Whether a library's version is that of ``requirements.lock``: then its output is the same to the byte."""
    lock = paths.SHARED / "requirements.lock"
    lines = lock.read_text(encoding="utf-8").lower().split() if lock.is_file() else []
    return f"{library.lower()}=={metadata.version(library)}" in lines


def size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of the file of a figure."""
    if data.startswith(b"\x89PNG"):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    match = re.search(rb' width="([\d.]+)" height="([\d.]+)"', data)
    return (round(float(match[1])), round(float(match[2]))) if match else (0, 0)
