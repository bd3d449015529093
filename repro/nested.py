"""Nested mappings and lists, as read from YAML: flattened and merged. Needs no torch."""

import copy
from typing import Any, TypeAlias

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | float | bool | None"
Config: TypeAlias = dict[str, Any]  # a mapping whose shape the constructors know


def flatten(tree: Tree, prefix: str = "") -> Config:
    """``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``; lists are numbered, empty ones kept."""
    if isinstance(tree, dict) and tree:
        items = list(tree.items())
    elif isinstance(tree, list) and any(isinstance(x, dict | list) for x in tree):
        items = [(str(i), value) for i, value in enumerate(tree)]
    else:
        return {prefix: tree}
    dot = f"{prefix}." if prefix else ""
    return {k: v for key, value in items for k, v in flatten(value, f"{dot}{key}").items()}


def merge(base: Config, over: Config) -> Config:
    """Lays one mapping over another: mappings inside merge, all else is replaced.

    Where ``over`` names another ``class_path``, its ``init_args`` replace the old ones whole.
    """
    if "class_path" in over and over["class_path"] != base.get("class_path"):
        return copy.deepcopy(over)
    return base | {key: laid_over(base.get(key), value) for key, value in over.items()}


def laid_over(base: Tree, over: Tree) -> Tree:
    """Both merged where both are mappings, else what lies above."""
    if isinstance(base, dict) and isinstance(over, dict):
        return merge(base, over)
    return copy.deepcopy(over)


def replaced(tree: Tree, old: str, new: str) -> Tree:
    """The same tree with ``new`` for ``old`` in all texts, keys left out."""
    if isinstance(tree, dict):
        return {key: replaced(value, old, new) for key, value in tree.items()}
    if isinstance(tree, list):
        return [replaced(value, old, new) for value in tree]
    return tree.replace(old, new) if isinstance(tree, str) else tree
