"""Reads figures back."""

import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def root_of(svg):
    return ElementTree.fromstring(svg)


def words(svg):
    return [t.text for t in root_of(svg).iter(f"{SVG}text")]


def ticks(svg):
    """Where the labels stand: x of those below an axis, y of those beside it (of one panel)."""
    found = list(root_of(svg).iter(f"{SVG}text"))
    below = max(float(t.get("y")) for t in found if t.get("text-anchor") == "middle")
    heights = sorted({float(t.get("y")) for t in found if t.get("text-anchor") == "middle"})
    row = next(y for y in heights if y < below and y > below - 25)
    across = {t.text: float(t.get("x")) for t in found if t.get("y") == f"{row:g}" and not t.get("transform")}
    up = {t.text: float(t.get("y")) - 4 for t in found if t.get("text-anchor") == "end"}
    return across, up


def strokes(svg):
    """Colour, width and corners of each line that is clipped to a drawing area, without rules of a grid."""
    found = [p for p in root_of(svg).iter(f"{SVG}path") if p.get("clip-path")]
    return [
        (p.get("stroke"), float(p.get("stroke-width")), corners(p.get("d")))
        for p in found
        if p.get("stroke") not in ("var(--line)", "var(--edge)")
    ]


def corners(path):
    pairs = path.replace("M", "L").split("L")[1:]
    return [tuple(float(v) for v in pair.split()) for pair in pairs]


def marks(svg, opaque=True):
    """Colour and place of each marker within a drawing area; of single seeds where not ``opaque``."""
    groups = [g for g in root_of(svg).iter(f"{SVG}g") if g.get("clip-path")]
    return [
        (u.get("fill"), float(u.get("x")), float(u.get("y")))
        for g in groups
        for u in g.iter(f"{SVG}use")
        if (u.get("fill-opacity") is None) == opaque
    ]
