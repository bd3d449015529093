"""Targets of links exist, ``docs/architecture.md`` is true, fair tests in another order are explained."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_layering import MAY_IMPORT, PACKAGE, ROOT, identifiers

ARCHITECTURE = ROOT / "docs" / "architecture.md"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAME = re.compile(r"`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)`")
WALKS = 2


def linked(text: str, folder: Path) -> list[Path]:
    """Files behind the relative links of a text that lies in a folder; addresses on the web are left out."""
    targets = (target.partition("#")[0] for target in LINK.findall(text))
    return [(folder / target).resolve() for target in targets if target and "://" not in target]


def items(text: str) -> list[str]:
    """The items of the lists of a document, each with the lines that continue it."""
    return re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE)


@cache
def names_in(path: Path) -> frozenset[str]:
    """Every name of a module, ``Class.member`` of its classes, and strings that may be names."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source)))
    strings = {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    classes = (node for node in nodes if isinstance(node, ast.ClassDef))
    return frozenset(identifiers(source) | strings | {name for one in classes for name in members(one)})


def members(one: ast.ClassDef) -> Iterator[str]:
    """``Class.member`` for each method and each annotated or assigned name of a class body."""
    for node in one.body:
        for name in (getattr(node, "name", None), getattr(getattr(node, "target", None), "id", None)):
            if name is not None:
                yield f"{one.name}.{name}"


def unknown(text: str, folder: Path) -> list[str]:
    """Names in backticks that no file of their item knows, and each ``Class.member`` that no linked file knows."""
    everywhere = frozenset().union(*(names_in(p) for p in linked(text, folder) if p.suffix == ".py"))
    wrong = [name for name in NAME.findall(text) if "." in name and name not in everywhere]
    for item in items(text):
        here = frozenset().union(*(names_in(p) for p in linked(item, folder) if p.suffix == ".py"))
        wrong += [name for name in NAME.findall(item) if "." not in name and name not in here]
    return wrong


def walks(text: str) -> list[str]:
    """The sections of a document that follow something through the code."""
    return [part for part in text.split("\n## ") if "repro/" in part and items(part)]


def arrows(text: str) -> dict[str, set[str]]:
    """Returns the imports of each layer in the diagram of a document, from top to bottom."""
    result: dict[str, set[str]] = {}
    for left, right in re.findall(r"^([\w, ]+?) +-> *(.*)$", text, re.MULTILINE):
        result |= {layer: set(right.split(", ")) - {""} for layer in left.split(", ")}
    return result


def repeated(text: str, folder: Path) -> list[str]:
    """Files that a section links more than once."""
    return [path.name for path, count in Counter(linked(text, folder)).items() if count > 1]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    result = linked(path.read_text(encoding="utf-8"), path.parent)
    assert [target for target in result if not target.exists()] == []


def test_names_of_the_architecture_exist() -> None:
    assert unknown(ARCHITECTURE.read_text(encoding="utf-8"), ARCHITECTURE.parent) == []


def test_a_walk_names_a_file_once() -> None:
    result = walks(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(result) == WALKS
    assert [repeated(walk, ARCHITECTURE.parent) for walk in result] == [[]] * WALKS


def test_the_diagram_is_that_of_the_imports() -> None:
    displayed = arrows(ARCHITECTURE.read_text(encoding="utf-8"))
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= displayed.keys() == displayed.keys() & MAY_IMPORT.keys()
    assert displayed == {layer: (MAY_IMPORT[layer] & displayed.keys()) - {layer} for layer in displayed}
    order = list(displayed)
    assert all(order.index(low) > order.index(layer) for layer, lower in displayed.items() for low in lower)


@pytest.mark.parametrize(
    ("item", "wrong"),
    [
        ("`Task.setup` and `join_rows`", []),
        ("`Task.no_such`", ["Task.no_such"]),
        ("`no_such`\n\n`Task.neither`", ["Task.neither", "no_such"]),
        ("`LanguageModel`", ["LanguageModel"]),  # it is elsewhere
    ],
)
def test_a_wrong_name_is_seen(item: str, wrong: list[str]) -> None:
    text = f"- [task.py](../repro/tasks/task.py):\n  {item}\n"
    assert unknown(text, ARCHITECTURE.parent) == wrong


def test_a_wrong_link_and_a_second_one_are_seen(tmp_path: Path) -> None:
    text = "[a](a.py#top) [web](https://example.org/b.py) [here](#top)\n- [a](a.py)"
    assert linked(text, tmp_path) == [tmp_path / "a.py"] * 2
    assert repeated(text, tmp_path) == ["a.py"]


def test_every_fair_test_in_another_order_is_explained_and_no_other() -> None:
    tests = json.loads((ROOT / "results/evidence.json").read_text(encoding="utf-8"))["tests"]
    other = {one["says"] for one in tests if one["verdict"] == "other order"}
    findings = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- \*\*(.+)\*\*$", findings, re.MULTILINE)) == other
