"""Declarations beside the published numbers by which runs are judged. ``docs/results.md`` explains the terms.

The keys of :data:`KEYS` may stand with a metric, with a row (for all of its numbers) and in a row's ``cells`` (for one
number); the narrower place wins.
"""

import datetime
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.errors import UserError, nearest
from repro.evidence.derived import Derivation, parse_derivation
from repro.record import RunRecord

CLASSES = ("trained", "computed", "timed", "ratio", "derived")
JUDGED = ("trained", "ratio", "computed")  # classes that need a margin
KEYS = (
    "class", "margin", "chance", "ceiling", "updates", "noise", "sampled", "device", "same_as", "counted",
    "configuration", "no_recipe", "derived",
)  # fmt: skip
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
    """

    size: float
    kind: str
    date: str = ""

    @property
    def is_log(self) -> bool:
        """Whether numbers are compared by their logarithms."""
        return self.kind == "factor"

    def at(self, reference: float) -> float:
        """The margin around a number, on the scale of :meth:`scaled`."""
        if self.kind == "percent":
            return abs(reference) * self.size / 100
        return math.log(self.size) if self.is_log else self.size

    def scaled(self, value: float) -> float:
        """A number on the scale on which it is compared: its logarithm where the margin is a factor."""
        return math.log(value) if self.is_log else value

    def __str__(self) -> str:
        return {"absolute": f"{self.size:g}", "percent": f"{self.size:g} %", "factor": f"x{self.size:g}"}[
            self.kind
        ]


@dataclass(frozen=True)
class Noise:
    """The spread that a paper prints: the sample standard deviation over a number of runs."""

    sd: float
    runs: int


@dataclass(frozen=True)
class Rules:
    """How one published number is judged.

    Attributes:
        kind: one of :data:`CLASSES`.
        margin: None where the class is not judged.
        chance: the score of guessing.
        ceiling: a score at which fewer updates than the paper's are no objection.
        updates: that the paper trained for; None where it is not known, and for timings, which have no such budget.
        updates_unknown: why, in the words of the published file, which gives them in place of a number.
        noise: the paper's printed spread.
        sampled: items of the random sample that the paper scored, where it is another sample than ours.
        device: ``cpu``, ``gpu`` or ``tpu``: what the paper timed on.
        same_as: (table, row, metric) of the same measurement elsewhere in the paper.
        counted: whether the number belongs to the paper's denominator, if confirmed and measured nowhere else.
        configuration: ``ours`` where the authors released none, else ``theirs``.
        no_recipe: why there is no recipe.
        derived: how the number is computed from the records behind others.
    """

    kind: str
    margin: Margin | None = None
    chance: float | None = None
    ceiling: float | None = None
    updates: int | None = None
    updates_unknown: str | None = None
    noise: Noise | None = None
    sampled: int | None = None
    device: str | None = None
    same_as: tuple[str, str, str] | None = None
    counted: bool = False
    configuration: str = "theirs"
    no_recipe: str | None = None
    derived: Derivation | None = None


def default_margin(unit: str) -> Margin | None:
    """The margin of a unit: 1 point of accuracy, 0.5 BLEU, 1 % of a perplexity, 0.02 bits, a factor of 1.25."""
    return next((_sized(size) for word, size in DEFAULTS if word in unit.lower()), None)


def check_date(margin: Margin | None, unit: str, records: Iterable[RunRecord], where: str) -> None:
    """Refuses a margin of our own choice that is younger than the runs it judges.

    Args:
        margin: None and the default of the unit pass.
        records: those that are judged.
        where: whose margin it is, for the message.

    Raises:
        UserError: names both dates.
    """
    usual = default_margin(unit)
    first = min((record.finished[:10] for record in records), default="")
    if margin is None or (usual and (margin.size, margin.kind) == (usual.size, usual.kind)):
        return
    if first and margin.date > first:
        remedy = f"take {usual}" if usual else "take one that was set before"
        raise UserError(
            f"{where}: margin {margin} was set on {margin.date}, after a run of {first}; {remedy}"
        )


def parse_rules(
    declared: Mapping[str, Any], metric: str, unit: str, where: str, own: bool, row: str = ""
) -> Rules:
    """Reads the keys that hold for one number.

    Args:
        declared: the keys of :data:`KEYS` that its metric, row and cell give, merged.
        metric: its name.
        unit: its unit.
        where: file, table and row, for messages.
        own: whether it counts where ``counted`` does not say.
        row: id of its row.

    Raises:
        UserError: an unknown class; a margin that is missing, not positive, undated or unexplained.
    """
    kind = declared.get("class")
    if kind not in CLASSES:
        close = nearest(str(kind), CLASSES)
        raise UserError(f"{where}: {metric}: class {kind!r} is not one of {', '.join(CLASSES)}{close}")
    noise = declared.get("noise")
    spread = None if noise is None else Noise(float(noise["sd"]), int(noise["runs"]))
    margin = parse_margin(declared.get("margin"), unit, f"{where}: {metric}", spread)
    if margin is None and kind in JUDGED:
        usual = default_margin(unit)
        hint = f"; the default of {unit!r} is {usual}" if usual else ""
        raise UserError(f"{where}: {metric}: a {kind} number needs `margin: {{size: ..., set: DATE}}`{hint}")
    updates = declared.get("updates")
    return Rules(
        kind=kind,
        margin=margin,
        noise=spread,
        updates=None if isinstance(updates, str) else updates,
        updates_unknown=updates if isinstance(updates, str) else None,
        same_as=_reference(declared.get("same_as"), metric, where),
        counted=bool(declared.get("counted", own)),
        derived=parse_derivation(declared.get("derived"), row, f"{where}: {metric}"),
        **{key: declared[key] for key in _PLAIN if key in declared},
    )


_PLAIN = ("chance", "ceiling", "sampled", "device", "configuration", "no_recipe")


def parse_margin(declared: object, unit: str, where: str, noise: Noise | None = None) -> Margin | None:
    """Reads ``{size, set, reason?}``; None where nothing is declared.

    Raises:
        UserError: see :func:`parse_rules`.
    """
    if declared is None:
        return None
    if not isinstance(declared, Mapping) or "size" not in declared:
        raise UserError(f"{where}: margin {declared!r}: write it like {{size: 0.5, set: '2026-11-22'}}")
    margin = _sized(declared["size"])
    if margin is None:
        raise UserError(f"{where}: margin {declared['size']!r} must be above 0: 0.5, 1% or x1.25")
    date = str(declared.get("set"))
    try:
        datetime.date.fromisoformat(date)
    except ValueError:
        raise UserError(f"{where}: margin was set on {date!r}; write the date, like '2026-11-22'") from None
    usual = default_margin(unit)
    twice = noise is not None and margin.kind == "absolute" and math.isclose(margin.size, 2 * noise.sd)
    if margin != usual and not twice and not declared.get("reason"):
        raise UserError(
            f"{where}: margin {margin} is not the default of {unit!r} ({usual}): add `reason: ...`"
        )
    return Margin(margin.size, margin.kind, date)


def _sized(size: object) -> Margin | None:
    """``0.5``, ``1%`` or ``x1.25``; None for anything else."""
    text = str(size).strip()
    kind = "percent" if text.endswith("%") else "factor" if text.startswith("x") else "absolute"
    try:
        number = float(text.strip("%x"))
    except ValueError:
        return None
    good = math.isfinite(number) and number > (1 if kind == "factor" else 0)
    return Margin(number, kind) if good else None


def _reference(value: object, metric: str, where: str) -> tuple[str, str, str] | None:
    """``table/row`` or ``table/row/metric``."""
    if value is None:
        return None
    table, _, row_and_metric = str(value).partition("/")
    row, _, name = row_and_metric.partition("/")
    if not (table and row):
        raise UserError(f"{where}: same_as {value!r}: write table/row, or table/row/metric")
    return table, row, name or metric
