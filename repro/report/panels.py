"""Figures as SVG: panels of lines side by side, one legend above them.

Written here rather than with a plotting library: the bytes then depend on the records alone, not on a version
or on installed fonts, so `repro tables --check` compares them anywhere; and a figure takes a millisecond.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby

from repro.report.axes import Axis, Value
from repro.report.text import clean

# Okabe and Ito: told apart by colour-blind readers, on light and on dark. Dashes and marks tell later lines apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("", "6 3", "2 2", "8 3 2 3")
MARKS = ("M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z", "M-2.7 -2.7h5.4v5.4h-5.4z", "M0 -3.6L3.5 2.6H-3.5z",
         "M0 -3.8L3.6 0L0 3.8L-3.6 0z", "M0 3.6L3.5 -2.6H-3.5z")  # fmt: skip
COLUMNS = 3
WIDTH, HEIGHT, TOP = 330, 230, 44  # of a panel; of the title and a legend of one line above them
LEFT, RIGHT, ABOVE, BELOW = 62, 26, 8, 46  # margins of the drawing area within a panel
HEADED = 24  # margin above it in a panel that has a heading
LETTER, LARGE = 7, 8  # widths of a letter, and of one of the title
KEY, ROW = 28, 16  # width of a key with its gaps, height of a line of the legend
MARKED = 30  # up to so many points, each is marked
SAID = 13  # height of a line of notes
DODGE = 7  # how far lines stand apart where they share a word's place, at most

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

Point = tuple[Value, float | None]


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Attributes:
        look: the number of its colour, dashes and mark, which is that of its name in the legend.
        points: from left to right; the line breaks where a value is None, and words are not joined to it.
        dots: what the points are means of.
        thin: drawn faintly, behind the others.
    """

    look: int
    points: Sequence[Point]
    dots: Sequence[tuple[Value, float]] = ()
    thin: bool = False


@dataclass(frozen=True)
class Note:
    """Words about a line, above the drawing area.

    Attributes:
        look: of the line.
        words: beside its mark.
    """

    look: int
    words: str


@dataclass(frozen=True)
class Panel:
    """A drawing area with its axes.

    Attributes:
        across: what the axis below says.
        upwards: what the axis on the left says.
        x: the axis below.
        y: the axis on the left.
        lines: drawn in their order, thin ones first.
        heading: above the drawing area.
        marked: each point has the mark of its line.
        notes: one below the other, under the heading.
        uprights: where a rule stands across the axis below, and what is said of it there.
    """

    across: str
    upwards: str
    x: Axis
    y: Axis
    lines: Sequence[Line] = field(default=())
    heading: str = ""
    marked: bool = False
    notes: Sequence[Note] = ()
    uprights: Sequence[tuple[float, str]] = ()

    @property
    def lift(self) -> int:
        """How far its notes and what stands over them reach above the panel itself."""
        return SAID * len(self.notes)

    @property
    def above(self) -> int:
        """Margin above the drawing area."""
        return HEADED if self.heading else ABOVE

    def place(self, x: Value, y: float) -> tuple[float, float]:
        """Where a point lies within the panel."""
        bottom = HEIGHT - BELOW
        across = LEFT + self.x.share(x) * (WIDTH - RIGHT - LEFT)
        return across, bottom + self.y.share(y) * (self.above - bottom)

    def aside(self, x: Value, line: Line) -> float:
        """How far a line's mark stands aside where all lines share a word's place: often they are equal there."""
        looks = sorted({other.look for other in self.lines})
        if not isinstance(x, str) or len(looks) < 2:
            return 0.0
        room = 0.8 * self.x.word_share * (WIDTH - RIGHT - LEFT) / (len(looks) - 1)
        return (looks.index(line.look) - (len(looks) - 1) / 2) * min(DODGE, room)


def draw(title: str, what: str, names: Sequence[str], panels: Sequence[Panel]) -> str:
    """One figure.

    Args:
        title: above all panels.
        what: kind of figure, for those who hear it.
        names: of the lines; a name's number is the look of its lines.
        panels: at least one.
    """
    width = max(WIDTH * min(COLUMNS, len(panels)), 16 + LARGE * len(clean(title)))
    keys, rows = _legend(names, width, any(panel.marked for panel in panels))
    top, lift = TOP + ROW * (rows - 1), max(panel.lift for panel in panels)
    pitch = HEIGHT + lift
    height = top + pitch * -(-len(panels) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img"><title>{_text(title)}: {_text(what)}</title>',
        f"<style>{_STYLE}</style>",
        f'<rect class="back" width="{width}" height="{height}"/>',
        f'<text class="title" x="8" y="16">{_text(title)}</text>',
        keys,
    ]
    for i, panel in enumerate(panels):
        row, column = divmod(i, COLUMNS)
        parts.append(f'<g transform="translate({WIDTH * column} {top + lift + pitch * row})">')
        parts += _panel(panel)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(names: Sequence[str], width: int, marked: bool) -> tuple[str, int]:
    """The keys, in as many rows as they need."""
    keys = []
    x, row = 8, 0
    for look, name in enumerate(names):
        if x > 8 and x + KEY + LETTER * len(clean(name)) > width:
            x, row = 8, row + 1
        y = 30 + ROW * row
        keys.append(f'<line class="line" x1="{x}" y1="{y}" x2="{x + 18}" y2="{y}" {style(look)}/>')
        if marked:
            keys.append(_mark(look, x + 9, y))
        keys.append(f'<text x="{x + 22}" y="{y + 4}">{_text(name)}</text>')
        x += KEY + LETTER * len(clean(name))
    return "\n".join(keys), row + 1


def style(look: int) -> str:
    """Colour and dashes of a line."""
    dash = DASHES[look // len(COLOURS) % len(DASHES)]
    return f'stroke="{COLOURS[look % len(COLOURS)]}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _mark(look: int, x: float, y: float) -> str:
    place = f"translate({_number(x)} {_number(y)})"
    return f'<path d="{MARKS[look % len(MARKS)]}" fill="{COLOURS[look % len(COLOURS)]}" transform="{place}"/>'


def _panel(panel: Panel) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BELOW
    parts = _ticks(panel)
    parts.append(f'<path class="axis" d="M{LEFT} {panel.above}V{bottom}H{right}"/>')
    middle = (panel.above + bottom) / 2
    under = f'x="{(LEFT + right) // 2}" y="{HEIGHT - 10}" text-anchor="middle"'
    parts.append(f"<text {under}>{_text(panel.across)}</text>")
    turned = f'transform="translate(13 {_number(middle)}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{_text(panel.upwards)}</text>")
    if panel.heading:
        parts.append(f'<text x="{LEFT}" y="{14 - panel.lift}">{_text(panel.heading)}</text>')
    for where, words in panel.uprights:
        parts += _upright(panel, where, words)
    for line in sorted(panel.lines, key=lambda line: not line.thin):
        parts += _line(panel, line)
    for i, note in enumerate(panel.notes):
        y = 14 - panel.lift + SAID * (i + 1)
        parts.append(_mark(note.look, LEFT + 6, y - 4))
        parts.append(f'<text x="{LEFT + 14}" y="{y}">{_text(note.words)}</text>')
    return parts


def _upright(panel: Panel, where: float, words: str) -> list[str]:
    bottom = HEIGHT - BELOW
    across = LEFT + panel.x.share(where) * (WIDTH - RIGHT - LEFT)
    x, aside = _number(across), -4 if panel.x.share(where) > 0.5 else 4
    side = ' text-anchor="end"' if aside < 0 else ""
    return [
        f'<line class="axis" stroke-dasharray="3 3" x1="{x}" y1="{panel.above}" x2="{x}" y2="{bottom}"/>',
        f'<text x="{_number(across + aside)}" y="{bottom - 6}"{side}>{_text(words)}</text>',
    ]


def _ticks(panel: Panel) -> list[str]:
    right, bottom = WIDTH - RIGHT, HEIGHT - BELOW
    parts = []
    for share, label in panel.x.ticks():
        x = _number(LEFT + share * (right - LEFT))
        parts.append(f'<line class="axis" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{x}" y="{bottom + 17}" text-anchor="middle">{_text(label)}</text>')
    for share, label in panel.y.ticks():
        y = bottom + share * (panel.above - bottom)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{_number(y)}" x2="{right}" y2="{_number(y)}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{_number(y + 4)}" text-anchor="end">{_text(label)}</text>')
    if panel.x.words and panel.x.number_share:
        x = _number(LEFT + panel.x.number_share * (right - LEFT))  # what is behind it is no number
        parts.append(f'<line class="grid" x1="{x}" y1="{panel.above}" x2="{x}" y2="{bottom}"/>')
    return parts


def _line(panel: Panel, line: Line) -> list[str]:
    """One stroke per stretch of numbers; marks where the panel has them, or where points are few."""
    parts = []
    faint = ' fill="none" stroke-width="0.8" opacity="0.45"'
    shape = f"{faint} {style(line.look)}" if line.thin else f' class="line" {style(line.look)}'
    for joined, stretch in groupby(line.points, key=lambda p: p[1] is not None and not isinstance(p[0], str)):
        corners = [panel.place(x, y) for x, y in stretch if y is not None] if joined else []
        places = [(_number(x), _number(y)) for x, y in corners]
        if places:
            said = " ".join(f"{x},{y}" for x, y in places)
            parts.append(f'<polyline{shape} points="{said}"/>')
        if not (line.thin or panel.marked) and len(line.points) <= MARKED:
            parts += [f'<circle{shape} cx="{x}" cy="{y}" r="1.8"/>' for x, y in places]
    for x, y in line.dots:
        across, up = panel.place(x, y)
        at = f'cx="{_number(across + panel.aside(x, line))}" cy="{_number(up)}"'
        parts.append(f'<circle {at} r="1.6" fill="{COLOURS[line.look % len(COLOURS)]}" opacity="0.6"/>')
    for x, value in line.points if panel.marked else ():
        if value is not None:
            across, up = panel.place(x, value)
            parts.append(_mark(line.look, across + panel.aside(x, line), up))
    return parts


def _number(value: float) -> str:
    return f"{value:.1f}"


def _text(words: str) -> str:
    return escape(clean(words))
