"""Reads YAML safely: plain values only, duplicate keys refused, errors of one line. Needs no torch."""

import re
from pathlib import Path
from typing import Any

import yaml

from repro.errors import UserError


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Safe YAML, in C where available, that reads ``1e-9`` as a number and refuses a key given twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = set()
        for mark, key in ((key.start_mark, str(key.value)) for key, _ in node.value):
            if key in keys:
                raise yaml.MarkedYAMLError(problem=f"the key {key!r} is given twice", problem_mark=mark)
            keys.add(key)
        return dict(super().construct_mapping(node, deep=deep))


class _Dumper(yaml.SafeDumper):
    """Safe YAML without anchors, which the loader above reads back: equal parts are written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _one in (_Loader, _Dumper):
    _one.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\d[\d_]*)(\.\d*)?[eE][-+]?\d+$"),
        list("-+0123456789"),
    )


def parse_yaml(text: str, name: str = "YAML") -> Any:
    """Parses YAML safely.

    Raises:
        UserError: when ``text`` is not YAML or holds a key twice; names the line.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}, line {mark.line + 1}" if mark else name
        raise UserError(f"{where}: {getattr(error, 'problem', None) or error}") from None


def to_yaml(tree: Any) -> str:
    """Plain values as YAML in their order; ASCII characters only."""
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=96))


def read_yaml(path: Path) -> Any:
    """Reads one YAML file; see :func:`parse_yaml`."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"no such file: {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
