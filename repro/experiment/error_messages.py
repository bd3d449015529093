"""One line from the configuration parser's long report: the wrong key, value or class, and the nearest spelling."""

import re
from collections.abc import Sequence
from inspect import signature
from pydoc import locate
from typing import get_args

from repro.errors import nearest

# A key, or a class path: after "Problem with", or in the value of a maker, which follows its error.
_PLACE = re.compile(r'key "([^"]+)":|class_path \'([^\']+)\':|class: (?=[OG].*?class_path=\'([^\']+))')
_HEADINGS = r"(?:Does not validate|Errors:|Subtypes:|Given value).*|Problem with given|Parser (?=key)"
_NOISE = re.compile(rf"^[ -]+|{_HEADINGS}|Type \S.* callable class: |\.? Got value: Namespace\(.*")
_WEAK = re.compile(r"Expected (?:a (?:<class 'NoneType'>|path|dot import path)|')|Import path")
_KEY = re.compile(r"(?:Group '(.+)'.* |^|accept )[Oo]ption '((?:(?:trainer|checkpoints|stop)\.)?[^'.]+)")
_KIND = re.compile(r"Expected a (?:<class '|typing\.)?(.+?)(?:'>)?(?:\. Got value: (.*))?$")


def one_line(message: str, top: Sequence[str] = (), importable: Sequence[str] = ()) -> str:
    """The first cause in the report, which is a tree of keys, class paths and alternatives of unions.

    Args:
        message: of jsonargparse, many lines that include the whole configuration.
        top: keys of the recipe and of its sections without a class path.
        importable: the packages that class paths may name.
    """
    report = re.sub(r"^usage:.*?error: ", "", message, flags=re.DOTALL)
    place, owner, causes, weak = list[str](), "", list[str](), ""
    for line in report.splitlines():
        if causes and "Given value" in line:
            break
        for key, *class_paths in _PLACE.findall(line) if not causes else ():
            place, owner = [*place, key or "init_args"], "".join(class_paths) or owner
        cause = _PLACE.sub("", _NOISE.sub("", line)).strip()
        weak = weak or cause
        causes += [cause] if cause and not _WEAK.match(cause) else []
    cause = causes[0] if causes else weak
    if match := _KEY.search(cause):
        parent, _, key = ".".join(filter(None, (*place, *match.groups()))).rpartition(".")
        return f"{parent or 'the recipe'} has no key {key!r}{nearest(key, _keys(_located(owner, importable)) or top)}"
    if kinds := [match for match in map(_KIND.match, causes) if match]:
        value = kinds[0][2] or "".join(re.findall(r"Given value: (.+?)(?:\. Got|$)", report, re.M)[:1])
        names = dict.fromkeys(re.sub(r"Literal\[(.*)\]", r"one of \1", kind[1]) for kind in kinds)
        cause = f"must be {' or '.join(names)}, not {value!r}"
    if match := re.search(r"module '(.+)' has no attribute '(.+)'", cause):
        cause = f"{match[1]} has no {match[2]!r}{nearest(match[2], dir(_located(match[1], importable)))}"
    untyped = r"With fail_untyped.* Parameter '(.+)' from '(.+)' does not specify a type.*"
    cause = re.sub(untyped, r"\1 of \2 has no type; annotate it, as in `\1: int`", cause)
    allowed = f"choose from: {', '.join(importable)}, or name a plugin of your own in repro.yaml"
    cause = re.sub(" not allowed, denied.*", f" not allowed; {allowed}", cause)
    return f"{'.'.join(place)}: {cause}"[:400].removeprefix(": ")


def _located(path: str, importable: Sequence[str]) -> object:
    """Imports what a dotted path names; None, and no import, outside of packages that class paths may name."""
    allowed = any(f"{path}.".startswith(f"{package}.") for package in importable)
    return locate(path) if allowed else None


def _keys(maker: object) -> list[str]:
    """The parameters of a class, and the fields of those that are dataclasses."""
    parameters = signature(maker).parameters if callable(maker) else {}
    kinds = [kind for p in parameters.values() for kind in (p.annotation, *get_args(p.annotation))]
    return [*parameters, *(field for kind in kinds for field in getattr(kind, "__dataclass_fields__", ()))]
