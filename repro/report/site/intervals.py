"""Small drawings of intervals, next to the numbers: the positions of their parts, in pixels."""

from dataclasses import dataclass, replace

from repro.evidence.entries import Cell, Entry
from repro.evidence.rules import Margin
from repro.evidence.statistics import Estimate

WIDTH, HEIGHT, EDGE = 150, 18, 5
REACH = 4.0  # margins to each side that a strip of differences shows


@dataclass(frozen=True)
class Span:
    """The numbers at the left and the right end of a strip."""

    low: float
    high: float

    def place(self, value: float) -> float:
        """The x coordinate of a number in pixels, clipped to the ends."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(EDGE + min(max(share, 0.0), 1.0) * (WIDTH - 2 * EDGE), 1)


@dataclass(frozen=True)
class Strip:
    """A mean with its interval.

    Attributes:
        mean: x coordinate; None where the mean lies beyond an end.
        beyond: ``left`` or ``right`` where it does.
        interval: from and to; None of a single run.
        band: from and to of the margin; None without one.
        tick: of the published number.
    """

    mean: float | None
    beyond: str = ""
    interval: tuple[float, float] | None = None
    band: tuple[float, float] | None = None
    tick: float | None = None


def span_of(estimates: list[Estimate]) -> Span:
    """Of all means and intervals together."""
    ends = [end for e in estimates for end in (e.mean, e.low, e.high) if end is not None]
    return Span(min(ends), max(ends))


def interval(best: Estimate, span: Span) -> Strip:
    """A mean with its interval."""
    ends = None if best.low is None or best.high is None else (span.place(best.low), span.place(best.high))
    if span.low <= best.mean <= span.high:
        return Strip(span.place(best.mean), interval=ends)
    return Strip(None, "right" if best.mean > span.high else "left", ends)


def difference(entry: Entry, cell: Cell) -> Strip | None:
    """Our interval, seen from the published number (the tick): the margin is the band around it."""
    best = cell.estimate
    if best is None or entry.rules is None or entry.rules.margin is None or entry.published is None:
        return None
    margin = entry.rules.margin
    middle, size = margin.scaled(entry.published), margin.at(entry.published)
    span = Span(middle - REACH * size, middle + REACH * size)
    band = (span.place(middle - size), span.place(middle + size))
    return replace(interval(_scaled(best, margin), span), band=band, tick=span.place(middle))


def _scaled(best: Estimate, margin: Margin) -> Estimate:
    """An estimate on the scale on which its margin compares."""
    low, high = (
        None if end is None or (margin.is_log and end <= 0) else margin.scaled(end)
        for end in (best.low, best.high)
    )
    return replace(best, mean=margin.scaled(best.mean), low=low, high=high)
