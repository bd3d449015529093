"""The published cells that an experiment reproduces."""

import os
from pathlib import Path

import pytest

from repro.errors import UserError
from repro.recipe import load_recipe, reproduced

PUBLISHED = """
tables:
  - id: table1
    ours:
      - {run: 'toy/grid@{row}', measured: {bleu: test/bleu, ppl: val/ppl}}
      - {run: toy/base, row: big, measured: {bleu: test/bleu}, scales: [paper]}
      - {run: toy/base, row: big, measured: {bleu: test/other}, scales: [small, cpu]}
    rows: [{id: small}, {id: big}]
  - {id: table2, rows: [{id: small}]}
"""


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPRO_RESULTS", str(tmp_path / "results"))
    path = tmp_path / "results" / "published" / "toy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(PUBLISHED)
    return path


def cell(row: str, metric: str, measured: str) -> dict[str, object]:
    return {"table": "table1", "row": row, "metric": metric, "measured": measured}


def test_a_pattern_stands_for_the_rows_of_its_table(published: Path) -> None:
    assert reproduced("toy/grid@big", "cpu") == [
        cell("big", "bleu", "test/bleu"),
        cell("big", "ppl", "val/ppl"),
    ]
    assert reproduced("toy/grid@other", "paper") == []
    assert reproduced("none/base", "paper") == []


def test_scales(published: Path) -> None:
    assert reproduced("toy/base", "paper") == [cell("big", "bleu", "test/bleu")]
    assert reproduced("toy/base", "cpu") == [cell("big", "bleu", "test/other")]
    assert reproduced("toy/base", "gpu") == []


def test_a_resolved_recipe_names_its_cells_and_its_hash_does_not(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(tmp_path / "configs"))
    (tmp_path / "configs" / "toy").mkdir(parents=True)
    (tmp_path / "configs" / "toy" / "base.yaml").write_text("trainer: {max_steps: 1}\n")
    before = load_recipe("toy/base")
    assert [cell["metric"] for cell in before.config["reproduces"]] == ["bleu"]
    published.write_text("tables: []\n")
    os.utime(published, ns=(1, 1))
    after = load_recipe("toy/base")
    assert (after.config["reproduces"], after.hash8) == ([], before.hash8)


@pytest.mark.parametrize(
    "text", ["[]", "tables: [3]", "tables: [{ours: [{run: x, row: y}], id: t, rows: []}]"]
)
def test_a_malformed_file_is_refused(published: Path, text: str) -> None:
    published.write_text(text)
    os.utime(published, ns=(2, 2))
    with pytest.raises(UserError, match=r"toy\.yaml"):
        reproduced("toy/base", "paper")
