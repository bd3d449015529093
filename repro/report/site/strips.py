"""Small drawings of intervals, beside the numbers that say the same."""

from dataclasses import dataclass, replace

from repro.report.compare import Cell, Entry
from repro.report.rules import Margin
from repro.report.site.html import Attribute, Html, leaf, tag
from repro.report.statistics import Estimate

WIDTH, HEIGHT, EDGE = 150, 18, 5
REACH = 4.0  # margins to each side that a strip of differences shows


@dataclass(frozen=True)
class Span:
    """The numbers at the left and the right end of a strip."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """Where a number lies, in pixels; one beyond an end stands at that end."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return EDGE + min(max(share, 0.0), 1.0) * (WIDTH - 2 * EDGE)


def span_of(estimates: list[Estimate]) -> Span:
    """Of all means and intervals together."""
    ends = [end for e in estimates for end in (e.mean, e.low, e.high) if end is not None]
    return Span(min(ends), max(ends))


def interval(best: Estimate, span: Span) -> Html:
    """A mean with its interval; a mean without one is hollow."""
    return _strip([], *_mean(best, span))


def difference(entry: Entry, cell: Cell) -> Html:
    """Where our interval lies, seen from the published number (the tick): the margin is the band around it."""
    best = cell.estimate
    if best is None or entry.rules is None or entry.rules.margin is None or entry.published is None:
        return Html()
    margin = entry.rules.margin
    middle, size = margin.scaled(entry.published), margin.at(entry.published)
    span = Span(middle - REACH * size, middle + REACH * size)
    left, right = span.place(middle - size), span.place(middle + size)
    band = leaf("rect", cls="band", x=_short(left), y=1, width=_short(right - left), height=HEIGHT - 2)
    tick = leaf("path", cls="tick", d=f"M{_short(span.place(middle))} 1V{HEIGHT - 1}")
    return _strip([band, tick], *_mean(_scaled(best, margin), span))


def _scaled(best: Estimate, margin: Margin) -> Estimate:
    """An estimate on the scale on which its margin compares."""
    low, high = (
        None if end is None or (margin.is_log and end <= 0) else margin.scaled(end)
        for end in (best.low, best.high)
    )
    return replace(best, mean=margin.scaled(best.mean), low=low, high=high)


def _mean(best: Estimate, span: Span) -> list[Html]:
    """The interval as far as the strip reaches, and the mean on it; an arrow where that is further away."""
    middle, parts = _short(HEIGHT / 2), []
    if best.low is not None and best.high is not None:
        left, right = span.place(best.low), span.place(best.high)
        ends = f"M{_short(left)} 5.5v7M{_short(right)} 5.5v7" if right - left > 8 else ""
        parts.append(leaf("path", cls="whisker", d=f"M{_short(left)} {middle}H{_short(right)}{ends}"))
    if span.low <= best.mean <= span.high:
        shape = "dot" if parts else "dot hollow"
        return [*parts, leaf("circle", cls=shape, cx=_short(span.place(best.mean)), cy=middle, r="3.2")]
    tip, back = (WIDTH - 1, -7) if best.mean > span.high else (1, 7)
    return [*parts, leaf("path", cls="arrow", d=f"M{tip} {middle}l{back} -5v10z")]


def _strip(behind: list[Html], *front: Html) -> Html:
    size: dict[str, Attribute] = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "width": WIDTH, "height": HEIGHT}
    return tag("svg", *behind, *front, cls="strip", aria_hidden="true", **size)


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
