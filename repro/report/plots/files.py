"""The files of figures: each contains the SHA-256 of its data, and is drawn again only if that changes."""

import hashlib
from functools import cache
from pathlib import Path

from repro.report.plots.plot import Plot

STYLE_FILES = ("figures.mplstyle", "drawing.py", "forest.py", "panels.py")


def content(plot: Plot, path: Path) -> bytes:
    """The bytes of a figure's file: the existing ones if they show the same data in the same style.

    Args:
        plot: the figure.
        path: of its file, which may be missing.
    """
    sha256 = hashlib.sha256(f"{_style()}\n{plot}".encode(errors="replace")).hexdigest()
    current = path.read_bytes() if path.is_file() else b""
    return current if sha256.encode() in current[:2000] else _drawn(plot, sha256)


def _drawn(plot: Plot, sha256: str) -> bytes:
    from repro.report.plots.drawing import svg  # here, as matplotlib takes long to import

    return svg(plot.content, plot.caption, sha256)


@cache
def _style() -> str:
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in STYLE_FILES)
