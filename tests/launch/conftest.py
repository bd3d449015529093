"""A small world of recipes, published rows and cluster profiles below tmp_path."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from repro.launch.slurm.render import Places
from repro.launch.targets import RunSpec
from repro.recipe import Recipe, load_recipe
from repro.record import RunRecord, write_record
from repro.seeds import SeedChoice

BASE = """
title: base
trainer: {max_steps: 10}
data: {class_path: x.Data, init_args: {store: pairs}}
scales:
  paper: {hours: 12, devices: 8, hardware: NVIDIA P100}
  cpu: {hours: 0.5, hardware: 2 CPU cores, set: {trainer.max_steps: 2}}
"""
GRID = """
title: grid
points:
  a: {trainer.max_steps: 1}
  b: {trainer.max_steps: 2}
trainer: {max_steps: 10}
"""
PUBLISHED = """
tables:
  - id: table2
    ours:
      - {run: alpha/base, row: small-row, measured: {bleu: test/bleu}}
      - {run: alpha/grid@a, row: big-row, measured: {bleu: test/bleu}}
    rows: [{id: small-row}, {id: big-row}, {id: unbuilt-row}]
  - id: table3
    ours:
      - {run: alpha/base, row: small-row, measured: {ppl: test/ppl}}
      - {run: alpha/grid@b, row: b-row, measured: {ppl: test/ppl}}
    rows: [{id: small-row}, {id: b-row}]
  - {id: table9, rows: [{id: other}]}
"""
PROFILE = """
account: proj
partition: gpu,long
qos: normal
constraint: a100|h100
reservation: course
time: "1-00:00:00"
nodes: 2
gpus_per_node: 4
cpus_per_task: 6
mem: 64G
max_parallel: 3
max_requeues: 7
modules: [cuda/12.8]
setup: ["source .venv/bin/activate"]
env: {NCCL_DEBUG: WARN, NCCL_IB_DISABLE: 1}
stall_s: 900
stage_data: $TMPDIR
"""


@dataclass
class World:
    """Folders of the test's own project."""

    root: Path

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def record(self, spec: RunSpec, config_hash: str | None = None) -> None:
        """Writes the record of a finished run."""
        recipe = spec.recipe
        config_hash = config_hash or load_recipe(recipe.experiment, recipe.scale).config_hash
        write_record(
            RunRecord(
                experiment=recipe.experiment, scale=recipe.scale, seed=spec.seed, run_id=spec.run_id,
                command="repro run", config={}, config_hash=config_hash, commit=None, dirty=None,
                versions={}, hardware={}, precision="32", data={}, parameters=1, steps=1, tokens=1,
                wall_seconds=1.0, gpu_hours=0.0, peak_bytes=1, metrics=[], curves={}, checkpoint_sha256=None,
                outputs_sha256=None, finished="2026-01-02T03:04:05Z",
            ),
            self.root / "results" / "runs",
        )  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)
    made.write("configs/alpha/base.yaml", BASE)
    made.write("configs/alpha/grid.yaml", GRID)
    made.write("configs/beta/only.yaml", "title: only\ntrainer: {max_steps: 3}\n")
    made.write("results/published/alpha.yaml", PUBLISHED)
    made.write("clusters/site.yaml", PROFILE)
    made.write(".venv/bin/activate", "")
    made.write("clusters/cpu.yaml", 'time: "01:00:00"\ngpus_per_node: 0\ntasks_per_node: 2\n')
    for name in ("configs", "results", "runs", "data", "clusters"):
        monkeypatch.setenv(f"REPRO_{name.upper()}", str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Places:
    """Folders that are the same on every machine."""
    monkeypatch.setenv("REPRO_RUNS", "/scratch/me/runs")
    submission = Path("/scratch/me/runs/slurm/20260102T030405Z-abcdef")
    variables = {
        f"REPRO_{n.upper()}": Path(f"/scratch/me/{n}") for n in ("data", "results", "runs", "trials")
    }
    variables = {"REPRO_CONFIGS": submission / "code" / "configs", **variables}
    return Places(Path("/home/me/suite"), submission, variables)


def named(*seeds: int) -> SeedChoice:
    """These seeds of every recipe."""
    return SeedChoice(named=seeds)


def spec(
    experiment: str = "alpha/base", scale: str = "paper", seed: int = 1, store: str = "pairs", *overrides: str
) -> RunSpec:
    """A run whose hash is always the same."""
    recipe = Recipe(experiment, scale, {"data": {"init_args": {"store": store}}}, overrides)
    vars(recipe)["config_hash"] = "0123456789abcdef" * 4
    return RunSpec(recipe, seed)
