"""Trains or tests a tiny recipe in several real processes and writes down what rank 0 found, for test_ranks.py.

Ranks are forked by forks.py; as a program it leaves starting them to Lightning:
python ranks.py EXPERIMENT train|test|both WORLD PARTS EVALUATION_TOKENS OUT
"""

import json
import sys
from pathlib import Path
from typing import Any

from repro.experiment.run import part
from repro.experiment.session import prepare
from repro.experiment.trainer import quiet
from repro.recipe import Recipe, load_recipe
from tests.workshop import BITS, COMPILED, STICKY, STREAM, TALK, TINY

STEPS = 20
_SUMS = {"model.net.dropout": 0.0, "model.net.blocks.sublayer.dropout": 0.0}
NO_DROPOUT = {
    TINY: _SUMS,
    STREAM: _SUMS | {"model.net.blocks.mixers.0.dropout": 0.0},
    COMPILED: _SUMS | {"model.net.blocks.mixers.0.dropout": 0.0},
    STICKY: _SUMS | {"model.net.blocks.mixers.0.short_term.dropout": 0.0},
    TALK: _SUMS | {"model.net.blocks.mixers.0.short_term.dropout": 0.0},
    BITS: {"model.net.input.dropout": 0.0, "model.net.body.dropout": 0.0},
}
# Of plain SGD: Adam would hide a wrong factor, as its steps do not depend on the scale of the gradients.
RATE = {TINY: 1.0, STREAM: 0.3, COMPILED: 0.3, STICKY: 0.3, TALK: 0.3, BITS: 0.3}


def recipe(experiment: str, world: int, micro_batches: int, budget: int) -> Recipe:
    """One of the workshop's recipes without dropout, on ``world`` processes."""
    settings = {
        **NO_DROPOUT[experiment],
        "model.optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": RATE[experiment]}},
        **({"model.beam": 2, "data.eval_batch_tokens": budget} if experiment == TINY else {}),
        "trainer.max_steps": STEPS,
        "trainer.val_check_interval": STEPS,
        "trainer.devices": world,
        "trainer.accumulate_grad_batches": micro_batches,
    }
    if world > 1:
        settings["trainer.strategy"] = "ddp"
    return load_recipe(experiment, "cpu", list(settings.items()))


def main(experiment: str, what: str, world: int, micro_batches: int, budget: int, out: Path) -> None:
    quiet()
    run = prepare(
        recipe(experiment, world, micro_batches, budget), seed=2
    )  # whose first replies score above 0
    task, data, result = run.parts.task, run.parts.data, {}
    if what != "train":  # before training: the same weights at any world size
        run.trainer.test(task, datamodule=data, verbose=False)
        result |= {m.name: [m.value, m.count, m.validation] for m in task.measurements()}
        result["outputs"] = task.outputs()
    if what != "test":
        run.trainer.fit(task, datamodule=data)
        result |= {"loss": run.curves.curves["train/loss"], "tokens": run.curves.tokens}
    if run.trainer.is_global_zero:
        out.write_text(json.dumps(result))


def forked(asked: dict[str, Any], rank: int) -> None:
    """One rank of an attempt that forks.py is asked for."""
    words = (asked[name] for name in ("experiment", "what", "ranks", "micro_batches", "budget"))
    main(*words, Path(asked["out"]))
    part()


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:6]), Path(sys.argv[6]))
