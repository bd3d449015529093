"""A small house: one published paper, recipes and records, all below a temporary folder."""

import dataclasses
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml

from repro import recipe
from repro.evidence.ledger import declarations
from repro.ledger import HEADER, Line
from repro.recipe import load_recipe
from repro.record import LEDGER, Measurement, RunRecord, read_records, write_record
from tests.recipe_files import write_recipe

PUBLISHED = """
schema_version: 1
paper:
  key: toy
  title: A Toy Paper
  authors: [Ada Lovelace, Alan Turing]
  year: 2020
  venue: Toys 2020
  arxiv: '2001.00001'
  url: https://arxiv.org/abs/2001.00001
  official_code: [https://github.com/toy/toy]
  version_used: v1
tables:
  - id: table1
    number: Table 1
    title: Toys
    dataset: toy-text
    split: test
    metrics:
      bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 0.5, set: '2026-01-01'}, description: 'sacreBLEU', updates: 100}
      ppl: {unit: perplexity, better: lower, class: trained, margin: {size: 1%, set: '2026-01-01'}, description: 'per word', updates: 100}
      speed: {unit: tokens/s, better: higher, class: timed, description: 'while training'}
    rows:
      - {id: big, label: Big, model: toy, is_this_papers_model: true, params: 2000, settings: {}, values: {bleu: 30.0, ppl: 4.0}}
      - {id: base, label: Base, model: toy, is_this_papers_model: true, params: 1000, settings: {}, values: {bleu: 28.0, ppl: 5.0, speed: 900}}
      - {id: small, label: Small, model: toy, is_this_papers_model: true, params: null, settings: {}, values: {bleu: 27.8}}
      - {id: drawn, label: Drawn, model: toy, is_this_papers_model: true, params: null, settings: {}, values: {}}
      - {id: rival, label: Rival, model: rnn, is_this_papers_model: false, params: null, settings: {}, values: {bleu: 20.0}}
    checked: arXiv source
    notes: Toys are small.
  - id: external-rerun
    number: external
    title: Somebody's rerun
    dataset: toy-text
    split: test
    metrics:
      bleu: {unit: BLEU, better: higher, class: trained, margin: {size: 0.5, set: '2026-01-01'}, description: 'sacreBLEU'}
    rows:
      - {id: rerun, label: Rerun, model: toy, is_this_papers_model: true, params: null, settings: {}, values: {bleu: 29.0}}
    checked: nowhere
    unconfirmed: true
    notes: ''
claims:
  - {id: bigger-is-better, says: Bigger is better., table: table1, metric: bleu, order: [big, base, small]}
  - {id: base-ties-small, says: Base and small are alike., table: table1, metric: bleu, order: [base, small]}
  - {id: lower-perplexity, says: Bigger is surer., table: table1, metric: ppl, order: [big, base]}
missing: [Seeds]
"""  # noqa: E501

TEST = """
  - claim: bigger-is-better
    attempt: 1
    says: Big has more BLEU than base after 100 updates.
    scale: small
    measured: test/bleu
    tuned: nothing
    rows: {big: toy/big, base: toy/base}
    core_hours: 0.5
"""
UNTESTED = """
untested:
  base-ties-small: {gpu_hours: 8}
  lower-perplexity: {missing: the toys, why: nobody sells them}
"""
HEAD = """
schema_version: 1
paper: toy
"""
TESTS = f"{HEAD}picture: bigger-is-better/1\ntests:{TEST}{UNTESTED}"

GOAL = "{table: table1, row: %s, metric: %s, measured: test/bleu%s}"
RECIPE = """
title: Toy
trainer: {{max_steps: 100}}
model: {{class_path: repro.tasks.Translation, init_args: {{width: {width}}}}}
"""
SCALE = "set: {{model.width: {width}}}\n"


class House:
    """Writes recipes and records below ``root`` and reads them back through the code under test."""

    def __init__(self, root: Path) -> None:
        self.results = root / "results"
        self.configs = root / "configs"
        self.held: dict[str, list[Any]] = {}  # goals by experiment
        self.publish(PUBLISHED)
        self.test(TESTS)
        (self.configs / "toy").mkdir(parents=True)

    def publish(self, text: str, key: str = "toy") -> None:
        """Writes a published file; that of the toys gets the goals of the recipes as ``ours`` of its tables."""
        path = self.results / "published" / f"{key}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        if key == "toy":
            self.text = text
            text = self._with_goals(text)
        path.write_text(text)

    def _with_goals(self, text: str) -> str:
        goals = [(name, goal) for name, goals in self.held.items() for goal in goals]
        published = yaml.safe_load(text) if goals else {}
        for table in published.get("tables", ()):
            table["ours"] = [
                {"run": name, "row": goal["row"], "measured": {goal["metric"]: goal["measured"]}}
                for name, goal in goals
                if goal["table"] == table["id"]
            ]
        return yaml.safe_dump(published, sort_keys=False) if goals else text

    def hold(self, experiment: str, *goals: str) -> None:
        """Holds the runs of an experiment against these cells, and no others: ``{table, row, metric, measured}``."""
        self.held[experiment] = [yaml.safe_load(goal) for goal in goals]
        self.publish(self.text)

    def test(self, text: str, key: str = "toy") -> None:
        """The file of tests of a paper. The one that each house begins with has one test, which is planned."""
        path = self.results / "tests" / f"{key}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def declare(self, text: str = TEST, at: str = "2026-01-01T12:00:00Z", untested: str = UNTESTED) -> None:
        """Tests that were declared, with their lines in the ledger; the recipes of their runs must be there.

        Args:
            text: entries below ``tests``, without dates.
            at: time of the declaration; the first records of :func:`make_record` are of the day after the default.
            untested: the rest of the file.
        """
        dated = text.replace("\n    attempt:", f"\n    declared: {at[:10]}\n    attempt:")
        self.test(f"{HEAD}tests:{dated}{untested}")
        path = self.results / "runs" / LEDGER
        path.parent.mkdir(parents=True, exist_ok=True)
        known = path.read_text() if path.is_file() else f"{HEADER}\n"
        declared, _ = declarations(read_records(path.parent))
        lines = [Line(at, "declared", name, sha256) for name, sha256 in declared.items()]
        path.write_text(known + "".join(f"{line}\n" for line in lines if line.path not in known))

    def recipe(self, row: str, *goals: str, width: int = 8, name: str | None = None, scale: str = "") -> str:
        """A recipe of one row, or one of its scales; goals default to its BLEU."""
        if not scale:
            self.hold(f"toy/{name or row}", *(goals or (GOAL % (row, "bleu", ""),)))
        return self.write(name or row, (SCALE if scale else RECIPE).format(width=width), scale)

    def write(self, name: str, text: str, scale: str = "") -> str:
        """A recipe as it stands, or the entry of a scale; which files there are is cached for the life of a command."""
        recipe.forget_files()
        write_recipe(self.configs / "toy" / f"{name}.yaml", text, scale)
        return f"toy/{name}"

    def run(
        self, experiment: str, values: list[float], scale: str = "paper", **changes: Any
    ) -> list[RunRecord]:
        """Records of seeds 1, 2, ... with these test BLEUs; ``changes`` replace fields of the record."""
        return [
            self.record(experiment, seed, value, scale, **changes) for seed, value in enumerate(values, 1)
        ]

    def record(
        self, experiment: str, seed: int, value: float, scale: str = "paper", **changes: Any
    ) -> RunRecord:
        """One record, written."""
        made = make_record(experiment, seed, value, scale)
        made = dataclasses.replace(made, **changes)
        write_record(made, self.results / "runs")
        return made


def make_record(experiment: str, seed: int, value: float, scale: str = "paper") -> RunRecord:
    """A record of the recipe as it stands, with one test BLEU."""
    made = load_recipe(experiment, scale)
    return RunRecord(
        experiment=experiment,
        scale=scale,
        seed=seed,
        run_id=made.run_id(seed),
        command=f"repro run {experiment} --scale {scale} --seed {seed}",
        config=made.config,
        config_hash=made.config_hash,
        commit="0123456789abcdef",
        dirty=False,
        versions={"torch": "2.13.0"},
        hardware={"device": "CPU", "count": 1},
        precision="32-true",
        data={"name": "toy-text", "manifest_sha256": "a" * 64},
        parameters=1234,
        steps=100,
        tokens=5000,
        wall_seconds=61.0,
        gpu_hours=0.0,
        peak_bytes=2**20,
        metrics=[Measurement("test/bleu", value, "BLEU", "test", {"beam": 4}, 50, value + 1.0)],
        curves={"train/loss": [[0, 3.0], [50, 2.0], [100, 1.5]], "val/bleu": [[50, 10.0], [100, value]]},
        checkpoint_sha256=None,
        outputs_sha256=None,
        finished=f"{date(2026, 1, 1) + timedelta(days=min(seed, 9999))}T00:00:00Z",
    )
