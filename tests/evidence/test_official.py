import json
from dataclasses import asdict

import pytest

from repro.errors import UserError
from repro.evidence.official import SIZES as FILE
from repro.evidence.official import Size, read_sizes
from tests.report.fakes import House

FOUND = [
    Size("other", "other/a", "table1", "base", 65_000_000, 64_600_000, 1_000_000, True, None),
    Size("toy", "toy/b", "table1", "big", 213_000_000, 214_245_376, 1_000_000, False, "Another vocabulary."),
]


def test_the_file_is_read(house: House) -> None:
    assert read_sizes() == []
    (house.results / FILE).write_text(json.dumps([asdict(size) for size in FOUND]), encoding="utf-8")
    assert read_sizes() == FOUND


@pytest.mark.parametrize("text", ["[", '[{"paper": "toy"}]', "[1]"])
def test_a_damaged_file_is_named(house: House, text: str) -> None:
    (house.results / FILE).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=FILE):
        read_sizes()
