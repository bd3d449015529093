"""The start of a run without the packages that torchmetrics would import: what is hidden, and what stays as it was."""

import subprocess
import sys

CODE = """
import sys
from importlib.abc import MetaPathFinder
from lightning_utilities.core import imports

plain = imports.RequirementCache.__bool__, imports.package_available
hidden = {"scipy", "transformers", "matplotlib"}

class Broken(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchmetrics.functional":
            raise RuntimeError("torchmetrics has changed")

def restored():
    return (imports.RequirementCache.__bool__, imports.package_available) == plain

sys.meta_path.insert(0, Broken())
import repro.torchmetrics_import as quick
assert restored(), "a failed import is undone"
assert not [name for name in sys.modules if name.startswith("torchmetrics")], "the plain import begins anew"
sys.meta_path.pop(0)

quick.import_without(quick.HIDDEN)
assert restored()
found = hidden & sys.modules.keys()
assert not found, f"torchmetrics imports {found} in another way: see repro/torchmetrics_import.py"
import torchmetrics
metric = torchmetrics.MeanMetric()
metric.update(3.0)
assert metric.compute() == 3.0
try:
    metric.plot()
except ModuleNotFoundError as error:
    assert "matplotlib" in str(error)
assert bool(imports.RequirementCache("scipy")) and imports.package_available("scipy")
import scipy.signal
"""


def test_torchmetrics_finds_no_heavy_package_and_all_else_does() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
