"""Every recipe under configs/, found by glob: readable, self-contained, buildable, and really trainable."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from repro.recipe import SCALES, Recipe, differing_keys, load_recipe, recipe_files, scales_of
from tests.workshop import PROJECT, STORE, Workshop

CONFIGS = PROJECT / "configs"
FILES = sorted(CONFIGS.glob("*/*.yaml"))
MAX_LINES = 100
# What an ablation may change of the recipe it ablates, as patterns of flattened keys.
ABLATION_KEYS = {
    "attention-is-all-you-need/big": {
        r"trainer\.max_steps", r"checkpoints\.average_last", r"model\..*\.d_model", r"model\..*\.n_heads",
        r"model\..*\.d_ff", r"model\..*\.dropout",
    },
}  # fmt: skip


def relative(path: Path) -> str:
    return path.relative_to(CONFIGS).as_posix()


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    monkeypatch.delenv("REPRO_RESULTS", raising=False)


def experiments_and_scales() -> list[tuple[str, str]]:
    """Every recipe at each of its scales; of a grid its first point, whose network the others share."""
    found = []
    for path in FILES:
        name, _, scale = path.name.removesuffix(".yaml").partition(".")
        base = yaml.safe_load((path.parent / f"{name}.yaml").read_text())
        points = [f"@{point}" for point in base.get("points") or {}]
        found.append((f"{path.parent.name}/{name}{points[0] if points else ''}", scale or "paper"))
    return found


EVERY = experiments_and_scales()


def test_every_file_is_found_as_a_recipe() -> None:
    known = {path for files in recipe_files().values() for path in files.values()}
    assert known == set(FILES)
    assert len(FILES) >= 5
    for experiment in recipe_files():
        assert set(scales_of(experiment)) <= set(SCALES)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_is_short_and_opens_with_paper_and_command(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = [line for line in lines if line.startswith("#")]
    opening = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    assert len(lines) <= MAX_LINES
    assert opening, "opens with a comment"
    assert header
    if "." not in path.stem:
        text = "\n".join(opening)
        assert f"repro run {path.parent.name}/{path.stem}" in text
        assert re.search(r"\b(19|20)\d\d\b", text), "the paper's year"
        assert re.search(r"\b(section|table|appendix)", text, re.IGNORECASE), "where in the paper"
        assert re.search(r"\b(GPU|core)", text), "hardware"


@pytest.mark.parametrize(("experiment", "scale"), EVERY)
def test_what_a_recipe_reproduces_is_published(experiment: str, scale: str) -> None:
    recipe = load_recipe(experiment, scale)
    published = yaml.safe_load((PROJECT / "results" / "published" / f"{recipe.paper}.yaml").read_text())
    tables = {table["id"]: table for table in published["tables"]}
    rows = {
        (table["id"], row["id"], metric)
        for table in tables.values()
        for row in table["rows"]
        for metric in row["values"]
    }
    cells = recipe.config.get("reproduces") or []
    trends = {trend["id"] for trend in published["trends"]}
    assert cells or recipe.config.get("supports"), "reproduces a row or supports a claim"
    for cell in cells:
        assert (cell["table"], cell["row"], cell["metric"]) in rows
        # declared before the run; a reduced scale is never judged against the row
        assert cell.get("tolerance", 0.0) > 0 or scale != "paper"
        assert cell["measured"].startswith("test/")
    for support in recipe.config.get("supports") or []:
        assert support["trend"] in trends
    assert recipe.config["title"]
    assert recipe.config["expects"][scale]["hours"] > 0
    if scale != "paper":
        assert any("Reduced scale" in text for text in recipe.config["deviations"])


@pytest.mark.parametrize(("experiment", "scale"), EVERY)
def test_a_recipe_builds_on_the_meta_device(experiment: str, scale: str) -> None:
    from repro.experiment.build import IMPORTABLE, build
    from repro.recipe import flatten

    recipe = load_recipe(experiment, scale)
    named = [value for key, value in flatten(recipe.sections).items() if key.endswith("class_path")]
    assert named
    assert all(value.startswith(tuple(f"{prefix}." for prefix in IMPORTABLE)) for value in named)
    parts = build(recipe, meta=True)
    assert all(parameter.is_meta for parameter in parts.task.parameters())
    assert sum(parameter.numel() for parameter in parts.task.parameters()) > 100_000
    assert parts.trainer["max_steps"] > 0
    assert parts.checkpoints is not None
    assert parts.checkpoints.average_last * parts.checkpoints.every_steps <= parts.trainer["max_steps"]


def shrunk(experiment: str, scale: str) -> Recipe:
    """A recipe with its widths, depths, corpus and updates made tiny; everything else stays."""
    recipe = load_recipe(experiment, scale)
    _shrink(recipe.config)
    for key, value in (
        ("trainer", {"max_steps": 1, "val_check_interval": 1, "accelerator": "cpu"}),
        ("checkpoints", {"every_steps": 1, "average_last": 1}),
    ):
        recipe.config[key] |= value
    recipe.config["model"]["init_args"] |= {"max_extra": 2}
    recipe.config["data"]["init_args"] |= {
        "store": STORE, "vocab_size": 300, "batch_tokens": 200, "val_split": "val", "test_split": "test",
    }  # fmt: skip
    return recipe


SMALL = {
    "d_model": 8,
    "d_ff": 16,
    "n_heads": 2,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "n_layers": 1,
    "size": 300,
}


def _shrink(node: Any) -> None:
    for key, value in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        if key in SMALL and isinstance(value, int):
            node[key] = SMALL[key]
        else:
            _shrink(value)


@pytest.mark.parametrize(("experiment", "scale"), EVERY)
def test_a_recipe_trains_and_is_tested_in_small(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, experiment: str, scale: str
) -> None:
    from repro.experiment.run import run

    monkeypatch.setenv("REPRO_CONFIGS", str(CONFIGS))
    recipe = shrunk(experiment, scale)
    record = run(recipe, 1, "test")
    assert record.steps == 1
    assert record.tokens > 0
    cells = recipe.config.get("reproduces") or []
    measured = {m.name for m in record.metrics}
    assert "test/bleu" in measured
    later = {"test/bleu_compound_split"} if scale == "paper" else set()  # comes with the WMT14 loader
    assert {cell["measured"] for cell in cells} <= measured | later
    assert len(workshop.records()) == 1


@pytest.mark.parametrize("experiment", sorted({e for e, _ in EVERY if load_recipe(e).config.get("ablates")}))
def test_an_ablation_changes_only_what_it_says(experiment: str) -> None:
    recipe = load_recipe(experiment)
    keys = differing_keys(load_recipe(recipe.config["ablates"]).signature, recipe.signature)
    print(*keys, sep="\n")
    allowed = ABLATION_KEYS[experiment]
    names = [key.split(":")[0] for key in keys]
    assert names
    assert [name for name in names if not any(re.fullmatch(pattern, name) for pattern in allowed)] == []
    for pattern in allowed:
        assert any(re.fullmatch(pattern, name) for name in names), f"{pattern} does not differ"
