"""Figures within the page: drawn with its colours, in as few bytes as the eye allows.

A file of ``results/plots`` is complete in itself. Within the page a figure shares the style sheet, so that it follows
the reader's choice of light or dark, and its lines lose the points that nobody sees. How many depends on the room that
the rest of the page leaves: the more there is, the coarser all figures are drawn, and the last ones become links.
"""

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from itertools import accumulate, pairwise
from urllib.parse import quote

from repro.report.figures import Plot
from repro.report.panels import COLOURS, DASHES, MARKS
from repro.report.site.html import Attribute, Html, escape, join, leaf, tag, void

PICTURES = 100_000  # bytes of all pictures together; further ones are files beside the page
# Pixels by which a line may miss a point that it leaves out, and whether single seeds are drawn behind their mean.
LEVELS = ((0.25, True), (0.5, True), (1.0, True), (1.0, False), (2.0, False), (4.0, False), (8.0, False))
_NUMBERS = re.compile(r"-?[\d.]+")
Points = list[tuple[float, float]]
Level = tuple[float, bool]


def place(plot: Plot) -> Html:
    """Where a figure will stand; no text can look like it, since texts are escaped."""
    return Html(f"<!--{plot.name}-->")


def fill(markup: Html, plots: list[Plot], limit: int) -> Html:
    """The page with its figures at their places, each drawn once, in at most ``limit`` bytes where text leaves room."""
    found = pictures(plots)
    links = sum(len(link(plot).encode()) for plot in plots)
    room = limit - len(markup.encode()) - links - sum(map(len, found.values()))
    found |= drawings(plots, room)
    for plot in plots:
        markup = Html(markup.replace(place(plot), found.get(plot.name) or link(plot)))
    return markup


def link(plot: Plot) -> Html:
    """A figure that is a file beside the page."""
    return tag("a", plot.name, href=f"plots/{quote(plot.name)}")


def drawings(plots: Iterable[Plot], room: int) -> dict[str, Html]:
    """Vector figures as markup, by the name of their file: as exact as the room allows, as many as it allows."""
    parsed = [(plot, ElementTree.fromstring(plot.data)) for plot in plots if plot.name.endswith(".svg")]
    found: dict[str, Html] = {}
    for level in LEVELS:
        found = {plot.name: drawing(root, plot.caption, level) for plot, root in parsed}
        if sum(map(len, found.values())) <= room:
            break
    return _as_fit(found, room)


def pictures(plots: Iterable[Plot], room: int = PICTURES) -> dict[str, Html]:
    """Pictures with their bytes within the page, by the name of their file, as many as the room allows."""
    return _as_fit({plot.name: picture(plot) for plot in plots if plot.name.endswith(".png")}, room)


def _as_fit(found: dict[str, Html], room: int) -> dict[str, Html]:
    """The first of them, up to the room that there is."""
    sizes = accumulate(len(markup.encode()) for markup in found.values())
    return {name: found[name] for name, size in zip(found, sizes, strict=True) if size <= room}


def picture(plot: Plot) -> Html:
    """A picture with its bytes within the page."""
    source = f"data:image/png;base64,{base64.b64encode(plot.data).decode()}"
    return void("img", loading="lazy", src=source, alt=plot.caption)


def marks() -> Html:
    """The shapes that figures refer to, once for the whole page."""
    shapes = [leaf("path", id=f"mark{i}", d=shape) for i, shape in enumerate(MARKS)]
    shapes += [_dot(colour) for colour in range(len(COLOURS))]
    return tag("svg", tag("defs", *shapes), width=0, height=0, aria_hidden="true", cls="defs")


def _dot(colour: int) -> Html:
    """What stands at each corner of a line of few points; the style sheet puts it there."""
    circle = leaf("circle", cls=f"f{colour}", cx=3, cy=3, r="1.8")
    size: dict[str, Attribute] = {
        "markerWidth": 6,
        "markerHeight": 6,
        "refX": 3,
        "refY": 3,
        "markerUnits": "userSpaceOnUse",
    }
    return tag("marker", circle, id=f"dot{colour}", **size)


def drawing(root: ElementTree.Element, caption: str, level: Level) -> Html:
    """One figure of :mod:`repro.report.panels`.

    Raises:
        ValueError: an element that this module does not know.
    """
    width, height = root.get("width", ""), root.get("height", "")
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    return tag("svg", _group(root, level), role="img", aria_label=caption, **size)


def _group(parent: ElementTree.Element, level: Level) -> Html:
    """What an element holds, by kind: rules as one path each, texts, then lines, then single seeds as points."""
    rules: dict[str, list[str]] = {"grid": [], "axis": []}
    texts: dict[str, list[Html]] = {}
    dots: dict[str, Points] = {}
    rest: list[Html] = []
    circles = {_stroke(child) for child in parent if _name(child) == "circle" and child.get("stroke")}
    for child in parent:
        name, shape = _name(child), child.get("class", "")
        if name in ("title", "style", "rect"):
            continue  # the page says and shows what these do
        if name in ("line", "path") and shape in rules:
            rules[shape].append(_rule(child))
        elif name == "text":
            texts.setdefault(_aligned(child), []).append(_text(child))
        elif name == "polyline":
            if level[1] or not child.get("opacity"):
                rest.append(_polyline(child, level[0], _stroke(child) in circles))
        elif name == "circle" and child.get("fill") in COLOURS:
            dots.setdefault(child.get("fill", ""), []).append(_centre(child))
        elif name != "circle":
            rest.append(_other(name, child, level))
    drawn = [leaf("path", cls=shape, d="".join(d)) for shape, d in rules.items() if d]
    said = [tag("g", *found, cls=shape) if shape else join(found) for shape, found in texts.items()]
    points = [leaf("path", cls=f"p k{_colour(colour)}", d=spots(there)) for colour, there in dots.items()]
    return join([*drawn, *said, *rest, *points])


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _centre(circle: ElementTree.Element) -> tuple[float, float]:
    return float(circle.get("cx", "")), float(circle.get("cy", ""))


def _polyline(child: ElementTree.Element, tolerance: float, dotted: bool) -> Html:
    """A line; one whose points are marked keeps them all, and each is marked by the style sheet."""
    pairs = (pair.split(",") for pair in child.get("points", "").split())
    points = [(float(x), float(y)) for x, y in pairs]
    if dotted:
        return leaf("path", cls=f"{_stroke(child)} z", d=path(points))
    return leaf("path", cls=_stroke(child), d=path(simplified(points, tolerance)))


def _aligned(text: ElementTree.Element) -> str:
    """The class of a text: title, centred, or flush right."""
    anchor = {"middle": "c", "end": "e"}.get(text.get("text-anchor", ""), "")
    return "t" if text.get("class") == "title" else anchor


def _text(text: ElementTree.Element) -> Html:
    x, y = (None if text.get(key) is None else round(float(text.get(key, ""))) for key in ("x", "y"))
    return tag("text", text.text or "", transform=text.get("transform"), x=x, y=y)


def _other(name: str, child: ElementTree.Element, level: Level) -> Html:
    if name == "g":
        return tag("g", _group(child, level), transform=child.get("transform"))
    if name == "line":
        return leaf("path", cls=_stroke(child), d=_rule(child))
    if name == "path" and child.get("d") in MARKS:
        x, y = (_short(number) for number in _NUMBERS.findall(child.get("transform", "")))
        shape = {"href": f"#mark{MARKS.index(child.get('d', ''))}", "x": x, "y": y}
        return leaf("use", cls=f"f{_colour(child.get('fill'))}", **shape)
    raise ValueError(f"a figure holds <{name}>, which the page cannot draw")


def _rule(line: ElementTree.Element) -> str:
    """A straight line, or the path that it already is."""
    if line.get("d"):
        return line.get("d", "")
    (x1, y1), (x2, y2) = ((float(line.get(f"x{i}", "")), float(line.get(f"y{i}", ""))) for i in (1, 2))
    way = (
        f"v{_short(y2 - y1)}" if x1 == x2 else f"H{_short(x2)}" if y1 == y2 else f"L{_short(x2)} {_short(y2)}"
    )
    return f"M{_short(x1)} {_short(y1)}{way}"


def _stroke(line: ElementTree.Element) -> str:
    """Classes of a line: its colour, its dashes, and whether it is a faint one."""
    dashes = DASHES.index(line.get("stroke-dasharray", ""))
    faint = " h" if line.get("opacity") else ""
    return f"l k{_colour(line.get('stroke'))}{f' d{dashes}' if dashes else ''}{faint}"


def _colour(colour: str | None) -> int:
    return COLOURS.index(colour or "")


def _short(number: "str | float | None") -> str:
    """A coordinate to a tenth, without what it can do without."""
    if number is None:
        return ""
    said = f"{float(number):.1f}".removesuffix(".0")
    return re.sub(r"^(-?)0\.", r"\1.", "0" if said == "-0" else said)


def path(points: Points) -> str:
    """A polyline as a path of steps."""
    first, *steps = _steps(points)
    return f"M{first}l{_packed(steps)}" if steps else f"M{first}h0"


def spots(points: Points) -> str:
    """Points as strokes without length, whose round ends are all that is seen of them."""
    first, *steps = _steps(points)
    return f"M{first}h0{''.join(f'm{step}h0' for step in steps)}"


def _steps(points: Points) -> list[str]:
    """The first place, then the way to each of the others, in tenths of a pixel."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    ways = [(x - from_x, y - from_y) for (from_x, from_y), (x, y) in pairwise([(0, 0), *tenths])]
    return [_packed([_short(x / 10), _short(y / 10)]) for x, y in ways]


def _packed(numbers: list[str]) -> str:
    """Numbers in a row, without the blanks before a sign."""
    return " ".join(numbers).replace(" -", "-")


def simplified(points: Points, tolerance: float) -> Points:
    """The points of a curve from left to right that keep it within the tolerance, above and below, everywhere.

    A swinging door: from the last point that was kept, the slopes that pass all later points closely enough are
    narrowed until none is left. One pass, whatever the curve.
    """
    if len(points) < 3:
        return points
    kept = [points[0]]
    low, high = float("-inf"), float("inf")
    for before, (x, y) in pairwise(points):
        from_x, from_y = kept[-1]
        if x > from_x and low <= (y - from_y) / (x - from_x) <= high:
            slopes = ((y - tolerance - from_y) / (x - from_x), (y + tolerance - from_y) / (x - from_x))
            low, high = max(low, slopes[0]), min(high, slopes[1])
            continue
        if before != kept[-1]:
            kept.append(before)
            from_x, from_y = before
        across = x - from_x
        narrow = [(y + side * tolerance - from_y) / across if across > 0 else 0.0 for side in (-1, 1)]
        low, high = (narrow[0], narrow[1]) if across > 0 else (float("inf"), float("-inf"))
    return [*kept, points[-1]]


def figure(plot: Plot, **attributes: str) -> Html:
    """A figure with its caption; a wide one scrolls within itself, by keyboard, too."""
    inner = tag("div", place(plot), cls="scroll", tabindex=0, role="group", aria_label="figure")
    return tag("figure", inner, tag("figcaption", escape(plot.caption)), **attributes)
