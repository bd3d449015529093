"""Learning rates by the names of parameters: groups, schedules, what a recipe may say, and a run that is resumed."""

from functools import partial
from typing import Any

import pytest
import torch

from repro import recipe as recipes
from repro.errors import UserError
from repro.events import EVENTS_FILE
from repro.experiment.build import build
from repro.experiment.run import run
from repro.recipe import Recipe, load_recipe
from repro.tasks import DecayedMatrices, LinearDecay, RatesByName
from repro.training.checkpoints import checkpoints, manifest_path, read, step_of
from tests.experiment.runner import differences
from tests.workshop import STICKY_RECIPE, STREAM, STREAM_RECIPE, Workshop

ADAM = "{class_path: torch.optim.Adam, init_args: {lr: 0.01}}"
RATES = "{class_path: repro.tasks.RatesByName, init_args: {rates: RATES, optimizer: " + ADAM + "}}"


def parameters(*names: str) -> dict[str, torch.nn.Parameter]:
    return {name: torch.nn.Parameter(torch.ones(1)) for name in names}


def named(maker: RatesByName, given: dict[str, torch.nn.Parameter]) -> dict[float, list[str]]:
    """The names of the parameters of each rate, in the order of the groups."""
    of = {id(p): name for name, p in given.items()}
    groups = maker(maker.groups(given)).param_groups
    return {group["lr"]: [of[id(p)] for p in group["params"]] for group in groups}


def test_a_name_chooses_whole_parts_and_the_rest_comes_first() -> None:
    given = parameters(
        "net.a.long.w", "net.a.w", "net.longer.w", "net.long", "net.b.long.mean.w", "net.b.mean.w"
    )
    maker = RatesByName(partial(torch.optim.SGD, lr=0.5), {"long.mean": 3.0, "long": 2.0, "other": None})
    result = named(maker, given)
    assert result == {
        0.5: ["net.a.w", "net.longer.w", "net.b.mean.w"],
        3.0: ["net.b.long.mean.w"],
        2.0: ["net.a.long.w", "net.long"],
    }
    assert list(result) == [0.5, 3.0, 2.0]


def test_only_matrices_decay() -> None:
    given = {"w": torch.ones(2, 3), "b": torch.ones(3), "table": torch.ones(2, 2, 2), "gain": torch.ones(())}
    weights = {name: torch.nn.Parameter(tensor) for name, tensor in given.items()}
    maker = DecayedMatrices(partial(torch.optim.AdamW, lr=0.5, weight_decay=0.1))
    optimizer = maker(maker.groups(weights))
    assert [g["weight_decay"] for g in optimizer.param_groups] == [0.1, 0.0]
    for parameter in weights.values():
        parameter.grad = torch.zeros_like(parameter)
    maker.before_step(optimizer)
    optimizer.step()
    assert {name: float(p.detach().max()) for name, p in weights.items()} == pytest.approx(
        {"w": 0.95, "b": 1.0, "table": 0.95, "gain": 1.0}
    )
    assert len(maker.groups({"w": weights["w"]})) == 1
    with pytest.raises(ValueError, match="two dimensions"):
        maker.groups({"b": weights["b"]})


def test_a_schedule_multiplies_every_rate() -> None:
    maker = RatesByName(partial(torch.optim.SGD, lr=0.5), {"long": 2.0})
    optimizer = maker(maker.groups(parameters("w", "long.w")))
    schedule, result = LinearDecay(optimizer, 4), []
    for _ in range(6):
        result.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    assert result == [[0.5 * s, 2.0 * s] for s in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0)]
    with pytest.raises(ValueError, match="0"):
        LinearDecay(optimizer, 0)


@pytest.mark.parametrize(
    ("rates", "message"),
    [({}, "empty"), ({"a": None}, "empty"), ({"a": 0.0}, "rates.a"), ({"a": float("nan")}, "nan")],
)
def test_rates_out_of_range_are_refused(rates: dict[str, float | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RatesByName(torch.optim.Adam, rates)


def stream(
    workshop: Workshop, rates: str, name: str = "rates", steps: int = 6, recipe: str = STREAM_RECIPE
) -> str:
    """A recipe of a small language model whose optimiser has rates of its own."""
    text = recipe.replace(f"optimizer: {ADAM}", f"optimizer: {RATES.replace('RATES', rates)}")
    text = (
        text.replace("average_last: 2", "average_last: 1, keep: 9")
        .replace("max_steps: 2", f"max_steps: {steps}")
        .replace("steps: 2, warmup", f"steps: {steps}, warmup")
    )
    assert "RatesByName" in text
    paper = STREAM.partition("/")[0]
    workshop.recipe(text, name, paper=paper)
    workshop.recipe("{}\n", name, "cpu", paper)
    recipes.forget_files()
    return f"{paper}/{name}"


def test_a_recipe_has_two_rates(workshop: Workshop) -> None:
    task: Any = build(load_recipe(stream(workshop, "{mix: 0.05}"), "cpu")).task
    optimizer = task.optimizer_maker(task.trained_parameters())
    sizes = [sum(p.numel() for p in group["params"]) for group in optimizer.param_groups]
    mixing = sum(p.numel() for name, p in task.named_parameters() if ".mix." in name)
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.05]
    assert sizes == [sum(p.numel() for p in task.parameters()) - mixing, mixing]


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ("{mixer: 0.05}", "rates.mixer"),
        ("{net: 0.05}", "every parameter"),
        ("{mix: fast}", "'fast'"),
        ("{mix: -1.0}", "-1.0"),
    ],
)  # fmt: skip
def test_rates_that_fit_no_network_are_one_line(workshop: Workshop, rates: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        build(load_recipe(stream(workshop, rates), "cpu"))
    assert "\n" not in str(caught.value)


def moved(checkpoint: dict[str, Any]) -> list[int]:
    """The numbers of steps that parameters took."""
    return sorted({int(state["step"]) for state in checkpoint["optimizer_states"][0]["state"].values()})


def resumed_equals_whole(workshop: Workshop, recipe: Recipe, step: int) -> None:
    """A run of 6 updates is resumed behind one of them and must end as it did."""
    folder = recipe.run_dir(1)
    paths = {step_of(path): path for path in checkpoints(folder / "checkpoints")}
    whole = read(paths[6])
    kept = {paths[step], manifest_path(paths[step]), folder / EVENTS_FILE}
    written = [*folder.rglob("*"), *(workshop.results / "runs").rglob("*")]
    for path in [path for path in written if path.is_file() and path not in kept]:
        path.unlink()
    again = run(recipe, 1, "x")
    result = read(paths[6])
    assert again.steps == 6
    assert len(whole["optimizer_states"][0]["param_groups"]) == 2
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "carried"):
        assert differences(result[part], whole[part], part) == []


@pytest.mark.parametrize("optimizer", ["torch.optim.Adam", "repro.tasks.EpsilonHatAdam"])
def test_a_resumed_run_ends_as_the_whole_one(workshop: Workshop, optimizer: str) -> None:
    swap = ("model.optimizer.optimizer.class_path", optimizer)
    recipe = load_recipe(stream(workshop, "{mix: 0.05}"), "cpu", [swap])
    run(recipe, 1, "x")
    resumed_equals_whole(workshop, recipe, 4)


def waiting(wait: bool, updates: int, begin: int) -> list[float]:
    """A weight ``long.w`` after each update; before ``begin`` its gradients are the zeros of distributed training."""
    given = parameters("w", "long.w")
    maker = RatesByName(partial(torch.optim.AdamW, lr=0.5, weight_decay=0.1), {"long": 0.25}, wait)
    optimizer, result = maker(maker.groups(given)), []
    for update in range(updates):
        given["w"].grad = torch.ones(1)
        given["long.w"].grad = torch.full((1,), 0.3 if update % 2 == begin % 2 and update >= begin else 0.0)
        maker.before_step(optimizer)
        optimizer.step()
        result.append(float(given["long.w"].detach()))
        if update == 1:  # as a run that is resumed: from what checkpoints hold
            again = maker(maker.groups(given))
            again.load_state_dict(optimizer.state_dict())
            optimizer = again
    return result


def test_a_parameter_may_wait_for_its_first_gradient() -> None:
    late, soon = waiting(True, 7, begin=3), waiting(True, 4, begin=0)
    assert late[:3] == [1.0] * 3, "no step, no decay"
    assert late[3:] == soon, "then as if training had begun there; later zeros are gradients"
    assert waiting(False, 7, begin=3)[2] != 1.0
    assert waiting(False, 4, begin=0) == soon


@pytest.mark.parametrize("step", [1, 4], ids=["before the first block", "behind it"])
def test_memories_that_wait_do_so_in_a_resumed_run_too(workshop: Workshop, step: int) -> None:
    recipe = load_recipe(
        stream(workshop, "{long: 0.05}, wait_for_gradient: true", recipe=STICKY_RECIPE), "cpu"
    )
    run(recipe, 1, "x")
    counts = [moved(read(path)) for path in checkpoints(recipe.run_dir(1) / "checkpoints")]
    assert counts == [[1], [2], [1, 3], [2, 4], [3, 5], [4, 6]], (
        "a block of 4 enters a memory behind 4 + 4 tokens"
    )
    resumed_equals_whole(workshop, recipe, step)
