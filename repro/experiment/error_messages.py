"""One line from the configuration parser's long report: the wrong key, the reason and the nearest spelling."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from repro.errors import nearest

_KEY = re.compile(r'(?:Parser key|Problem with given key) "([^"]+)":')
_CLASS = re.compile(r"Problem with given class_path '([^']+)':")
_MAKER = re.compile(r"callable class: .*Got value: Namespace\(class_path='([^']+)'")
# An error about one branch of a maker, above the error about the class that was meant.
_BRANCH = re.compile(
    r"^ *- .*callable class: Expected '[^']+' to be a subclass.*\n(?= *- (?!Import path))", re.MULTILINE
)
_GIVEN = re.compile(r"\s*Given value: ([^{\[].*)")  # below the alternatives of a union; no mapping, no list
_LIMIT = 400


def one_line(
    message: str,
    allowed: tuple[str, ...] = (),
    groups: Mapping[str, type] | None = None,
    top: tuple[str, ...] = (),
) -> str:
    """The part of a parser's report that says what is wrong: where, why, and the nearest right spelling.

    The report is a tree: keys and class paths lead to the innermost cause, and the alternatives of a union
    follow one another. The first branch that is not merely "None is also possible" is what the user meant.

    Args:
        message: of jsonargparse, many lines that include the whole configuration.
        allowed: prefixes of the class paths that configurations may name; nothing else is imported.
        groups: classes behind the top-level keys that have no class path.
        top: the top-level keys.
    """
    text = re.sub(r"^usage:.*?error: ", "", message, flags=re.DOTALL)
    place, causes = list[str](), list[str]()
    owner = ""
    for line in _BRANCH.sub("", text).splitlines():
        if re.match(r"\s*(Given value|Subtypes)", line):
            if causes and " type:" not in line:
                if (value := _GIVEN.match(line)) and re.fullmatch(r"Expected a <class '[\w.]+'>", causes[0]):
                    causes[0] += f". Got value: {value[1]}"
                break
            continue
        if match := _KEY.search(line):
            place.append(match[1])
        if match := _CLASS.search(line):
            owner = match[1]
            place.append("init_args")
        if match := _MAKER.search(line):  # a maker's class is in the value, after the error
            owner = match[1]
            place += ["init_args"] if "is not accepted" in line else []
        if cause := _cause(line):
            causes.append(cause)
    if not causes:
        return " ".join(text.split())[:_LIMIT]
    return _message(".".join(place), owner, causes, _Known(allowed, groups or {}, top))[:_LIMIT]


def _cause(line: str) -> str:
    """A line without keys, class paths and headings; empty for the ``None`` of a union."""
    message = _CLASS.sub("", _KEY.sub("", line)).strip(" -")
    message = re.sub(r"^Type \S.*? expects a function or a callable class: ?", "", message)
    message = re.sub(r"\.? Got value: (?:Namespace\(|\{).*", "", message).strip()
    headings = ("Does not validate against", "Errors:", "Expected a <class 'NoneType'>")
    return "" if message.startswith(headings) else message


def _message(place: str, owner: str, causes: list[str], names: "_Known") -> str:
    cause = causes[0]
    where = f"{place}: " if place else ""
    named = where.replace(".init_args: ", ": ")  # the class path itself is wrong, not what it is given
    if match := re.search(r"Option '([^']+)' is not accepted", cause):
        return f"{place} has no key {match[1]!r}{nearest(match[1], names.keys(owner))}"
    if match := re.search(r"Subcommand '\w+' does not accept option '(?:([^'.]+)\.)?([^'.]+)", cause):
        where = f"{match[1]} has" if match[1] else "there is"
        return f"{where} no key {match[2]!r}{nearest(match[2], names.keys('', match[1] or ''))}"
    if match := re.search(r"Group '([^']+)' does not accept option '([^'.]+)", cause):
        group = f"{place}.{match[1]}" if place else match[1]
        return f"{group} has no key {match[2]!r}{nearest(match[2], names.keys(owner, match[1]))}"
    if match := re.search(r"Importing '([^']+)' is not allowed", cause):
        starts = ", ".join(names.allowed)
        return f"{named}class_path {match[1]} is not allowed; it must start with one of: {starts}"
    if match := re.search(r"module '([^']+)' has no attribute '([^']+)'", cause):
        return f"{named}{match[1]} has no {match[2]!r}{nearest(match[2], names.public(match[1]))}"
    if all(c.startswith("Expected a ") for c in causes):
        return where + _expected(causes)
    return where + cause


def _expected(causes: list[str]) -> str:
    """``Expected a <class 'int'>. Got value: ten`` as ``must be int, not 'ten'``; alternatives are joined."""
    kinds, value = [], ""
    for cause in causes:
        kind, _, got = cause.removeprefix("Expected a ").partition(". Got value: ")
        value = value or got
        literal = re.fullmatch(r"typing\.Literal\[(.*)\]", kind)
        kinds.append(literal[1] if literal else re.sub(r"<class '([\w.]+)'>", r"\1", kind))
    return f"must be {' or '.join(dict.fromkeys(kinds))}" + (f", not {value!r}" if value else "")


@dataclass(frozen=True)
class _Known:
    """The names among which the nearest spelling is sought."""

    allowed: tuple[str, ...]
    groups: Mapping[str, type]
    top: tuple[str, ...]

    def keys(self, class_path: str, group: str = "") -> list[str]:
        """The keys of a class, of one of its dataclass parameters, or of a top-level group; empty if unknown."""
        if not class_path:
            return _parameters(self.groups.get(group)) if group else list(self.top)
        module, _, name = class_path.rpartition(".")
        member = getattr(self._module(module), name, None)
        return _fields(member, group) if group else _parameters(member)

    def public(self, module: str) -> list[str]:
        """Public names of a module."""
        return [name for name in vars(self._module(module) or object) if not name.startswith("_")]

    def _module(self, name: str) -> Any:
        if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in self.allowed):
            return None
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def _parameters(maker: Any) -> list[str]:
    try:
        return list(inspect.signature(maker).parameters)
    except (TypeError, ValueError):
        return []


def _fields(maker: Any, parameter: str) -> list[str]:
    """The fields of the dataclass that a parameter takes."""
    try:
        kind = inspect.signature(maker).parameters[parameter].annotation
    except (TypeError, ValueError, KeyError):
        return []
    kinds = [k for k in (kind, *get_args(kind)) if dataclasses.is_dataclass(k)]
    return [field.name for k in kinds for field in dataclasses.fields(k)]
