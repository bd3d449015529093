"""Parameter counts beside the printed ones, from ``results/sizes.json``; ``python -m tests.parity.sizes`` makes it."""

import json
from dataclasses import dataclass

from repro.errors import UserError
from repro.paths import results_dirs

FILE = "sizes.json"
REGENERATE = "`python -m tests.parity.sizes` counts again and writes the file"


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


def read_sizes(paper: str | None = None) -> list[Size]:
    """The counts of a paper, or of all; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    path = next((file for folder in results_dirs() if (file := folder / FILE).is_file()), None)
    if path is None:
        return []
    try:
        found = [Size(**row) for row in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged: {error!s:.80}; {REGENERATE}") from None
    return [size for size in found if paper in (None, size.paper)]
