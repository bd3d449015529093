"""Recipes that tests write: a file, and its scales one by one."""

import json
from pathlib import Path

import yaml


def write_recipe(path: Path, text: str, scale: str = "") -> Path:
    """Writes a recipe, or one of its scales.

    Args:
        path: of the recipe.
        text: the recipe without scales, which keeps those that the file has; or the entry of a scale.
        scale: its name.
    """
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    recipe, _, written = before.partition("scales: ")
    scales = json.loads(written or "{}")
    if scale:
        scales[scale] = yaml.safe_load(text)
    else:
        recipe = text if text.endswith("\n") else f"{text}\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(recipe + (f"scales: {json.dumps(scales)}\n" if scales else ""), encoding="utf-8")
    return path
