"""Pictures that models drew, as contact sheets: from the outputs next to a run's record."""

import re

from repro import text
from repro.errors import UserError
from repro.evidence.compare import Comparison
from repro.paths import records_dirs
from repro.pictures import Picture, from_line
from repro.record import RunRecord
from repro.report.plots.plot import DRAWN, Plot, caption, file_name

_PICTURE = re.compile(r"\d{1,5}x\d{1,5}x\d:")  # how a line of repro/pictures.py begins


def pictures(comparison: Comparison) -> list[Plot]:
    """A sheet ``<paper>--<recipe>[@point]--<scale>--drawn-s<seed>.png`` per record that counts and has pictures.

    Raises:
        UserError: outputs that begin with a picture and are damaged.
    """
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        for record in selection.used:
            if sheet := drawn(record):
                words = f"{text.plural(len(sheet), 'picture')} drawn from the model, seed {record.seed}"
                name = file_name(experiment, scale, f"drawn-s{record.seed}", suffix="png")
                plots.append(Plot(name, DRAWN, caption(experiment, scale, words), sheet))
    return plots


def drawn(record: RunRecord) -> list[Picture]:
    """The pictures among a run's outputs; none if the first line is not a picture.

    Raises:
        UserError: see :func:`pictures`.
    """
    paths = [(folder / record.path).with_suffix(".outputs.txt") for folder in records_dirs()]
    path = next((path for path in paths if record.outputs_sha256 and path.is_file()), None)
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path else []
    try:
        return [from_line(line) for line in lines] if lines and _PICTURE.match(lines[0]) else []
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
