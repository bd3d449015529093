"""Importing this module imports torchmetrics, without the packages of metrics that nothing here uses.

torchmetrics, which Lightning imports, loads ``scipy.signal``, ``transformers`` and ``matplotlib.pyplot`` wherever they
are installed: two fifths of the start of a run. Here it finds none of them, and they stay importable for all else.
``Metric.plot``, BERTScore and CLIPScore are then unavailable, with torchmetrics' own error; a program that wants them
imports torchmetrics before this package. Where torchmetrics or ``lightning_utilities`` have changed so that this fails,
the import is the plain one.
"""

import sys
from typing import Any

HIDDEN = ("matplotlib", "scipy", "transformers")


def import_without(names: tuple[str, ...]) -> None:
    """Imports torchmetrics as if some packages were not installed, or plainly where that fails."""
    try:
        from lightning_utilities.core import imports as found

        imports: Any = found
        cache = imports.RequirementCache
        plain, available = cache.__bool__, imports.package_available
    except (ImportError, AttributeError):
        return

    def met(requirement: Any) -> bool:
        if (requirement.requirement or "").startswith(names):
            requirement.available, requirement.message = False, "hidden by repro"
        return plain(requirement)

    cache.__bool__, imports.package_available = met, lambda name: name not in names and available(name)
    try:
        import torchmetrics  # noqa: F401
    except Exception:  # the plain import begins anew
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchmetrics"]:
            del sys.modules[name]
    finally:
        cache.__bool__, imports.package_available = plain, available


if "torchmetrics" not in sys.modules:
    import_without(HIDDEN)
