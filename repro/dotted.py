"""Configurations as nested mappings, and the dotted keys that change them. Needs no torch."""

import copy
from typing import Any, TypeAlias

from repro.errors import UserError

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


def short(key: str) -> str:
    """A dotted key without its ``init_args``."""
    return key.replace(".init_args.", ".")


def set_key(config: Config, key: str, value: Tree) -> None:
    """Sets a dotted key in place.

    The value replaces whatever the key had, mappings and lists whole. ``init_args`` may be left out of a key, and items
    of lists are numbers: ``model.net.mixers.0.n_heads`` reaches ``model.init_args.net.init_args.mixers[0].init_args``.
    A key is dropped by setting the mapping around it.

    Raises:
        UserError: the key passes through a value.
    """
    node: Any = config
    parts = key.split(".")
    for i, part in enumerate(parts):
        if isinstance(node, dict) and "class_path" in node and part not in ("class_path", "init_args"):
            node = node.setdefault("init_args", {})
        step: Any = int(part) if isinstance(node, list) and part.isdigit() and int(part) < len(node) else part
        if not (isinstance(node, dict) or isinstance(step, int)):
            raise UserError(f"{key}: {'.'.join(parts[:i])} is a value, it has no {part!r}")
        if i < len(parts) - 1:
            node = node[step] if isinstance(node, list) else node.setdefault(step, {})
        else:
            node[step] = copy.deepcopy(value)
