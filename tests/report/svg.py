"""Reads figures back."""

import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"
GREY = ("#7d8590", "#d9dde2")  # edges and the grid


def root_of(svg):
    return ElementTree.fromstring(svg)


def words(svg):
    return [t.text for t in root_of(svg).iter(f"{SVG}text")]


def style_of(element):
    """The parts of a style by their names."""
    pairs = (part.split(":", 1) for part in (element.get("style") or "").split(";") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def ticks(svg):
    """Returns the positions of the labels: x of those below an axis, y of those beside it (of one panel)."""
    result = [
        (t, style_of(t)["text-anchor"])
        for t in root_of(svg).iter(f"{SVG}text")
        if "text-anchor" in style_of(t)
    ]
    middle = [t for t, anchor in result if anchor == "middle" and t.get("x")]
    below = sorted({float(t.get("y")) for t in middle})[-2:]  # the ticks, and the name of the axis
    across = {t.text: float(t.get("x")) for t in middle if float(t.get("y")) == below[0]}
    up = {t.text: float(t.get("y")) - 4 for t, anchor in result if anchor == "end"}
    return across, up


def strokes(svg, whole=False):
    """Colour, width and corners of each line that is clipped to a drawing area, without rules of a grid."""
    result = [p for p in root_of(svg).iter(f"{SVG}path") if p.get("clip-path")]
    result = [p for p in result if style_of(p).get("stroke", GREY[0]) not in GREY]
    if whole:
        return [p.get("d") for p in result]
    return [(style_of(p)["stroke"], float(style_of(p)["stroke-width"]), corners(p.get("d"))) for p in result]


def corners(path):
    pairs = path.replace("M", "L").split("L")[1:]
    return [tuple(float(v) for v in pair.split()) for pair in pairs]


def marks(svg):
    """Colour and place of each marker within a drawing area."""
    groups = [g for g in root_of(svg).iter(f"{SVG}g") if g.get("clip-path")]
    uses = [u for g in groups for u in g.iter(f"{SVG}use")]
    return [(style_of(u).get("fill"), float(u.get("x")), float(u.get("y"))) for u in uses]
