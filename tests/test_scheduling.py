"""Sharing tests among processes names files that are there, and keeps together what belongs together."""

import re

import pytest

pytest.importorskip("xdist")

from tests.scheduling import FIRST, UNITS, turn, unit
from tests.workshop import PROJECT

FILES = sorted(path.relative_to(PROJECT).as_posix() for path in (PROJECT / "tests").rglob("test_*.py"))


def test_every_unit_has_files_and_every_file_is_in_one() -> None:
    units = {unit(f"{file}::test_it[a::b]") for file in FILES}
    assert set(FIRST) <= units
    assert set(UNITS) <= units
    assert units - set(UNITS) <= set(FILES)


def test_all_who_ask_the_program_that_forks_ranks_share_it() -> None:
    asks = re.compile(r"\b(forks|runner|streams|bits): (Forks|Runner)\b")
    asking = {file for file in FILES if asks.search((PROJECT / file).read_text())}
    assert len(asking) >= 4
    assert {unit(file) for file in asking} == {"ranks"}


def test_long_units_come_first_and_the_rest_keeps_its_order() -> None:
    ordered = sorted(["tests/a.py::x", "tests/slurm/test_b.py::y", "tests/A.py::z"], key=turn)
    assert ordered == ["tests/slurm/test_b.py::y", "tests/a.py::x", "tests/A.py::z"]
    assert [turn(f"{name}::x") for name in FIRST if name not in UNITS] == [
        i for i, name in enumerate(FIRST) if name not in UNITS
    ]
