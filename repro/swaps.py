"""Settings that name another class: arguments that only the old class has are dropped. Imports swapped classes.

In a file, and in a setting that gives a whole ``{class_path: ..., init_args: ...}``, another class replaces all
arguments. A setting that gives the class path alone keeps the arguments that both classes take. A name without a
module is looked up in the module of the class that it replaces.
"""

import importlib
import inspect
from collections.abc import Iterator

from repro.nested import Config, Tree, flatten
from repro.tied import Pairs, short

# What a YAML file may name. Everything else is refused before it is imported.
IMPORTABLE = (
    "repro.batches",
    "repro.nn",
    "repro.models",
    "repro.tasks",
    "repro.data",
    "torch.nn",
    "torch.optim",
    "lightning.pytorch",
)


def drop_unknown(before: Config, after: Config, overrides: Pairs) -> list[str]:
    """Removes the arguments that the old class takes and the new one does not.

    Arguments that neither takes, or that the overrides set, stay, and the constructor refuses them.

    Args:
        before: the configuration of the files.
        after: the same with the overrides set; changed in place.
        overrides: ``(dotted key, value)`` pairs; a value may be a mapping of several keys.

    Returns:
        One line for each swapped class that lost arguments.
    """
    given = {short(k) for key, value in overrides for k in flatten(value, key)}
    lines = []
    for place, was, node in _swapped(before, after):
        _complete(node, was)
        args, old, new = node.get("init_args"), parameters(was), parameters(node["class_path"])
        if not (isinstance(args, dict) and old and new):
            continue
        typed = {key for key in args if any(f"{k}.".startswith(f"{short(place)}.{key}.") for k in given)}
        unknown = [key for key in args if key in old - new - typed]
        for key in unknown:
            del args[key]
        if not args:
            del node["init_args"]
        if unknown:
            lines.append(f"{node['class_path'].rpartition('.')[2]} has no {', '.join(unknown)}: dropped")
    return lines


def _complete(node: Config, was: str) -> None:
    """Writes the module before a bare class name, if the replaced class's module has a class of that name."""
    full = f"{was.rpartition('.')[0]}.{node['class_path']}"
    if "." not in node["class_path"] and parameters(full):
        node["class_path"] = full


def _swapped(before: Tree, after: Tree, place: str = "") -> Iterator[tuple[str, str, Config]]:
    """The settings that name another class: the dotted key, the class before, the node now."""
    if isinstance(before, dict) and isinstance(after, dict):
        was, now = before.get("class_path"), after.get("class_path")
        if isinstance(was, str) and isinstance(now, str) and was != now:
            yield place, was, after
        both = [(key, before[key], after[key]) for key in before if key in after]
    elif isinstance(before, list) and isinstance(after, list):
        both = [(str(i), *pair) for i, pair in enumerate(zip(before, after, strict=False))]
    else:
        return
    for key, old, new in both:
        yield from _swapped(old, new, f"{place}.{key}" if place else key)


def parameters(class_path: str) -> set[str]:
    """The argument names of a class; empty if unknown or if it takes any."""
    module, _, name = class_path.rpartition(".")
    if not any(f"{module}.".startswith(f"{prefix}.") for prefix in IMPORTABLE):
        return set()
    try:
        signature = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    except (ImportError, AttributeError, TypeError, ValueError):  # refused where the class is built
        return set()
    everything = any(p.kind is p.VAR_KEYWORD for p in signature.values())
    return set() if everything else set(signature)
