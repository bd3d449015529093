"""Admin: the committed recipe begins its shortcuts and trains as the authors' code does."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from repro.batches import PairBatch
from repro.nn.layers.shortcut import beginnings
from repro.tasks.optim import profiling
from tests.models import golden_adaptive, golden_weighted
from tests.parity.golden import Golden, check, read
from tests.parity.pairs import overrides, pairs
from tests.parity.report import TRAINING
from tests.parity.training import Trained, difference, differences, make_task, train

PAPER = "admin"


def batches(golden: Golden) -> list[list[PairBatch]]:
    """One batch an update, without padding."""
    steps = []
    for source, before, target in zip(golden["source"], golden["before"], golden["target"], strict=True):
        lengths = [torch.full((len(ids),), ids.shape[1]) for ids in (source, target)]
        steps.append([pairs(source, before, target, (lengths[0], lengths[1]), target.numel())])
    return steps


def unprofiled(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights with every omega as it is before profiling."""
    return {name: torch.ones_like(w) if name.endswith("omega") else w for name, w in weights.items()}


def trained_as(golden: Golden, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Trained:
    """The recipe of IWSLT14, shrunk, profiled on a file's first batch and trained on all."""
    settings, steps = golden.meta["settings"], batches(golden)
    given = {
        "model.optimizer.weight_decay": settings["wd"],
        "model.schedule.warmup_steps": settings["warmup"],
    }
    task, arguments = make_task(f"{PAPER}/iwslt14@adaptive", overrides(settings) | given | more)
    golden_adaptive.fill(task.module, unprofiled(golden_weighted.both(golden.first_weights)))
    data = SimpleNamespace(trainer=None, num_workers=0, train_dataloader=lambda: steps[0])
    monkeypatch.setattr(profiling, "datamodule_of", lambda trainer: data)
    return train(task, arguments, steps)


def omegas(golden: Golden, trained: Trained) -> float:
    """Difference of the shortcuts' first values; the file has a line for each sublayer, encoder first."""
    result = beginnings(trained.task.module)
    assert list(result) == ["encoder", "decoder"]
    flat = [value for values in result.values() for value in values]
    return difference(torch.tensor(flat, dtype=torch.float64), golden["profile"][:, 1])


def test_iwslt14(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read("admin_iwslt14")
    trained = trained_as(golden, monkeypatch)
    result = differences(trained, golden, golden_weighted.both(golden.last_weights))
    check(PAPER, golden, result | {"omegas": omegas(golden, trained)}, {**TRAINING, "omegas": 1e-12})


@pytest.mark.parametrize(
    "mistake",
    [
        {"model.smoothing_over_all": False},
        {"model.optimizer.class_path": "torch.optim.RAdam", "model.optimizer.decoupled_weight_decay": True},
        {"model.optimizer.weight_decay": 0.0},
    ],
    ids=["smoothing", "first steps", "decay"],
)
def test_a_mistake_shows(mistake: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read("admin_iwslt14")
    trained = trained_as(golden, monkeypatch, **mistake)
    result = differences(trained, golden, golden_weighted.both(golden.last_weights))
    assert result["weights"] > 1e-6, result
    assert omegas(golden, trained) < 1e-12
