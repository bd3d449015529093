"""Puts into wheels what the package reads and what lies beside it here; see repro/paths.py."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# What MANIFEST.in lists, too.
SHARED = (
    "configs",
    "results/competence.json",
    "results/parity.json",
    "results/sizes.json",
    "results/published",
    "results/runs",
    "results/tests",
    "slurm",
    "requirements.lock",
)


class BuildWithShared(build_py):
    """Copies :data:`SHARED` to ``repro/_shared``. An editable install reads them where they are."""

    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        # An earlier build may hold files that are gone by now.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        target = Path(self.build_lib, "repro", "_shared")
        for name in SHARED:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if Path(name).is_dir():
                shutil.copytree(name, target / name, ignore=shutil.ignore_patterns(".*"))
            elif Path(name).is_file():
                shutil.copy(name, target / name)


setup(cmdclass={"build_py": BuildWithShared})
