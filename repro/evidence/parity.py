"""Comparisons with the official codes, from ``results/parity.json``, which ``python -m tests.parity.write`` makes."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from repro.errors import UserError
from repro.paths import SHARED, results_dirs

FILE = "parity.json"
GOLDEN = SHARED / "tests" / "golden"  # of a checkout
REGENERATE = "`python -m tests.parity.write` compares again and writes the summary"
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{7}")
_PACKAGE = re.compile(r"(?:transformers|torch|fairseq) \d+(?:\.\d+)+")


@dataclass(frozen=True)
class Met:
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
    by_design: tuple[str, ...]
    curve: list[list[float]]

    @property
    def codes(self) -> list[str]:
        """Repositories with commits, or packages with versions."""
        return _REPOSITORY.findall(self.source) or _PACKAGE.findall(self.source)


def read_parity(paper: str | None = None) -> list[Met]:
    """The comparisons of a paper, or of all; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    path = next((file for folder in results_dirs() if (file := folder / FILE).is_file()), None)
    if path is None:
        return []
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        found = [Met(**{**row, "by_design": tuple(row["by_design"])}) for row in rows]
    except (ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is damaged: {error!s:.80}; {REGENERATE}") from None
    return [met for met in found if paper in (None, met.paper)]


def altered(found: Iterable[Met], golden: Path = GOLDEN) -> list[str]:
    """Files that are not those that were compared, a line each; none where a wheel has no golden files."""
    if not golden.is_dir():
        return []
    lines = []
    for met in found:
        path = golden / met.file
        if not path.is_file():
            lines.append(f"tests/golden/{met.file} is missing; {REGENERATE}")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != met.sha256:
            lines.append(f"tests/golden/{met.file} is not the file that was compared; {REGENERATE}")
    return lines
