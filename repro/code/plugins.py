"""Plugins: Python modules of a project that its recipes may name. ``repro.yaml`` lists them: ``plugins: [mymix]``.

A plugin is ``<name>.py`` or a package ``<name>/`` beside ``repro.yaml``. Nothing else of the project can be named in a
recipe.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from pydoc import locate
from typing import Any

from repro.errors import UserError, nearest
from repro.paths import PROJECT_FILE, project
from repro.yamls import read_yaml


def plugin_files() -> dict[str, list[Path]]:
    """The source files of each plugin of the project, by its name; nothing is imported.

    Raises:
        UserError: a malformed ``repro.yaml``, a plugin that is missing or has the name of another package.
    """
    file = project() / PROJECT_FILE
    content = (read_yaml(file) or {}) if file.is_file() else {}
    known = isinstance(content, dict) and content.keys() <= {"plugins"}
    names = content.get("plugins") or [] if known else None
    if not isinstance(names, list) or not all(isinstance(n, str) and n.isidentifier() for n in names):
        raise UserError(f"{file}: it has one key, a list of module names; write `plugins: [mymix]`")
    return {name: _files_of(name, file) for name in names}


def _files_of(name: str, file: Path) -> list[Path]:
    spec = sys.modules[name].__spec__ if name in sys.modules else importlib.util.find_spec(name)
    folder = file.parent.resolve()  # a job's code is a link to its snapshot
    other = spec is not None and not Path(spec.origin or "").resolve().is_relative_to(folder)
    if other or name in sys.stdlib_module_names or name == "repro":
        raise UserError(f"{file}: {name!r} is the name of another package; rename the plugin")
    module, package = file.with_name(f"{name}.py"), file.parent / name
    files = [module] if module.is_file() else sorted(package.rglob("*.py"))
    if module not in files and package / "__init__.py" not in files:
        raise UserError(f"{file}: plugin {name!r} is neither {module.name} nor {name}/__init__.py beside it")
    return files


def hashes() -> dict[str, str]:
    """SHA-256 over the sources of each plugin, names and contents."""
    result = {}
    for name, files in plugin_files().items():
        parts = (f"{p.relative_to(project()).as_posix()}\0".encode() + p.read_bytes() for p in files)
        result[name] = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
    return result


def load_plugins() -> tuple[str, ...]:
    """Imports the plugins of the project, behind all installed packages; returns their names.

    Raises:
        UserError: one that cannot be imported, and the errors of :func:`plugin_files`.
    """
    return _imported(tuple(plugin_files()), str(project()))


@cache
def _imported(names: tuple[str, ...], folder: str) -> tuple[str, ...]:
    if names and folder not in sys.path:
        sys.path.append(folder)
    for name in names:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:
            raise UserError(f"plugin {name} cannot be imported: {type(error).__name__}: {error}") from error
    return names


def resolve(tree: Any, names: Sequence[str]) -> Any:
    """A configuration whose class paths are whole: a bare class name is looked for in the plugins.

    Raises:
        UserError: a path into a plugin that leads to something defined elsewhere, or a name that two plugins have.
    """
    if isinstance(tree, Mapping):
        whole = {key: resolve(value, names) for key, value in tree.items()}
        path = tree.get("class_path")
        return whole | {"class_path": full_path(path, names)} if isinstance(path, str) else whole
    if isinstance(tree, list):
        return [resolve(value, names) for value in tree]
    return full_path(tree, names) if isinstance(tree, str) and tree.partition(".")[0] in names else tree


def full_path(path: str, names: Sequence[str]) -> str:
    """The path of a class of a plugin, ``mymix.Alibi`` for ``Alibi``; other paths unchanged. See :func:`resolve`."""
    if "." not in path:
        having = [name for name in names if isinstance(getattr(sys.modules[name], path, None), type)]
        if len(having) > 1:
            raise UserError(f"{path} is in several plugins: {', '.join(having)}; write {having[0]}.{path}")
        path = f"{having[0]}.{path}" if having else path
    if (plugin := path.partition(".")[0]) in names and "." in path:
        home = str(getattr(locate(path), "__module__", plugin))
        if f"{home}.".partition(".")[0] != plugin:
            raise UserError(f"{path} is not allowed: it is defined in {home}, not in the plugin {plugin}")
    return path


def located(word: str, names: Sequence[str], allowed: Sequence[str]) -> Any:
    """The class or function of a path, which lies in an allowed package; see :func:`full_path`.

    Raises:
        UserError: another package, or nothing of that name.
    """
    path = full_path(word, names)
    if not any(path.startswith(f"{package}.") for package in allowed):
        raise UserError(
            f"{word} is in none of {', '.join(allowed)}; name a plugin of your own in {PROJECT_FILE}"
        )
    found = locate(path)
    if not callable(found):
        package, _, last = path.rpartition(".")
        raise UserError(f"{package} has no class or function {last!r}{nearest(last, dir(locate(package)))}")
    return found
