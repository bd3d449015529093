"""GPU hours are the recipe's estimate, unknown where it does not say, never more than told."""

import re

import pytest

from repro.errors import UserError
from repro.launch.cost import Expectation, describe_cost, expectation
from repro.launch.slurm.profile import load_profile
from repro.launch.targets import resolve_targets
from repro.recipe import load_recipe
from tests.launch.conftest import World, named


def test_an_expectation_is_the_header_of_its_scale(world: World) -> None:
    assert expectation(load_recipe("alpha/base", "paper")) == Expectation(12, 8, "NVIDIA P100")
    assert expectation(load_recipe("alpha/base", "cpu")).devices == 0
    assert expectation(load_recipe("beta/only", "paper")) is None


def test_the_sum_over_runs(world: World) -> None:
    specs = resolve_targets(["alpha/base", "beta/only"], "paper", named(1, 2, 3))
    text = "\n".join(describe_cost(specs, load_profile("site")))
    assert "288 GPU hours, 36 h of runs (8 x NVIDIA P100)" in text
    assert "unknown for beta/only" in text
    assert "6 x 8 GPUs for up to 1-00:00:00 an attempt, at most 1152 GPU hours" in text


def test_a_cpu_run_costs_no_gpu(world: World) -> None:
    text = "\n".join(describe_cost(resolve_targets(["alpha/base"], "cpu", named(1)), load_profile("cpu")))
    assert "0 GPU hours, 0.5 h of runs (2 CPU cores)" in text
    assert "2 CPU cores, no GPU" in text
    assert "unknown" not in text


def test_a_run_that_all_attempts_together_cannot_end_is_refused(world: World) -> None:
    """Hardware may be ten times as fast as that of the estimate; fewer updates take less."""
    world.write("clusters/day.yaml", 'time: "00:30:00"\ngpus_per_node: 1\nmax_requeues: 1\n')
    day = load_profile("day")
    with pytest.raises(
        UserError, match=r"estimated at 96 hours of NVIDIA P100, .* give 1 GPU hours in all attempts"
    ):
        describe_cost(resolve_targets(["alpha/base"], "paper", named(1)), day)
    assert describe_cost(resolve_targets(["alpha/base"], "cpu", named(1)), day)
    few = resolve_targets(["alpha/base"], "paper", named(1), [("trainer.max_steps", 1)])
    assert "9.6 GPU hours" in "\n".join(describe_cost(few, day))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{hours: 12}", "gamma/bad: a scale gives hours"),
        ("{hours: -1, devices: 1, hardware: x}", "gamma/bad (paper): hours: -1 is not a number above 0"),
        ("{hours: many, devices: 8, hardware: P100}", "gamma/bad (paper): hours: 'many' is not a number"),
        ("{hours: 1, devices: [1], hardware: x}", "gamma/bad (paper): devices: [1] is not a whole number"),
    ],
)
def test_a_malformed_header_is_named(world: World, header: str, message: str) -> None:
    world.write("configs/gamma/bad.yaml", f"title: bad\nscales: {{paper: {header}}}\n")
    with pytest.raises(UserError, match=re.escape(message)):
        expectation(load_recipe("gamma/bad", "paper"))
