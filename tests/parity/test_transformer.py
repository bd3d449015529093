"""Attention Is All You Need: the committed base recipe trains as fairseq does, where both have the same schedule."""

from typing import Any

import pytest

from repro.batches import PairBatch
from tests.models import golden_adaptive, golden_weighted
from tests.parity.golden import Golden, check, read
from tests.parity.pairs import overrides, pairs
from tests.parity.training import Trained, differences, make_task, train

PAPER = "attention-is-all-you-need"
EOS = 2
SET = (
    "The recipe follows tensor2tensor. For this comparison it has fairseq's schedule, positions and both epsilons; "
    "with the epsilon of its own Adam losses differ by 9e-9 and weights by 3e-6."
)
# What fairseq has otherwise than the authors' code, which the recipe follows.
FAIRSEQ = {
    "model.optimizer.class_path": "repro.tasks.EpsilonHatAdam",
    "model.net.blocks.sublayer.eps": 1e-5,
    "model.net.positions": {
        "class_path": "repro.nn.Added",
        "init_args": {"table": {"class_path": "repro.nn.SplitSinusoids", "init_args": {"first": 2}}},
    },
}


def batches(golden: Golden) -> list[list[PairBatch]]:
    """The micro-batches of every update; the end symbol stands in front of each target."""
    steps, given = [], golden.under("batch")
    for update in range(golden.updates):
        totals = [int(given[f"target_lengths{update}.{part}"].sum()) for part in range(2)]
        steps.append([_batch(given, f"{update}.{part}", sum(totals)) for part in range(2)])
    return steps


def _batch(given: dict[str, Any], place: str, total: int) -> PairBatch:
    source, target = given[f"source{place}"], given[f"target{place}"]
    before = target.roll(1, 1)
    before[:, 0] = EOS
    lengths = given[f"source_lengths{place}"], given[f"target_lengths{place}"]
    return pairs(source, before, target, lengths, total)


def trained_as(golden: Golden, **more: Any) -> Trained:
    """The base recipe, shrunk, trained on a file's batches."""
    settings = golden.meta["settings"]
    schedule = {
        "class_path": "repro.tasks.InverseSquareRoot",
        "init_args": {"warmup_steps": settings["warmup"], "first": 1e-7},
    }
    given = overrides(settings) | FAIRSEQ | {"model.schedule": schedule} | more
    task, arguments = make_task(f"{PAPER}/base", given)
    golden_adaptive.fill(task.module, golden_weighted.both(golden.first_weights))
    return train(task, arguments, batches(golden))


def found(golden: Golden, **more: Any) -> dict[str, float]:
    return differences(trained_as(golden, **more), golden, golden_weighted.both(golden.last_weights))


def test_base() -> None:
    golden = read("transformer_fairseq")
    rows = [row for step in batches(golden) for row in step]
    assert any((row.source_lengths < row.source.shape[1]).any() for row in rows)
    assert any((row.target_lengths < row.target_out.shape[1]).any() for row in rows)
    check(PAPER, golden, found(golden), by_design=[SET])


def test_the_recipes_own_optimiser_is_as_near_as_the_recipe_says() -> None:
    golden = read("transformer_fairseq")
    differing = found(golden, **{"model.optimizer.class_path": "torch.optim.Adam"})
    assert 1e-9 < differing["losses"] < 1e-7
    assert 1e-7 < differing["weights"] < 1e-5
    assert differing["rates"] < 1e-12


@pytest.mark.parametrize(
    "mistake",
    [
        {"model.smoothing_over_all": True},
        {"model.net.blocks.sublayer.eps": 1e-4},
        {"model.optimizer.eps": 1e-8},
    ],
    ids=["smoothing", "norms", "epsilon"],
)
def test_a_mistake_shows(mistake: dict[str, Any]) -> None:
    assert found(read("transformer_fairseq"), **mistake)["weights"] > 1e-6
