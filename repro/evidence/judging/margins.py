"""Margins: how close two numbers must be to count as equal."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

from repro.errors import UserError

# The default margin of a unit is that of the first of these words in it.
DEFAULTS = (
    ("perplexity", "1%"), ("bits", 0.02), ("bleu", 0.5), ("percent", 1.0), ("%", 1.0), ("accuracy", 1.0),
    ("times", "x1.25"),
)  # fmt: skip


@dataclass(frozen=True)
class Margin:
    """Numbers closer than this count as equal.

    Attributes:
        size: in the metric's unit; a share of the published number; or a factor.
        kind: ``absolute``, ``percent`` or ``factor``.
        date: when it was set, ISO 8601; empty for a unit's default.
        reason: why it is not the unit's default; empty where it is.
    """

    size: float
    kind: str
    date: str = ""
    reason: str = ""

    @property
    def is_log(self) -> bool:
        """Whether numbers are compared by their logarithms."""
        return self.kind == "factor"

    def width_at(self, reference: float) -> float:
        """The margin around a number, on the scale of :meth:`scaled`."""
        if self.kind == "percent":
            return abs(reference) * self.size / 100
        return math.log(self.size) if self.is_log else self.size

    def scaled(self, value: float) -> float:
        """A number on the scale on which it is compared: its logarithm where the margin is a factor."""
        return math.log(value) if self.is_log else value

    def is_default(self, unit: str) -> bool:
        """Whether it is the default margin of a unit."""
        usual = default_margin(unit)
        return usual is not None and (self.size, self.kind) == (usual.size, usual.kind)

    def __str__(self) -> str:
        shapes = {"absolute": "{:g}", "percent": "{:g} %", "factor": "x{:g}"}
        return shapes[self.kind].format(self.size)


def default_margin(unit: str) -> Margin | None:
    """The margin of a unit: 1 point of accuracy, 0.5 BLEU, 1 % of a perplexity, 0.02 bits, a factor of 1.25."""
    return next((_sized(size) for word, size in DEFAULTS if word in unit.lower()), None)


def parse_margin(declared: object) -> Margin | None:
    """Reads ``{size: 0.5 | 1% | x1.25, set: DATE[, reason: TEXT]}``; None stays None.

    Raises:
        ValueError: another form.
    """
    if declared is None or isinstance(declared, Margin):
        return declared
    required, known = {"size", "set"}, {"size", "set", "reason"}
    if not isinstance(declared, Mapping) or not required <= declared.keys() <= known:
        raise ValueError(f"margin {declared!r}: write it like {{size: 0.5, set: '2026-11-22'}}")
    margin = _sized(declared["size"])
    if margin is None:
        raise ValueError(f"margin {declared['size']!r} must be above 0: 0.5, 1% or x1.25")
    try:
        day = date.fromisoformat(str(declared["set"])).isoformat()
    except ValueError:
        raise ValueError(
            f"margin was set on {declared['set']!r}; write the date, like '2026-11-22'"
        ) from None
    return Margin(margin.size, margin.kind, day, str(declared.get("reason") or ""))


def _sized(size: object) -> Margin | None:
    text = str(size).strip()
    kind = "percent" if text.endswith("%") else "factor" if text.startswith("x") else "absolute"
    try:
        number = float(text.strip("%x"))
    except ValueError:
        return None
    good = math.isfinite(number) and number > (1 if kind == "factor" else 0)
    return Margin(number, kind) if good else None


def check_date(margin: Margin | None, unit: str, began: datetime, place: str) -> None:
    """Refuses a margin of our own choice that is younger than the runs it judges.

    Args:
        margin: None and the default of the unit pass.
        began: when the first of these runs began.
        place: whose margin it is, for the message.

    Raises:
        UserError: names both dates.
    """
    first = began.date().isoformat()
    if margin is None or margin.is_default(unit) or margin.date <= first:
        return
    usual = default_margin(unit)
    remedy = f"take {usual}" if usual else "take one that was set before"
    raise UserError(
        f"{place}: margin {margin} was set on {margin.date}, after a run began on {first}; {remedy}"
    )
