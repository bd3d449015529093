"""What is said of comparisons with official codes follows from the tests' own summary."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from repro.evidence.official import GOLDEN, CodeComparison, altered, read_parity
from repro.evidence.official import PARITY as FILE
from repro.evidence.text import NOTHING
from repro.report import parity
from repro.report.parity import document, summary
from repro.report.plots.chart import Chart
from tests.report.fakes import House
from tests.workshop import call


def met(file: str, paper: str = "toy", updates: int = 0, **differences: float) -> CodeComparison:
    digest = hashlib.sha256(file.encode()).hexdigest()
    source = "some/code@0123456789 train.py; torch 2.13.0+cpu"
    curve = [[3.0, 2.0], [3.0, 2.0]] if updates else []
    return CodeComparison(
        paper, file, digest, source, updates, differences, ["theirs rounds"] if updates else [], curve
    )


FOUND = [
    met("a.npz", outputs=1e-16, gradients=3e-12),
    met("b.npz", outputs=4e-15),
    met("c.npz", updates=8, losses=2e-16, weights=7e-13, rates=0.0),
    met("d.npz", "other", outputs=0.0),
]


def write(folder: Path, found: list[CodeComparison]) -> None:
    rows = [vars(one) for one in found]
    (folder / FILE).write_text(json.dumps(rows), encoding="utf-8")


def test_a_line_has_the_largest_difference_of_each_kind() -> None:
    other, toy = summary(FOUND).rows
    assert toy == ("toy", "some/code@0123456", "2", "4e-15", "3e-12", "1", "8", "2e-16", "7e-13")
    assert other[3:] == ("0", NOTHING, "0", "0", NOTHING, NOTHING)


def test_the_document_names_every_file_and_what_differs_by_design() -> None:
    said = str(document(FOUND))
    for one in FOUND:
        assert one.file in said
    assert said.count("theirs rounds") == 1


def test_the_picture_has_a_panel_for_each_paper_with_a_training_run() -> None:
    plot = parity.picture(FOUND, [("other", "Other"), ("toy", "Toy")])
    assert plot is not None
    assert isinstance(plot.content, Chart)
    (panel,) = plot.content.panels
    assert [line.points for line in panel.lines] == [[(1, 3.0), (2, 2.0)]] * 2
    assert "some/code@0123456" in panel.title
    assert "weights 7e-13" in panel.title
    assert parity.picture(FOUND[:2], [("toy", "Toy")]) is None


def test_the_file_is_read_by_paper(house: House) -> None:
    assert read_parity() == []
    write(house.results, FOUND)
    assert read_parity() == FOUND
    assert read_parity("other") == FOUND[3:]
    (house.results / FILE).write_text('[{"paper": "toy"}]', encoding="utf-8")
    call("parity").refused("parity.json")


def test_an_altered_file_is_named(tmp_path: Path) -> None:
    for one in FOUND[:2]:
        (tmp_path / one.file).write_bytes(one.file.encode())
    assert altered(FOUND[:2], tmp_path) == []
    (tmp_path / "b.npz").write_bytes(b"b.npy")
    assert ["b.npz" in line for line in altered(FOUND[:2], tmp_path)] == [True]
    assert ["c.npz" in line for line in altered([FOUND[0], FOUND[2]], tmp_path)] == [True]
    assert altered(FOUND, tmp_path / "wheel") == []


def test_the_committed_summary_is_of_the_committed_files() -> None:
    found = read_parity()
    assert altered(found) == []
    named = {one.file for one in found}
    assert {p.relative_to(GOLDEN).as_posix() for p in (GOLDEN / "trajectories").glob("*.npz")} <= named
    trained = {one.paper for one in found if one.updates or "trax" in one.file}
    assert len(trained) >= 8


def test_the_command_fails_where_a_file_was_altered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = call("parity", "shortformer")
    assert said.code == 0, said.err
    assert "shortformer_staged.npz" in said.out
    rows: list[dict[str, Any]] = json.loads(call("parity", "--json").out)
    assert {row["paper"] for row in rows} > {"shortformer", "admin"}
    monkeypatch.setattr(altered, "__defaults__", (tmp_path,))
    said = call("parity", "shortformer")
    assert said.code == 1
    assert "shortformer_staged.npz" in said.err
