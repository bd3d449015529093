"""A rank that is not well ends the whole run, soon, and says why; what is on disk stays good."""

import time

import pytest

from repro.events import status
from repro.training.checkpoints import checkpoints, fault
from tests.experiment.runner import Runner, run_folder, said
from tests.workshop import Workshop

pytestmark = [pytest.mark.ddp, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.mark.parametrize(
    ("only", "what"),
    [
        (0, "output"),
        pytest.param(1, "gradient", marks=pytest.mark.matrix),
        pytest.param(0, "gradient", marks=pytest.mark.matrix),
        pytest.param(1, "output", marks=pytest.mark.matrix),
    ],
)
def test_nan_on_one_rank_stops_both_at_that_step(
    runner: Runner, workshop: Workshop, only: int, what: str
) -> None:
    module = "net.decoder.layers.0.feed_forward"
    began = time.monotonic()
    assert runner.attempt(workshop, 2, only=only, poison=(module, 7, what)) == [1, 1], said(workshop)
    assert time.monotonic() - began < 30
    folder = run_folder(workshop)
    result = status(folder)
    assert result["state"] == "failed"
    assert result["message"].startswith("step 8 is not finite, nothing was updated: ")
    assert module in result["message"]
    if what == "output":
        assert f"rank {only}: the loss is nan" in result["message"]
        assert f"rank {1 - only}" not in result["message"]
    assert checkpoints(folder / "checkpoints")[-1].name == "step-00000006.ckpt"
    assert runner.attempt(workshop, 2) == [0, 0], "without the fault it goes on"


@pytest.mark.parametrize(
    ("name", "only"),
    [
        ("SIGKILL", 0),
        ("SIGSTOP", 1),
        pytest.param("SIGKILL", 1, marks=pytest.mark.matrix),
        pytest.param("SIGSTOP", 0, marks=pytest.mark.matrix),
    ],
)
def test_a_dead_or_stopped_rank_ends_the_others_within_the_limit(
    runner: Runner, workshop: Workshop, name: str, only: int
) -> None:
    began = time.monotonic()
    codes = runner.attempt(workshop, 2, 0, "step 8", (name,), only, REPRO_STALL_S="4")
    assert time.monotonic() - began < 30
    assert codes[1 - only] == 1, (codes, said(workshop))
    if name == "SIGSTOP":
        assert "nothing moved for 4 s (training, " in said(workshop)
        result = status(run_folder(workshop))
        assert result["state"] == "failed"
        assert "nothing moved" in result["message"]
    assert fault(checkpoints(run_folder(workshop) / "checkpoints")[-1]) is None
    assert runner.attempt(workshop, 2) == [0, 0], said(workshop)
