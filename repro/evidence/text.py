"""Plain words and numbers for every output format."""

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from repro.evidence.judging.statistics import Estimate
from repro.grouping import grouped

Owner = TypeVar("Owner")
NOTHING = "–"  # noqa: RUF001 - a dash in an empty cell


def clean(text: object) -> str:
    """Makes one line without escape sequences, line breaks, text-direction overrides and other control characters.

    Labels, notes and deviations come from files that others may have written; they end up in terminals.
    """
    words = str(text)
    if not words.isprintable():  # most are: tables hold tens of thousands of them
        words = "".join(_visible(c) for c in words)
    return " ".join(words.split())


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Zl", "Zp", "Zs") or character in "\t\n\r\v\f":
        return " "
    return "\N{REPLACEMENT CHARACTER}" if category in ("Cc", "Cf", "Cs", "Co") else character


def number(value: float | None, decimals: int | None = None) -> str:
    """A measured number with four digits that matter, or with ``decimals``."""
    if value is None:
        return NOTHING
    if decimals is None and (abs(value) >= 1e6 or 0 < abs(value) < 1e-4):
        return f"{value:.3e}"
    return f"{value:,.{digits_after(value) if decimals is None else decimals}f}"


def printed(value: float | None) -> str:
    """A published number, no digit added."""
    return NOTHING if value is None else f"{value:.10g}"


def digits_after(value: float) -> int:
    """Decimals that show four digits of a number, at most four."""
    return 4 if value == 0 else max(0, min(4, 3 - math.floor(math.log10(abs(value)))))


def plus_minus(best: Estimate | None) -> str:
    """``27.11 ± 0.19``, or the bare mean where one run gives no spread."""
    if best is None:
        return NOTHING
    half = best.half_width
    if not half or abs(best.mean) >= 1e6 or 0 < abs(best.mean) < 1e-4:
        return number(best.mean) + (f" ± {half:.1e}" if half else "")
    # One more decimal where the interval is finer than four digits of the mean can show.
    decimals = max(digits_after(best.mean), min(6, 1 - math.floor(math.log10(half))))
    return f"{number(best.mean, decimals)} ± {number(half, decimals)}"


def signed(value: float | None, decimals: int | None = None) -> str:
    """A difference with its sign, never a negative zero; see :func:`number`."""
    if value is None:
        return NOTHING
    digits = number(abs(value), decimals)
    return ("−" if value < 0 and digits.strip("0.,") else "+") + digits  # noqa: RUF001


def count(value: int | None) -> str:
    """``65,000,000``."""
    return NOTHING if value is None else f"{value:,}"


def duration(seconds: float) -> str:
    """``3 h 05 min``, ``2 min 07 s`` or ``8.1 s``."""
    whole = round(seconds)
    if seconds < 60:
        return f"{seconds:.1f} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(n_bytes: float) -> str:
    """``1.5 GiB``."""
    value, unit = float(n_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


def mapping(pairs: Mapping[str, object]) -> str:
    """``beam 4, signature nrefs:1|case:mixed``, in the order of the keys."""
    words = [
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)}"
        for key, value in sorted(pairs.items())
    ]
    return ", ".join(words) or NOTHING


def by_value(pairs: Iterable[tuple[str, Owner]], listed: Callable[[list[Owner]], str]) -> str:
    """``a100 (big, base); h100 (small)``: the owners of each value; empty where all have the same."""
    owners = grouped(pairs)
    return "; ".join(f"{value} ({listed(own)})" for value, own in owners.items()) if len(owners) > 1 else ""


def word(value: object) -> str:
    """``yes`` or ``no`` for a truth value, else the value."""
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def plural(n: int, noun: str) -> str:
    """``1 seed``, ``3 seeds``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
