"""Parameter counts beside the published ones, from ``results/sizes.json`` (see ``tests/parity/sizes.py``)."""

import json
from dataclasses import dataclass

from repro.errors import UserError
from repro.paths import results_dirs

FILE = "sizes.json"


@dataclass(frozen=True)
class Size:
    """A published parameter count and that of our recipe.

    Attributes:
        rounded_to: unit of the last digit that the paper prints.
        agrees: whether they are equal at that rounding.
        explanation: why they differ, or None.
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


def read_sizes() -> list[Size]:
    """Every comparison; none where no folder of results has the file.

    Raises:
        UserError: the file is damaged.
    """
    path = next((file for folder in results_dirs() if (file := folder / FILE).is_file()), None)
    try:
        return [Size(**row) for row in json.loads(path.read_text(encoding="utf-8"))] if path else []
    except (ValueError, TypeError) as error:
        raise UserError(
            f"{path} is damaged: {error!s:.80}; `python -m tests.parity.sizes` makes it"
        ) from None
