"""A project of a test's own on the cluster: the workshop's tiny recipe, a cluster profile, and the command line."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.slurm.control import Cluster
from tests.workshop import PROJECT, TINY, Said, Workshop, make_workshop

PYTHON = Path(sys.executable)  # not resolved: the link in bin/ is what makes it a virtual environment's


@dataclass(frozen=True)
class Project:
    """A project in a folder that login node and nodes share.

    Attributes:
        workshop: its configs, results, runs and data.
        cluster: where it submits to.
    """

    workshop: Workshop
    cluster: Cluster

    @property
    def root(self) -> Path:
        return self.workshop.root

    @property
    def clusters(self) -> Path:
        return self.root / "clusters"

    @property
    def env(self) -> dict[str, str]:
        """Variables of a command on the login node; sbatch hands them on to the job."""
        shop = self.workshop
        folders = {"CONFIGS": shop.configs, "RESULTS": shop.results, "RUNS": shop.runs, "DATA": shop.data}
        return {
            **{f"REPRO_{name}": str(folder) for name, folder in folders.items()},
            "REPRO_CLUSTERS": str(self.clusters),
            "PYTHONPATH": str(PROJECT),
            "PATH": f"{self.root / 'bin'}:{PYTHON.parent}:{os.environ['PATH']}",
            "WANDB_MODE": "disabled",
            "OMP_NUM_THREADS": "1",
        }

    def repro(
        self,
        *words: str,
        check: bool = True,
        env: Mapping[str, str] = {},
        timeout: float = 120,
    ) -> Said:
        """Calls ``repro`` in a process of its own on the login node.

        Args:
            words: verb and arguments.
            check: whether exit codes other than 0 fail the test.
            env: variables beside ``self.env``, such as ``WANDB_MODE``; they reach the jobs too.
            timeout: seconds until it is killed and the test fails.
        """
        done = self.cluster.run(
            str(PYTHON), "-m", "repro", *words,
            check=check, env=self.env | dict(env), timeout=timeout, cwd=self.root,
        )  # fmt: skip
        return Said(done.returncode, done.stdout, done.stderr)

    def submit(self, *words: str, cluster: str = "local", scale: str = "cpu") -> list[dict[str, Any]]:
        """``repro submit``; one row for each run, with its ``run_id``, ``state`` and ``job`` (``12_0``)."""
        rows: list[dict[str, Any]] = self.repro(
            "submit", *words, "--cluster", cluster, "--scale", scale, "--json"
        ).json()
        return rows

    def sbatch(self, script: str, *options: str, env: Mapping[str, str] = {}) -> str:
        """Submits a script as the project's user would; returns the job's number."""
        return self.cluster.sbatch(script, *options, env=self.env | dict(env))

    def recipe(self, max_steps: int, change: Mapping[str, Any] = {}) -> None:
        """Rewrites the recipe's cpu scale: how many steps, and any other dotted keys."""
        self.workshop.recipe(yaml.safe_dump({"set": {"trainer.max_steps": max_steps, **change}}), scale="cpu")

    def profile(self, name: str = "local", **changes: Any) -> None:
        """Writes a cluster profile: 2 nodes x 1 rank, five minutes; ``changes`` replace its keys."""
        folders = f"{self.root / 'bin'}:{PYTHON.parent}"
        content = {
            "time": "00:05:00",
            "nodes": 2,
            "gpus_per_node": 0,
            "tasks_per_node": 1,
            "cpus_per_task": 1,
            "setup": [f"export PATH={folders}:$PATH"],
            "env": {"OMP_NUM_THREADS": "1"},
            **changes,
        }
        self.clusters.mkdir(exist_ok=True)
        (self.clusters / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")

    def run_folders(self) -> list[Path]:
        """The folders of the tiny recipe's runs, in the order of their seeds."""
        return sorted((self.workshop.runs / TINY / "cpu").glob("s*"))


def make_project(root: Path, data: Path, cluster: Cluster) -> Project:
    """A project below ``root`` that reads the stores in ``data``."""
    made = Project(make_workshop(root, data), cluster)
    made.profile()
    command = root / "bin" / "repro"
    command.parent.mkdir()
    # What installing writes, for test runs from a checkout that is not installed.
    command.write_text(f'#!/bin/sh\nexec "{PYTHON}" -m repro "$@"\n')
    command.chmod(0o755)
    return made
