"""Pictures among the decoded outputs of a run, as one sheet for people to look at."""

from repro.contact_sheet import from_line, to_png
from repro.errors import UserError

SIDE = 112  # pixels of the longer side of each picture, at least


def sheet_of(outputs: str | None) -> bytes | None:
    """A PNG file with all pictures of some outputs; None if a line is not a picture, or there is none.

    Args:
        outputs: as :meth:`repro.tasks.task.Task.outputs` gives them, one line each.
    """
    lines = (outputs or "").splitlines()
    try:
        pictures = [from_line(line) for line in lines]
        if not pictures:
            return None
        return to_png(pictures, scale=max(1, SIDE // max(pictures[0].height, pictures[0].width)))
    except UserError:  # text, or pictures of several shapes
        return None
