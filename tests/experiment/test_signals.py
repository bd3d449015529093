"""Asked to stop in any way: all ranks leave with 75, together, behind one checkpoint that is sound."""

import json

import pytest

from repro.events import status
from repro.training.checkpoints import checkpoints, fault
from tests.experiment.runner import Runner, outcome, run_folder, said
from tests.workshop import Workshop

pytestmark = [pytest.mark.ddp, pytest.mark.slow, pytest.mark.timeout(60)]


@pytest.mark.parametrize(
    ("point", "signals", "only"),
    [
        ("step 8", ("SIGUSR1",), None),
        pytest.param("step 8", ("SIGTERM",), None, marks=pytest.mark.matrix),
        pytest.param("step 8", ("SIGUSR1", "SIGTERM"), None, marks=pytest.mark.matrix),
        pytest.param("step 8", ("SIGUSR1", "SIGUSR1"), None, marks=pytest.mark.matrix),
        ("step 8", ("SIGTERM",), 1),
        pytest.param("step 8", ("SIGUSR1",), 0, marks=pytest.mark.matrix),
        ("during a save", ("SIGTERM",), 0),
    ],
)
def test_all_ranks_save_and_ask_to_be_requeued(
    runner: Runner, workshop: Workshop, point: str, signals: tuple[str, ...], only: int | None
) -> None:
    assert runner.attempt(workshop, 2, 0, point, signals, only) == [75, 75], said(workshop)
    folder = run_folder(workshop)
    result = status(folder)
    assert result["state"] == "requeue"
    assert result["attempt"] == 1
    newest = checkpoints(folder / "checkpoints")[-1]
    assert fault(newest) is None
    assert newest.name == {"step 8": "step-00000009.ckpt", "during a save": "step-00000006.ckpt"}[point]
    assert not list((folder / "checkpoints").glob(".*")), "nothing half-written is left"
    runner.attempt(workshop, 2, 0, "step 12", ("SIGUSR1",))
    assert "resuming from step " in said(workshop)
    again = status(folder)
    assert (again["attempt"], again["resumed_from"]) == (2, result["step"])


def test_a_second_run_may_use_another_number_of_ranks(runner: Runner, workshop: Workshop) -> None:
    assert runner.attempt(workshop, 2, 0, "step 8", ("SIGUSR1",)) == [75, 75]
    assert runner.attempt(workshop, 1) == [0], said(workshop)
    (record,) = workshop.records()
    assert json.loads(record.read_text())["tokens"] == runner.whole(1).checkpoint["tokens"]


@pytest.mark.timeout(120)  # three attempts
def test_rank_0_verifies_checkpoints_for_all(runner: Runner, workshop: Workshop) -> None:
    assert runner.attempt(workshop, 2, 0, "step 8", ("SIGUSR1",)) == [75, 75], said(workshop)
    newest = checkpoints(run_folder(workshop) / "checkpoints")[-1]
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    assert runner.attempt(workshop, 2) == [0, 0], said(workshop)
    assert f"{newest.name} is damaged (its SHA-256" in said(workshop)
    assert "resuming from step 6" in said(workshop)
    lines = (workshop.runs / "verified.jsonl").read_text().splitlines()
    assert {rank for rank, name in map(json.loads, lines) if name.endswith(".ckpt")} == {0}
    assert outcome(workshop).record == runner.whole(2).record


@pytest.mark.timeout(120)
@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_refuse_a_checkpoint_together(runner: Runner, workshop: Workshop, rank: int) -> None:
    assert runner.attempt(workshop, 2, 0, "step 8", ("SIGUSR1",)) == [75, 75], said(workshop)
    assert runner.attempt(workshop, 2, OTHER_CODE=str(rank)) == [2, 2], said(workshop)
    assert said(workshop).count("was written with other code, packages or data") == 2
    assert runner.attempt(workshop, 2) == [0, 0], said(workshop)


def test_a_signal_during_the_test_leaves_at_once_and_the_test_is_repeated(
    runner: Runner, workshop: Workshop
) -> None:
    assert runner.attempt(workshop, 2, 0, "during the test", ("SIGTERM",), 1) == [75, 75], said(workshop)
    assert not workshop.records()
    assert runner.attempt(workshop, 2) == [0, 0], said(workshop)
    (record,) = workshop.records()
    assert json.loads(record.read_text())["metrics"] == runner.whole(2).record
