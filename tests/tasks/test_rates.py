"""Learning rates by the names of parameters: groups, schedules, what a recipe may say, and a run that is resumed."""

from functools import partial
from typing import Any

import pytest
import torch

from repro import recipe as recipes
from repro.checkpoints import checkpoints, manifest_path, read, step_of
from repro.errors import UserError
from repro.experiment.build import build
from repro.experiment.run import run
from repro.recipe import load_recipe
from repro.tasks import LinearDecay, RatesByName
from tests.experiment.runner import differences
from tests.workshop import STREAM, STREAM_RECIPE, Workshop

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
    found = named(maker, given)
    assert found == {
        0.5: ["net.a.w", "net.longer.w", "net.b.mean.w"],
        3.0: ["net.b.long.mean.w"],
        2.0: ["net.a.long.w", "net.long"],
    }
    assert list(found) == [0.5, 3.0, 2.0]


def test_a_schedule_multiplies_every_rate() -> None:
    maker = RatesByName(partial(torch.optim.SGD, lr=0.5), {"long": 2.0})
    optimizer = maker(maker.groups(parameters("w", "long.w")))
    schedule, found = LinearDecay(optimizer, 4), []
    for _ in range(6):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    assert found == [[0.5 * s, 2.0 * s] for s in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0)]
    with pytest.raises(ValueError, match="0"):
        LinearDecay(optimizer, 0)


@pytest.mark.parametrize(
    ("rates", "said"),
    [({}, "empty"), ({"a": None}, "empty"), ({"a": 0.0}, "rates.a"), ({"a": float("nan")}, "nan")],
)
def test_rates_out_of_range_are_refused(rates: dict[str, float | None], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RatesByName(torch.optim.Adam, rates)


def stream(workshop: Workshop, rates: str, name: str = "rates", steps: int = 6) -> str:
    """A recipe of a small language model whose optimiser has rates of its own."""
    text = STREAM_RECIPE.replace(f"optimizer: {ADAM}", f"optimizer: {RATES.replace('RATES', rates)}")
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
    ("rates", "said"),
    [
        ("{mixer: 0.05}", "rates.mixer"),
        ("{net: 0.05}", "every parameter"),
        ("{mix: fast}", "'fast'"),
        ("{mix: -1.0}", "-1.0"),
    ],
)  # fmt: skip
def test_rates_that_fit_no_network_are_one_line(workshop: Workshop, rates: str, said: str) -> None:
    with pytest.raises(UserError, match=said) as caught:
        build(load_recipe(stream(workshop, rates), "cpu"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("optimizer", ["torch.optim.Adam", "repro.tasks.EpsilonHatAdam"])
def test_a_resumed_run_ends_as_the_whole_one(workshop: Workshop, optimizer: str) -> None:
    swap = ("model.optimizer.optimizer.class_path", optimizer)
    recipe = load_recipe(stream(workshop, "{mix: 0.05}"), "cpu", [swap])
    run(recipe, 1, "x")
    folder = recipe.run_dir(1)
    *_, fourth, _, last = checkpoints(folder / "checkpoints")
    whole = read(last)
    kept = {fourth, manifest_path(fourth)}
    written = [*folder.rglob("*"), *(workshop.results / "runs").rglob("*")]
    for path in [path for path in written if path.is_file() and path not in kept]:
        path.unlink()
    again = run(recipe, 1, "x")
    found = read(last)
    assert (step_of(fourth), again.steps) == (4, 6)
    assert len(whole["optimizer_states"][0]["param_groups"]) == 2
    for part in ("state_dict", "optimizer_states", "lr_schedulers", "carried"):
        assert differences(found[part], whole[part], part) == []
