"""Run by test_ranks.py in several real processes: trains or tests a tiny recipe and prints what rank 0 found.

Usage: python ranks.py EXPERIMENT train|test WORLD PARTS EVALUATION_TOKENS OUT
"""

import json
import sys
from pathlib import Path

from repro.experiment.session import prepare
from repro.experiment.trainer import quiet
from repro.recipe import Recipe, load_recipe
from tests.workshop import TINY

STEPS = 20
NO_DROPOUT = {"model.net.blocks.mixers.0.dropout": 0.0}


def recipe(experiment: str, world: int, parts: int, budget: int) -> Recipe:
    """One of the workshop's recipes without dropout, on ``world`` processes."""
    settings = {
        "model.net.dropout": 0.0,
        "model.net.blocks.sublayer.dropout": 0.0,
        **({"model.beam": 2, "data.eval_batch_tokens": budget} if experiment == TINY else NO_DROPOUT),
        "trainer.max_steps": STEPS,
        "trainer.val_check_interval": STEPS,
        "trainer.devices": world,
        "trainer.accumulate_grad_batches": parts,
    }
    if world > 1:
        settings["trainer.strategy"] = "ddp"
    return load_recipe(experiment, "cpu", list(settings.items()))


def main(experiment: str, what: str, world: int, parts: int, budget: int, out: Path) -> None:
    quiet()
    run = prepare(recipe(experiment, world, parts, budget), seed=1)
    if what == "train":
        run.trainer.fit(run.parts.task, datamodule=run.parts.data)
        found = {"loss": run.curves.curves["train/loss"], "tokens": run.curves.tokens}
    else:
        run.trainer.test(run.parts.task, datamodule=run.parts.data, verbose=False)
        found = {m.name: [m.value, m.count, m.validation] for m in run.parts.task.measurements()}
        found["outputs"] = run.parts.task.outputs()
    if run.trainer.is_global_zero:
        out.write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:6]), Path(sys.argv[6]))
