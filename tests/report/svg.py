"""Reads figures back."""

import re
import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def root_of(svg):
    return ElementTree.fromstring(svg)


def words(svg):
    return [t.text for t in root_of(svg).iter(f"{SVG}text")]


def panels(svg):
    """Panels as elements, in their order."""
    return list(root_of(svg).iter(f"{SVG}g"))


def lines(element, thin=None):
    """Corners of each line; of the thin ones only, or of the others only."""
    found = element.iter(f"{SVG}polyline")
    chosen = [p for p in found if thin is None or (p.get("opacity") is not None) == thin]
    return [corners(p) for p in chosen]


def corners(polyline):
    return [tuple(float(v) for v in pair.split(",")) for pair in polyline.get("points").split()]


def marks(panel):
    """Colour and place of each mark."""
    found = (p for p in panel.iter(f"{SVG}path") if p.get("transform"))
    return [(p.get("fill"), *map(float, re.findall(r"-?[\d.]+", p.get("transform")))) for p in found]


def dots(panel):
    """Places of single seeds."""
    found = (c for c in panel.iter(f"{SVG}circle") if c.get("opacity"))
    return [(float(c.get("cx")), float(c.get("cy"))) for c in found]


def labels(panel):
    """Texts with their x, those below the drawing area and those left of it."""
    below = {t.text: float(t.get("x")) for t in panel.iter(f"{SVG}text") if t.get("y") == "201"}
    left = {t.text: float(t.get("y")) - 4 for t in panel.iter(f"{SVG}text") if t.get("text-anchor") == "end"}
    return below, left
