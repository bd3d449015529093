"""The verb cost."""

import pytest

from tests.workshop import PAPER, PROJECT, TINY, Workshop, call

BASE = f"{PAPER}/base"


@pytest.fixture
def checkout(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """The project's own recipes, everything else the test's."""
    monkeypatch.setenv("REPRO_CONFIGS", str(PROJECT / "configs"))
    return workshop


def test_cost_as_json_and_as_text(checkout: Workshop) -> None:
    (one,) = call("cost", BASE, "--scale", "cpu", "--json").json()
    assert (one["experiment"], one["scale"], one["arithmetic"]) == (BASE, "cpu", "float32")
    assert one["flops"] == one["updates"] * one["flops_per_update"]
    assert one["bytes"]["optimiser state"] >= 2 * one["bytes"]["parameters"], "Adam's two means"
    assert [gpu["name"] for gpu in one["gpus"]] == ["H100", "A100", "V100"]
    hours = one["gpus"][0]["gpu_hours"]
    assert 0 < hours["16 bits"] <= hours["TF32"] <= hours["float32"]
    assert one["gpus"][2]["gpu_hours"]["TF32"] is None, "a V100 has none"
    text = call("cost", BASE, "--scale", "cpu", "--gpu", "P100").out
    assert "P100" in text
    assert "H100" not in text
    assert "an upper bound" in text, "what was assumed is shown"


def test_settings_change_the_cost(checkout: Workshop) -> None:
    (small,) = call("cost", BASE, "--scale", "cpu", "--json").json()
    (large,) = call("cost", BASE, "--scale", "cpu", "--json", "--data.batch_tokens", str(2 * 1500)).json()
    assert large["flops_per_update"] > small["flops_per_update"]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (("nobody/nothing",), ("nobody/nothing",)),
        ((BASE, "--gpu", "H1000"), ("H1000", "H100")),
        ((f"{PAPER}/big", "--scale", "cpu"), ("cpu", "paper")),
        ((BASE, "--scale", "cpu", "--model.net.widht", "3"), ("widht",)),
        ((BASE, "--markdown", "--scale", "cpu"), ("--markdown",)),
    ],
)
def test_bad_input_is_one_line(checkout: Workshop, words: tuple[str, ...], parts: tuple[str, ...]) -> None:
    call("cost", *words).refused(*parts)


@pytest.mark.parametrize("strategy", ["fsdp", "deepspeed_stage_2"])
def test_shards_are_refused_in_one_line(workshop: Workshop, strategy: str) -> None:
    words = ("run", TINY, "--scale", "cpu", "--seed", "1", "--trainer.strategy", strategy)
    call(*words).refused("trainer.strategy", strategy, "accumulate_grad_batches")


@pytest.mark.parametrize("minutes", ["nan", "-1"])
def test_minutes_below_0_are_refused(minutes: str) -> None:
    base = "attention-is-all-you-need/base"
    call("cost", base, "--measure", f"--minutes={minutes}").refused("--minutes must be at least 0")
