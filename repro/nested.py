"""Nested mappings and lists, as YAML gives them: flattened, laid over each other. Needs no torch."""

import copy
from typing import Any


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``; lists are numbered, empty ones kept."""
    if isinstance(tree, dict) and tree:
        items: Any = tree.items()
    elif isinstance(tree, list) and any(isinstance(x, dict | list) for x in tree):
        items = enumerate(tree)
    else:
        return {prefix: tree}
    dot = f"{prefix}." if prefix else ""
    return {k: v for key, value in items for k, v in flatten(value, f"{dot}{key}").items()}


def merge(base: Any, over: Any) -> Any:
    """Lays one tree over another: mappings merge, all else is replaced.

    Where ``over`` names another ``class_path``, its ``init_args`` replace the old ones whole.
    """
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return copy.deepcopy(over)
    if "class_path" in over and over["class_path"] != base.get("class_path"):
        return copy.deepcopy(over)
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(base[key], value) if key in base else copy.deepcopy(value)
    return out
