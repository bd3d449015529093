"""The files of figures: each carries the SHA-256 of what it shows, and is drawn again only where that changes."""

import hashlib
import re
from functools import cache
from importlib import metadata
from pathlib import Path

from repro import paths
from repro.contact_sheet import to_png
from repro.report.plots.chart import Chart
from repro.report.plots.plot import Plot

VERSION = (
    1  # of drawing.py and of contact sheets: raised where a figure changes though its data and style do not
)
SIDE = 84  # pixels of the longer side of a picture on a sheet, at least
STYLE = Path(__file__).with_name("figures.mplstyle")
PAGE_STYLE = Path(__file__).parent.parent / "site" / "page.css"
VARIABLES = ("text", "line", "edge", "back", "k0", "k1", "k2", "k3", "k4", "k5")
_RECORDED = re.compile(rb'data-sha256(?:="|\0)([0-9a-f]{64})')


def content(plot: Plot, path: Path, again: bool = False) -> bytes:
    """The bytes of a figure's file: those that are there, where they show the same data in the same style.

    Args:
        plot: the figure.
        path: of its file, which may be missing.
        again: draw it in any case.
    """
    wanted = digest(plot)
    there = path.read_bytes() if path.is_file() and not again else b""
    found = _RECORDED.search(there[:2000])
    return there if found and found[1].decode() == wanted else _drawn(plot, wanted)


def digest(plot: Plot) -> str:
    """SHA-256 of the data that a figure shows and of all that decides how it looks."""
    if isinstance(plot.content, Chart):
        parts = [plot.content.as_json(), STYLE.read_text(encoding="utf-8"), _theme()]
    else:
        parts = [f"{p.height}x{p.width}x{p.channels}:{p.pixels.hex()}" for p in plot.content]
    said = "\n".join([str(VERSION), plot.name, plot.caption, *parts])
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()


def _drawn(plot: Plot, wanted: str) -> bytes:
    if isinstance(plot.content, Chart):
        from repro.report.plots.drawing import svg

        colours = {light: name for name, (light, _) in _colours().items()}
        theme = f'data-sha256="{wanted}"'
        drawn = svg(plot.content, plot.name, plot.caption, colours, theme)
        return drawn.replace(">", f">\n<style>{_theme()}</style>", 1).encode()
    first = plot.content[0]
    return to_png(plot.content, scale=max(1, SIDE // max(first.height, first.width)), sha256=wanted)


@cache
def _colours() -> dict[str, tuple[str, str]]:
    """The light and the dark value of each variable that figures use, as the page has them."""
    said = PAGE_STYLE.read_text(encoding="utf-8")
    found = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", said)
    return {name: (light, dark) for name, light, dark in found if name in VARIABLES}


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
    lock = paths.PROJECT / "requirements.lock"
    lines = lock.read_text(encoding="utf-8").lower().split() if lock.is_file() else []
    return f"{library.lower()}=={metadata.version(library)}" in lines


def size(data: bytes) -> tuple[int, int]:
    """Width and height in pixels of the file of a figure."""
    if data.startswith(b"\x89PNG"):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    found = re.search(rb' width="([\d.]+)" height="([\d.]+)"', data)
    return (round(float(found[1])), round(float(found[2]))) if found else (0, 0)
