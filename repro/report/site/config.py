"""A resolved configuration as YAML, byte by byte the same with every version of every library."""

import json
import re
import unicodedata
from typing import Any

from repro.recipe import SECTIONS, TAKEN, Config

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./@-]*( [A-Za-z0-9_./@-]+)*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_WIDTH = 96


def as_yaml(config: Config) -> str:
    """What decides a run: trainer, model, data, checkpoints, and where it began. Titles and goals are left out."""
    kept = (*TAKEN, "start_with", *SECTIONS)
    return "\n".join(_mapping({key: config[key] for key in kept if key in config}, 0))


def _mapping(tree: dict[str, Any], depth: int) -> list[str]:
    lines = []
    for key, value in tree.items():
        start = f"{'  ' * depth}{scalar(key)}:"
        if _fits(value, len(start)):
            lines.append(f"{start} {flow(value)}")
        elif isinstance(value, dict):
            lines += [start, *_mapping(value, depth + 1)]
        else:
            lines += [start, *_items(value, depth)]
    return lines


def _items(values: list[Any], depth: int) -> list[str]:
    lines = []
    for value in values:
        dash = f"{'  ' * depth}- "
        if _fits(value, len(dash)) or not isinstance(value, dict):
            lines.append(dash + flow(value))
        else:
            first, *rest = _mapping(value, depth + 1)
            lines += [dash + first.lstrip(), *rest]
    return lines


def _fits(value: object, before: int) -> bool:
    """Whether a value stands on one line: a text, a number, or a short collection of them."""
    if not isinstance(value, dict | list) or not value:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return before + len(flow(value)) < _WIDTH and not any(isinstance(v, dict) and v for v in inner)


def flow(value: object) -> str:
    """A value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """A text, number, truth value or null; a text that could be read as something else stands in quotes."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    if isinstance(value, float):
        said = repr(value).replace("inf", ".inf").replace("nan", ".nan")
        return re.sub(r"^(-?\d+)e", r"\1.0e", said) if "e" in said else said
    said = json.dumps(value if isinstance(value, str | int | None) else str(value), ensure_ascii=False)
    return "".join(map(_visible, said))


def _visible(character: str) -> str:
    """A character as it is, or its number where nobody would see it."""
    hidden = unicodedata.category(character)[0] in "CZ" and character != " "
    if not hidden:
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
