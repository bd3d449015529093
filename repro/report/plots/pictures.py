"""Pictures that models drew, as contact sheets: from the outputs next to a run's record."""

import hashlib
import re
from pathlib import Path

from repro import text
from repro.contact_sheet import Picture, from_line
from repro.errors import UserError
from repro.evidence.compare import Comparison
from repro.record import RunRecord
from repro.report.plots.plot import DRAWN, Plot, caption, file_name

_PICTURE = re.compile(r"\d{1,5}x\d{1,5}x\d:")  # how a line of repro/contact_sheet.py begins


def pictures(comparison: Comparison, *runs: Path) -> list[Plot]:
    """A sheet ``<paper>--<recipe>[@point]--<scale>--drawn-s<seed>.png`` per record that counts and has pictures.

    Args:
        comparison: the records.
        runs: where they lie, ``results/runs``; earlier folders come first.

    Raises:
        UserError: outputs that are damaged or do not match the record's hash.
    """
    plots = []
    for (experiment, scale), selection in comparison.selections.items():
        for record in selection.used:
            sheet = drawn(record, *runs)
            if sheet:
                words = f"{_counted(sheet)} drawn from the model, seed {record.seed}"
                name = file_name(experiment, scale, f"drawn-s{record.seed}", suffix="png")
                plots.append(Plot(name, DRAWN, caption(experiment, scale, words), sheet))
    return plots


def drawn(record: RunRecord, *runs: Path) -> list[Picture]:
    """The pictures among a run's outputs; none if the first line is not a picture.

    Raises:
        UserError: see :func:`pictures`.
    """
    paths = ((folder / record.path).with_suffix(".outputs.txt") for folder in runs)
    path = next((path for path in paths if path.is_file()), None)
    if record.outputs_sha256 is None or path is None:
        return []
    content = path.read_bytes()
    lines = content.decode(errors="replace").splitlines()
    if not lines or not _PICTURE.match(lines[0]):
        return []
    if hashlib.sha256(content).hexdigest() != record.outputs_sha256:
        raise UserError(f"{path} is not what its record names: its SHA-256 is another; restore the file")
    try:
        drawings = [from_line(line) for line in lines]
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    if len({picture[:3] for picture in drawings}) > 1:
        raise UserError(f"{path}: the pictures of one run must have one shape")
    return drawings


def _counted(pictures: list[Picture]) -> str:
    height, width, channels, _ = pictures[0]
    kind = "in grey" if channels == 1 else "in colour"
    return f"{text.plural(len(pictures), 'picture')} of {height} x {width} pixels {kind}"
