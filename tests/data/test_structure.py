"""The package of data has no import circle, no crowded folder and no class name with two meanings."""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "repro" / "data"
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in FOLDER.rglob("*.py")
}


def imports(source: str) -> Iterator[str]:
    """Modules of the package that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom) and node.module in FILES:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in FILES else node.module


def test_there_is_no_import_circle() -> None:
    graph = {name: set(imports(path.read_text(encoding="utf-8"))) for name, path in FILES.items()}
    assert sum(map(len, graph.values())) > 200
    TopologicalSorter(graph).prepare()
    with pytest.raises(CycleError):
        TopologicalSorter(graph | {"repro.data.packed": {"repro.data.registry"}}).prepare()


def test_no_folder_is_crowded() -> None:
    counts = Counter(path.parent for path in FILES.values())
    assert max(counts.values()) <= 15


def test_a_class_name_means_one_thing() -> None:
    names = Counter(
        node.name
        for path in FILES.values()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []
