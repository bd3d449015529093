"""Seeds: the judged ones of a recipe, those for tuning, and how a user names them. Needs no torch.

Settings are found with seeds from :data:`TUNING` on. The judged seeds of a recipe are written down before they run, in
its header: ``seeds: 1-3``.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from repro.errors import UserError

TUNING = 100  # seeds from here on are for finding settings; their records are never judged
JUDGED = (1, 2, 3, 4, 5)  # of a recipe that declares none
LARGEST = 2**32 - 1
MOST = 10_000  # the most seeds that may be named at once
_PART = re.compile(r"\s*([0-9]{1,10})(?:-([0-9]{1,10}))?\s*")


@dataclass(frozen=True)
class SeedChoice:
    """A user's choice of seeds.

    Attributes:
        count: number of judged seeds to take, from the first; all where the recipe has fewer.
        named: the seeds, whatever the recipe declares; then ``count`` is 0.
    """

    count: int = 0
    named: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> "SeedChoice":
        """The value of ``--seeds``: ``3`` is a count, ``11-15`` and ``1-3,7`` name seeds (``7-7`` names one).

        Raises:
            UserError: a count of 0, and the errors of :func:`parse_seeds`.
        """
        if not re.fullmatch("[0-9]{1,10}", text):
            return cls(named=parse_seeds(text))
        if int(text) < 1:
            raise UserError(f"--seeds must be at least 1, not {text}")
        if int(text) >= TUNING:
            raise UserError(
                f"--seeds {text} is a number of judged seeds; write {text}-{text} for seed {text}"
            )
        return cls(int(text))

    def select(self, judged: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the chosen seeds of a recipe with these judged seeds."""
        return self.named or judged[: self.count]


def require_seed(seed: int) -> None:
    """Refuses a seed that no generator takes.

    Raises:
        UserError: names the seed and the range.
    """
    if not 0 <= seed <= LARGEST:
        raise UserError(f"--seed must be from 0 to {LARGEST}, not {seed}")


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds in the order named: ``11-15`` or ``1-3,7``.

    Raises:
        UserError: something else, a range that runs backwards, a seed that is repeated or too large.
    """
    seeds: list[int] = []
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if not match:
            raise UserError(f"seeds {text!r}: {part!r} is neither a seed nor a range; write 11-15 or 1-3,7")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise UserError(f"seeds {text!r}: {part!r} runs backwards; write {last}-{first}")
        if last > LARGEST or last - first + len(seeds) >= MOST:
            raise UserError(f"seeds {text!r}: at most {MOST} seeds, none above {LARGEST}")
        seeds.extend(range(first, last + 1))
    seed, times = Counter(seeds).most_common(1)[0]
    if times > 1:
        raise UserError(f"seeds {text!r}: {seed} is given {times} times; name each seed once")
    return tuple(seeds)


def show_ranges(numbers: Iterable[int]) -> str:
    """Numbers in the form that :func:`parse_seeds` reads: ``(1, 2, 3, 7)`` becomes ``1-3,7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in runs)


def judged_seeds(experiment: str, header: Mapping[str, Any]) -> tuple[int, ...]:
    """The judged seeds of a recipe: the text of its key ``seeds``; :data:`JUDGED` without one.

    Args:
        experiment: name, for messages.

    Raises:
        UserError: no range or list, or tuning seeds.
    """
    value = header.get("seeds")
    if value is None:
        return JUDGED
    if not isinstance(value, str):
        raise UserError(f"{experiment}: seeds: {value!r} is not a range or list of seeds; write 1-3 or 1-3,7")
    try:
        seeds = parse_seeds(value)
    except UserError as error:
        raise UserError(f"{experiment}: seeds: {error}") from None
    if max(seeds) >= TUNING:
        raise UserError(
            f"{experiment}: seeds: {value!r}: seeds from {TUNING} on are for tuning; name lower ones"
        )
    return seeds


def unjudged(experiment: str, seeds: Iterable[int], judged: Sequence[int]) -> list[str]:
    """Returns lines about seeds whose records are kept but not judged, and about tuning seeds."""
    unjudged_seeds = [seed for seed in seeds if seed not in judged]
    others, tuning = [s for s in unjudged_seeds if s < TUNING], [s for s in unjudged_seeds if s >= TUNING]
    lines = []
    if others:
        why = f"not among its judged seeds {show_ranges(judged)}"
        lines.append(f"{experiment}, seed {show_ranges(others)}: {why}; not judged")
    if tuning:
        lines.append(f"{experiment}, seed {show_ranges(tuning)}: for tuning (from {TUNING} on); not judged")
    return lines
