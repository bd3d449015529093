"""Pictures among decoded outputs become one sheet; everything else becomes none."""

import io

import pytest
from PIL import Image

from repro.contact_sheet import Picture, to_line
from repro.tasks.contact_sheets import sheet_of

ONE = to_line(Picture(2, 4, 1, bytes(range(8))))


def test_pictures_become_a_sheet() -> None:
    png = sheet_of(f"{ONE}\n{ONE}\n")
    assert png is not None
    assert Image.open(io.BytesIO(png)).size == (2 * (4 * 28 + 1) + 1, 2 * 28 + 2)


@pytest.mark.parametrize("outputs", [None, "", "a translation\n", f"{ONE}\nwords\n", f"{ONE}\n2x2x1:eNpj\n"])
def test_anything_else_is_no_sheet(outputs: str | None) -> None:
    assert sheet_of(outputs) is None
