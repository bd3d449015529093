import io
from pathlib import Path

import pytest
from PIL import Image

from repro.errors import UserError
from repro.evidence.compare import compare
from repro.pictures import Picture, to_line
from repro.report.plots import files
from repro.report.plots.pictures import drawn, pictures
from repro.report.plots.plot import DRAWN
from tests.report.grids import grid, record

PICTURES = [Picture(2, 3, 1, bytes([n, 10, 20, 30, 40, 50])) for n in range(11)]
TEXT = "".join(f"{to_line(picture)}\n" for picture in PICTURES)


def sheets():
    return {plot.name: plot for plot in pictures(compare())}


def image(plot):
    return Image.open(io.BytesIO(files.content(plot, Path("missing")))).convert("L")


def test_a_sheet_per_run_with_pictures(house):
    grid(house, "a", "b")
    record(house, "toy/grid@a", 1, outputs=TEXT)
    record(house, "toy/grid@a", 3, outputs=TEXT)
    record(house, "toy/grid@b", 2, outputs="a translation\n")
    record(house, "toy/grid@b", 1)
    record(house, house.recipe("big"), 1, "paper", outputs=TEXT)
    result = sheets()
    assert set(result) == {
        "toy--grid@a--cpu--drawn-s1.png",
        "toy--grid@a--cpu--drawn-s3.png",
        "toy--big--paper--drawn-s1.png",
    }
    plot = result["toy--grid@a--cpu--drawn-s3.png"]
    assert plot.kind == DRAWN
    assert plot.caption == "toy · grid@a · cpu: 11 pictures drawn from the model, seed 3"


def test_the_sheet_shows_every_picture_large(house):
    record(house, house.recipe("big"), 1, "paper", outputs=TEXT)
    (plot,) = sheets().values()
    sheet = image(plot)
    step, high = 3 * 28 + 1, 2 * 28 + 1  # 84 / 3 = 28 times as large, a line between them
    assert sheet.size == (8 * step + 1, 2 * high + 1)
    there = [sheet.getpixel((1 + step * (n % 8), 1 + high * (n // 8))) for n in range(11)]
    assert there == list(range(11))
    assert sheet.getpixel((step - 1, high - 1)) == 50


def test_large_pictures_keep_their_size(house):
    picture = Picture(100, 90, 3, bytes(27_000))
    record(house, house.recipe("big"), 1, "paper", outputs=to_line(picture))
    (plot,) = sheets().values()
    assert image(plot).size == (92, 102)
    assert "1 picture drawn from the model, seed 1" in plot.caption


def test_only_records_that_count_are_shown(house):
    name = house.recipe("big")
    record(house, name, 1, "paper", outputs=TEXT, config_hash="0" * 64)
    record(house, name, 0, "paper", outputs=TEXT)  # no judged seed
    assert sheets() == {}
    newer = "".join(f"{to_line(picture)}\n" for picture in reversed(PICTURES))
    record(house, name, 1, "paper", outputs=newer, finished="2026-05-01T00:00:00Z")
    later = sheets()["toy--big--paper--drawn-s1.png"].content
    record(house, name, 1, "paper", outputs=TEXT, finished="2026-04-01T00:00:00Z")
    (first,) = sheets().values()  # of a seed, the first record counts, whenever it came
    assert first.content != later


@pytest.mark.parametrize("text", ["", "a\nb\n", "\n" + TEXT, "28x28: a translation about 28x28x1:\n"])
def test_other_outputs_are_no_pictures(house, text):
    made = record(house, house.recipe("big"), 1, "paper", outputs=text)
    assert drawn(made) == []


def test_outputs_that_are_not_there(house):
    made = record(house, house.recipe("big"), 1, "paper", outputs_sha256="0" * 64)
    assert drawn(made) == []


@pytest.mark.parametrize(
    ("text", "words"), [(TEXT + "and a remark\n", "no picture in"), ("2x3x1:eNpj\n", "does not have 6 bytes")]
)
def test_damaged_pictures_are_named(house, text, words):
    record(house, house.recipe("big"), 1, "paper", outputs=text)
    with pytest.raises(UserError, match=rf"paper-s1-.*\.outputs\.txt: .*{words}"):
        sheets()
