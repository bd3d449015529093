"""What comparisons with official codes came to; ``python -m tests.parity.write`` keeps it for ``repro parity``."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# Tolerances of whole training runs: losses, gradient norms, learning rates, final weights, scores of an evaluation.
TRAINING = {"losses": 1e-10, "norms": 1e-9, "rates": 1e-12, "weights": 1e-9, "evaluation": 1e-10}


@dataclass(frozen=True)
class Comparison:
    """One golden file, met.

    Attributes:
        paper: whose recipe or model it is, as in ``configs/``.
        file: below ``tests/golden``.
        sha256: of the file.
        source: repository, commit and files of the official code.
        updates: of training; 0 for a single pass.
        differences: the largest by kind: ``losses``, ``outputs``, ``gradients``, ``weights``, ...
        by_design: what differs on purpose and is left out of the comparison, a line each.
    """

    paper: str
    file: str
    sha256: str
    source: str
    updates: int
    differences: Mapping[str, float]
    by_design: tuple[str, ...] = ()


COMPARISONS: list[Comparison] = []  # of this process


def check(
    paper: str,
    path: Path,
    source: str,
    differences: Mapping[str, float],
    tolerances: Mapping[str, float] = TRAINING,
    updates: int = 0,
    by_design: Sequence[str] = (),
) -> None:
    """Asserts that every difference is below its tolerance, and notes the comparison."""
    for kind, value in differences.items():
        assert value < tolerances[kind], f"{path.name}: {kind} differ by {value:.3g}, {dict(differences)}"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    file = f"{path.parent.name}/{path.name}" if path.parent.name == "trajectories" else path.name
    COMPARISONS.append(Comparison(paper, file, digest, source, updates, dict(differences), tuple(by_design)))
