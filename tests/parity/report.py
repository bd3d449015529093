"""Results of comparisons with official codes; ``python -m tests.parity.write`` keeps it for ``repro parity``."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

GOLDEN = Path(__file__).parent.parent / "golden"
# Tolerances of whole training runs: losses, gradient norms, learning rates, final weights, scores of an evaluation.
TRAINING = {"losses": 1e-10, "norms": 1e-9, "rates": 1e-12, "weights": 1e-9, "evaluation": 1e-10}
# The paper of a file of a single pass, by the beginning of its name.
PAPERS = {
    "admin": "admin",
    "fpt": "frozen-pretrained-transformer",
    "gpt2": "frozen-pretrained-transformer",
    "infty": "infinity-former",
    "label": "attention-is-all-you-need",
    "linear": "linear-transformer",
    "positions": "attention-is-all-you-need",
    "reformer": "reformer",
    "short": "shortformer",
    "transformer": "attention-is-all-you-need",
    "txl": "transformer-xl",
}
KINDS = {"out": "outputs", "grad": "gradients"}


@dataclass
class Comparison:
    """One golden file, met.

    Attributes:
        paper: whose recipe or model it is, as in ``configs/``.
        file: below ``tests/golden``.
        sha256: of the file.
        source: repository, commit and files of the official code.
        updates: of training; 0 for a single pass.
        by_design: what differs on purpose and is left out of the comparison, a line each.
        differences: the largest by kind: ``losses``, ``outputs``, ``gradients``, ``weights``, ...
    """

    paper: str
    file: str
    sha256: str
    source: str
    updates: int = 0
    by_design: tuple[str, ...] = ()
    differences: dict[str, float] = field(default_factory=dict)

    def note(self, kind: str, difference: float) -> None:
        """Keeps the largest difference of a kind."""
        self.differences[kind] = max(difference, self.differences.get(kind, 0.0))


COMPARISONS: dict[str, Comparison] = {}  # of this process, by file
CURVES: dict[str, tuple[list[float], list[float]]] = {}  # theirs and ours, by the file's name


def comparison(paper: str, path: Path, source: str) -> Comparison:
    """The comparison of a golden file."""
    file = path.relative_to(GOLDEN).as_posix()
    if file not in COMPARISONS:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        COMPARISONS[file] = Comparison(paper, file, digest, source)
    return COMPARISONS[file]


def check(
    paper: str,
    path: Path,
    source: str,
    differences: Mapping[str, float],
    tolerances: Mapping[str, float] = TRAINING,
    updates: int = 0,
    by_design: Sequence[str] = (),
) -> None:
    """Asserts that every difference is below its tolerance, and notes it."""
    for kind, value in differences.items():
        assert value < tolerances[kind], f"{path.name}: {kind} differ by {value:.3g}, {dict(differences)}"
    result = comparison(paper, path, source)
    result.updates = max(result.updates, updates)
    result.by_design = tuple(dict.fromkeys([*result.by_design, *by_design]))
    for kind, value in differences.items():
        result.note(kind, value)


def keep_curve(path: Path, theirs: Tensor, ours: Tensor) -> None:
    """Keeps the losses of a training run for the figure; of several runs on one file, those nearest to theirs.

    Args:
        path: of the golden file.
        theirs: loss of every update, ``(N,)``.
        ours: the same of our training.
    """
    kept = CURVES.get(path.name)
    if kept is None or float((ours - theirs).abs().max()) < max(
        abs(a - b) for a, b in zip(*kept, strict=True)
    ):
        CURVES[path.name] = (theirs.tolist(), ours.tolist())


class Tolerance(float):
    """A tolerance of a golden file that notes every difference below it: ``assert difference < tolerance``."""

    file: Comparison
    kind: str

    @classmethod
    def of(cls, value: float, file: Comparison, kind: str) -> "Tolerance":
        """A tolerance for one kind of differences of a file."""
        made = cls(value)
        made.file, made.kind = file, kind
        return made

    def __gt__(self, difference: float) -> bool:
        # Python asks the right side of `difference < tolerance` first, since its type is the narrower one
        below = float(difference) < float(self)
        if below:
            self.file.note(self.kind, float(difference))
        return below


def tolerances(path: Path, source: str, values: Mapping[str, float]) -> dict[str, float]:
    """The tolerances of a file of a single pass, by ``out`` and ``grad``."""
    file = comparison(PAPERS[path.stem.partition("_")[0]], path, source)
    return {key: Tolerance.of(value, file, KINDS.get(key, key)) for key, value in values.items()}
