"""Imports point down only, and some things are done nowhere. Function-level imports count."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "repro"
BOTTOM = {"errors", "paths", "yamls", "seeds", "recipe", "files", "grouping", "record", "events"}
# What a layer may import of repro, itself included. A module of no layer listed here fails the test.
MAY_IMPORT = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "paths": {"errors"},
    "yamls": {"errors", "files"},
    "seeds": {"errors"},
    "recipe": {"errors", "paths", "yamls", "seeds"},
    "files": {"errors", "paths"},
    "grouping": set(),
    "record": {"errors", "paths", "files"},
    "events": {"errors", "files"},
    "ledger": {"errors", "files", "record"},
    "code": {"code", "errors", "paths", "yamls"},
    "torchmetrics_import": set(),
    "mirror": {"mirror", *BOTTOM},
    "nn": {"nn"},
    "models": {"models", "nn", "errors"},
    "batches": set(),
    "trees": {"errors"},
    "tasks": {
        "tasks",
        "batches",
        "trees",
        "models",
        "nn",
        "record",
        "errors",
        "torchmetrics_import",
    },
    "training": {"training", "tasks", "models", "nn", "record", "events", "errors"},
    "data": {"data", "batches", "trees", *BOTTOM},
    "experiment": {
        "experiment",
        "batches",
        "training",
        "tasks",
        "models",
        "nn",
        "data",
        "mirror",
        "ledger",
        "code",
        "torchmetrics_import",
        *BOTTOM,
    },
    "evidence": {"evidence", "ledger", "code", *BOTTOM},
    "report": {"report", "evidence", *BOTTOM},
    "launch": {"launch", "mirror", "ledger", "code", *BOTTOM},
    "verify": {"verify", "evidence", "code", *BOTTOM},
    "cli": {
        "cli",
        "code",
        "launch",
        "report",
        "evidence",
        "experiment",
        "training",
        "tasks",
        "data",
        "mirror",
        "verify",
    }
    | BOTTOM,
}
TORCH = {"torch", "lightning", "pytorch_lightning", "torchmetrics"}
WITHOUT_TORCH = {*BOTTOM, "trees", "ledger", "code", "evidence", "report", "launch", "verify"}
HEAVY = {*TORCH, "wandb", "datasets", "pandas", "matplotlib", "sacrebleu"}
PAPER_NAMES = (
    "vaswani", "attentionisall", "transformerxl", "txl", "reformer", "lineartransformer", "shortformer",
    "frozenpretrained", "infinityformer", "inftyformer", "admin",
)  # fmt: skip
FILES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """Dotted name of a module of the package."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(source: str, module: str) -> Iterator[str]:
    """Dotted names of all that a module imports, anywhere in it, ``import_module("...")`` included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")[: -node.level]
                base = ".".join([*parts, base]) if base else ".".join(parts)
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield from (
                a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)
            )


def called(node: ast.Call) -> str:
    """Last part of the name that is called."""
    return {ast.Name: lambda f: f.id, ast.Attribute: lambda f: f.attr}.get(type(node.func), lambda f: "")(
        node.func
    )


def layer_of(dotted: str) -> str:
    """``repro.nn.mixer`` → ``nn``; ``repro.__version__``, ``repro`` → ``__init__``."""
    part = [*dotted.split("."), "__init__"][1]
    return part if (PACKAGE / part).is_dir() or (PACKAGE / f"{part}.py").exists() else "__init__"


def wrong_imports(source: str, module: str) -> list[str]:
    """Returns the imports of a module against the arrows."""
    layer = layer_of(module)
    if layer not in MAY_IMPORT:
        return [f"{module}: {layer!r} is in no layer; say in MAY_IMPORT what it may import"]
    wrong = []
    for name in imports(source, module):
        top = name.split(".")[0]
        if top == "repro":
            fine = layer_of(name) in MAY_IMPORT[layer] | {"__init__"}
        elif layer == "nn":
            fine = top == "torch" or top in sys.stdlib_module_names
        elif top == "benchmarks":
            fine = False
        else:
            fine = layer not in WITHOUT_TORCH or top not in TORCH
        if not fine:
            wrong.append(f"{module} imports {name}")
    return wrong


def forbidden(source: str, module: str) -> list[str]:
    """Calls and names that stand nowhere in the package."""
    result = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute | ast.Name | ast.Constant):
            name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "value", None)
            if name in ("load_from_checkpoint", "estimated_stepping_batches"):
                result.append(str(name))
        if isinstance(node, ast.Call):
            result.extend(forbidden_call(node, module))
    result.extend(
        n
        for n in imports(source, module)
        if n.split(".")[0] in ("pickle", "cloudpickle", "dill", "marshal") and n not in RESTRICTED_PICKLE
    )
    result.extend(n for n in imports(source, module) if n in ("yaml.load", "os.system", "os.popen"))
    return [f"{module}: {what}" for what in result]


# To subclass it with a `find_class` that allows known names only; its tests show that no code of a file runs.
RESTRICTED_PICKLE = ("pickle.Unpickler", "pickle.UnpicklingError")


def forbidden_call(node: ast.Call, module: str) -> Iterator[str]:
    """Returns the problem of a call."""
    name, owner = called(node), ""
    if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        owner = node.func.value.id
    keywords = {k.arg: k.value.value for k in node.keywords if isinstance(k.value, ast.Constant)}
    if keywords.get("shell"):
        yield "shell=True"
    if keywords.get("weights_only") is False:
        yield "weights_only=False"
    if (owner, name) == ("torch", "load") and keywords.get("weights_only") is not True:
        yield "torch.load without weights_only=True"
    if owner == "os" and name in ("system", "popen"):
        yield f"os.{name}"
    if isinstance(node.func, ast.Name) and name in ("eval", "exec"):
        yield f"{name}()"
    if owner == "yaml" and "load" in name and not name.startswith("safe_") and module != "repro.yamls":
        yield f"yaml.{name} outside recipe.py"


def identifiers(source: str) -> set[str]:
    """Every name that a module defines or uses."""
    result = set()
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "attr", "name", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                result.add(value)
    return result


def paper_names(names: set[str]) -> set[str]:
    """Returns the names that contain a paper's name."""
    return {n for n in names if any(p in n.lower().replace("_", "") for p in PAPER_NAMES)}


def heavy_after(modules: list[str], heavy: set[str]) -> set[str]:
    """Returns the heavy packages that a fresh interpreter has loaded after these imports."""
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        f"print(*(name for name in {sorted(heavy)!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def modules_in(*layers: str) -> list[str]:
    """The modules of some layers, as far as they exist."""
    return [name_of(p).removesuffix(".__init__") for p in FILES if layer_of(name_of(p)) in layers]


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_down_only(path: Path) -> None:
    assert wrong_imports(path.read_text(encoding="utf-8"), name_of(path)) == []


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_forbidden(path: Path) -> None:
    assert forbidden(path.read_text(encoding="utf-8"), name_of(path)) == []


def test_no_papers_name_in_the_block_library() -> None:
    result = {
        name_of(p): paper_names(identifiers(p.read_text(encoding="utf-8")))
        for p in (PACKAGE / "nn").rglob("*.py")
    }
    assert result, "repro/nn has no modules"
    assert {k: v for k, v in result.items() if v} == {}
    assert paper_names({p.stem for p in (PACKAGE / "nn").rglob("*")}) == set()


def test_recipes_launch_and_command_line_load_quickly() -> None:
    modules = [*modules_in("cli", "launch", "recipe", "record", "mirror"), "repro.report"]
    modules.remove("repro.mirror.__main__")  # a process
    assert {"repro.cli.main", "repro.launch", "repro.recipe", "repro.report"} <= set(modules)
    assert heavy_after(modules, HEAVY) == set()


def test_reports_load_without_torch() -> None:
    assert heavy_after(modules_in("report"), TORCH) == set()


def test_a_heavy_import_would_be_seen() -> None:
    assert heavy_after(["sacrebleu"], HEAVY) == {"sacrebleu"}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("repro.errors", "import repro.paths"),
        ("repro.recipe", "from repro import record"),
        ("repro.record", "def f():\n    import torch"),
        ("repro.nn.mixer", "from repro.errors import UserError"),
        ("repro.nn.mixer", "import numpy"),
        ("repro.nn.mixer", "from ..models import x"),
        ("repro.models.x", "from repro.tasks import y"),
        ("repro.tasks.x", "def f():\n    from repro.experiment import run"),
        ("repro.data.x", "from repro import nn"),
        ("repro.data.x", "import repro.cli.main"),
        ("repro.report.x", "def f():\n    import lightning.pytorch"),
        ("repro.report.x", "import importlib\nimportlib.import_module('torch')"),
        ("repro.launch.x", "from repro.models import y"),
        ("repro.experiment.x", "from repro.report import y"),
        ("repro.cli.x", "import benchmarks.speed"),
        ("repro.cli.x", "from repro.nn import Mixer"),
    ],
)
def test_a_wrong_arrow_is_seen(module: str, source: str) -> None:
    assert len(wrong_imports(source, module)) == 1


def test_a_new_layer_must_be_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(MAY_IMPORT, "launch")
    assert "no layer" in wrong_imports("", "repro.launch.x")[0]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "import pickle as Unpickler",
        "torch.load(p, weights_only=False)",
        "torch.load(p)",
        "M.load_from_checkpoint(p)",
        "n = trainer.estimated_stepping_batches",
        "getattr(trainer, 'estimated_stepping_batches')",
        "yaml.load(t, Loader=L)",
        "yaml.unsafe_load(t)",
        "from yaml import load",
        "subprocess.run(c, shell=True)",
        "os.system(c)",
        "from os import system",
        "eval(t)",
        "def f():\n    exec(t)",
    ],
)
def test_a_forbidden_thing_is_seen(source: str) -> None:
    assert forbidden(source, "repro.cli.x")


def test_harmless_look_alikes_pass() -> None:
    source = (
        "model.eval()\nyaml.safe_load(t)\ntorch.load(p, weights_only=True)\nsubprocess.run(c, shell=False)"
    )
    assert forbidden(source, "repro.cli.x") == []
    assert forbidden("yaml.load(t, Loader=L)", "repro.yamls") == []


def test_a_papers_name_is_seen() -> None:
    assert paper_names(
        identifiers("class TransformerXLBlock: pass\ndef admin_init(reformer_rounds): ...")
    ) == {
        "TransformerXLBlock",
        "admin_init",
        "reformer_rounds",
    }
    assert paper_names({"TransformerEncoderLayer", "perform", "linear"}) == set()
