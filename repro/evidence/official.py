"""Comparisons with the papers' own codes and counts, from two files that ``tests/parity`` makes.

``results/parity.json`` holds comparisons with official codes (``python -m tests.parity.write``), ``results/sizes.json``
parameter counts beside the printed ones (``python -m tests.parity.sizes``).
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro.files import read_rows
from repro.paths import SHARED

PARITY, SIZES = "parity.json", "sizes.json"
GOLDEN = SHARED / "tests" / "golden"  # of a checkout
REGENERATE = "`python -m tests.parity.write` compares again and writes the summary"
RECOUNT = "`python -m tests.parity.sizes` counts again and writes the file"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}")
_PACKAGE = re.compile(r"(?:transformers|torch|fairseq) \d+(?:\.\d+)+")


@dataclass(frozen=True)
class CodeComparison:
    """A file of numbers of an official code, compared with ours.

    Attributes:
        paper: key of the paper.
        file: below ``tests/golden``.
        sha256: of the file that was compared.
        source: repository, commit and files of the official code.
        updates: of training; 0 for a single pass.
        differences: the largest by kind: ``outputs``, ``gradients``, ``losses``, ``norms``, ``rates``, ``weights``, ...
        by_design: what differs on purpose and was left out of the comparison.
        curve: loss of every update, theirs and ours; empty for a single pass.
    """

    paper: str
    file: str
    sha256: str
    source: str
    updates: int
    differences: dict[str, float]
    by_design: list[str]
    curve: list[list[float]]

    @property
    def codes(self) -> list[str]:
        """Repositories with commits, or packages with versions."""
        return _REPOSITORY.findall(self.source) or _PACKAGE.findall(self.source)


@dataclass(frozen=True)
class Size:
    """The parameter count of an experiment at the paper's scale beside that of a published row that it reproduces.

    Attributes:
        published: as printed.
        ours: of the whole network; shared parameters count once.
        rounded_to: the unit to which the printed count was rounded.
        agrees: whether ours lies within half of that unit.
        explanation: why ours differs; None where it agrees, or where no reason is known.
    """

    paper: str
    experiment: str
    table: str
    row: str
    published: int
    ours: int
    rounded_to: int
    agrees: bool
    explanation: str | None


def read_parity(paper: str | None = None) -> list[CodeComparison]:
    """The comparisons of a paper, or of all; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    return [one for one in read_rows(PARITY, REGENERATE, CodeComparison) if paper in (None, one.paper)]


def read_sizes() -> list[Size]:
    """The counts of all papers; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    return read_rows(SIZES, RECOUNT, Size)


def largest(comparisons: Iterable[CodeComparison], *kinds: str) -> float | None:
    """The largest difference of these kinds; None where no comparison has one."""
    found = [one.differences[kind] for one in comparisons for kind in kinds if kind in one.differences]
    return max(found, default=None)


def altered(comparisons: Iterable[CodeComparison], golden: Path = GOLDEN) -> list[str]:
    """Returns a line for each file that changed after the comparison; none in a wheel, which has no golden files."""
    if not golden.is_dir():
        return []
    lines = []
    for comparison in comparisons:
        path = golden / comparison.file
        if not path.is_file():
            lines.append(f"tests/golden/{comparison.file} is missing; {REGENERATE}")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != comparison.sha256:
            lines.append(f"tests/golden/{comparison.file} is not the file that was compared; {REGENERATE}")
    return lines
