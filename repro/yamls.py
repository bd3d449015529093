"""YAML, read safely (plain values, no duplicate keys, errors of one line), and the dotted keys that change it."""

import copy
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from repro.errors import UserError
from repro.files import read_text

Tree: TypeAlias = "dict[str, Tree] | list[Tree] | str | float | bool | None"
Config: TypeAlias = dict[str, Any]  # a mapping whose shape the constructors define


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML, in C where available, that reads ``1e-9`` as a number and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for mark, key in ((key.start_mark, str(key.value)) for key, _ in node.value):
            if key in keys:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is given twice", problem_mark=mark)
            keys.add(key)
        return dict(super().construct_mapping(node, deep=deep))


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789")
)


def parse_yaml(text: str, name: str = "YAML") -> Any:
    """Parses YAML safely. Each place of an alias has a value of its own, so that changing one changes no other.

    Raises:
        UserError: when ``text`` is not YAML, holds a key twice or a value that contains itself; names the line.
    """
    try:
        return _copied(yaml.load(text, Loader=_Loader))
    # a date such as 2024-13-45 is a ValueError
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}, line {mark.line + 1}" if mark else name
        raise UserError(f"{place}: {getattr(error, 'problem', None) or error}") from None


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(item) for item in tree] if isinstance(tree, list) else tree


def read_yaml(path: Path) -> Any:
    """Reads one YAML file; see :func:`parse_yaml`."""
    return parse_yaml(read_text(path), str(path))


@cache
def parse_once(text: str, name: str) -> Any:
    """Returns what :func:`parse_yaml` does, one tree for all calls, which nobody may change."""
    return parse_yaml(text, name)


def flatten(tree: Tree, prefix: str = "") -> Config:
    """``{"a": {"b": 1}}`` becomes ``{"a.b": 1}``; lists are numbered, empty ones kept."""
    flat: Config = {}
    _flatten(tree, prefix, flat)
    return flat


def _flatten(tree: Tree, prefix: str, flat: Config) -> None:
    if isinstance(tree, dict) and tree:
        items: Iterable[tuple[Any, Tree]] = tree.items()
    elif isinstance(tree, list) and any(isinstance(x, dict | list) for x in tree):
        items = enumerate(tree)
    else:
        flat[prefix] = tree
        return
    dot = f"{prefix}." if prefix else ""
    for key, value in items:
        _flatten(value, f"{dot}{key}", flat)


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
